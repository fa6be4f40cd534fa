"""Generators and classical solver of the tasks on the box with u = 0 on the boundary."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pdebench_hss import Scale

from . import box, forcing
from .grid import coarse_shape, restrict, solve_shape

Pair = tuple[np.ndarray, np.ndarray]
BLOCK_POINTS = 2**18  # solved at once: many small fields together, 3D fields one by one to need little memory


def generate_1d(seeds: Sequence[int], size: Scale, edge: int = 1) -> Pair:
    """f and u, each ``(samples, 1, n)``; f is set to zero at ``edge`` points at each end."""
    coefficients = forcing.full_sum(seeds, dim=1, terms=size.options["modes"], factor=2)
    f = _zero_ends(box.synthesize(coefficients, solve_shape(size)), edge)
    return restrict(f, size.grid)[:, None], restrict(box.solve(f), size.grid)[:, None]


def generate_2d(seeds: Sequence[int], size: Scale, drawn: bool = False) -> Pair:
    """f and u, each ``(samples, 1, n, n)``."""
    return _pair(forcing.square(seeds, size.options["modes"], drawn), size)


def generate_3d(seeds: Sequence[int], size: Scale, drawn: bool = True) -> Pair:
    """f and u, each ``(samples, 1, n, n, n)`` in float32; one sample at a time, to need little memory."""
    terms = size.options["modes"]
    inputs = np.empty((len(seeds), 1, *size.grid), np.float32)
    outputs = np.empty_like(inputs)
    for i, seed in enumerate(seeds):
        if drawn:
            coefficients = forcing.drawn([seed], dim=3, terms=terms, factor=1, choices=range(3, terms + 4))
        else:
            coefficients = forcing.full_sum([seed], dim=3, terms=terms, factor=1)
        inputs[i : i + 1], outputs[i : i + 1] = _pair(coefficients, size)
    return inputs, outputs


def generate_field(seeds: Sequence[int], size: Scale, length: float) -> Pair:
    """f a Gaussian random field with every mode of the models' grid, and u; 1D and 2D."""
    return _pair(forcing.gaussian_field(seeds, size.grid, length), size)


def coarse(inputs: np.ndarray, level: int, size: Scale, edge: int = 1, **_of_the_forcing: object) -> np.ndarray:
    """The same stencil on a grid 2**level times coarser; fields move between grids as sine series."""
    shape = coarse_shape(size, level)
    outputs = np.empty(inputs.shape)
    block = max(1, BLOCK_POINTS // max(np.prod(shape), np.prod(size.grid)))
    for i in range(0, len(inputs), block):
        f = box.resample(inputs[i : i + block, 0].astype(np.float64), shape)  # (block, *shape)
        if edge > 1:
            f = _zero_ends(f, edge)
        outputs[i : i + block, 0] = to_grid(box.solve(f), size.grid)
    return outputs


def to_grid(u: np.ndarray, grid: Sequence[int]) -> np.ndarray:
    """Take the points where the solve was finer than the models' grid, interpolate where it was coarser."""
    return restrict(u, grid) if u.shape[1] >= grid[0] else box.resample(u, grid)


def _zero_ends(f: np.ndarray, edge: int) -> np.ndarray:
    """Points 0..edge-1 and their mirror images; the mirror image of point 0 is x = 1, which is not stored."""
    f[:, :edge] = 0.0
    f[:, f.shape[1] - edge + 1 :] = 0.0
    return f


def _pair(coefficients: np.ndarray, size: Scale) -> Pair:
    """f and u from the sine coefficients of f, solved at the dataset's resolution, as ``(samples, 1, *grid)``."""
    shape = solve_shape(size)
    f = restrict(box.synthesize(coefficients, shape), size.grid)
    u = restrict(box.solve_series(coefficients, shape), size.grid)
    return f[:, None], u[:, None]
