"""Generators and classical solver of the tasks on the box with u = 0 on the boundary."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pdebench_hss.task import Scale

from . import box, forcing
from .grid import restrict, solve_shape

MODES = 10


def generate_1d(seeds: Sequence[int], size: Scale, edge: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """f and u on the models' grid, each ``(samples, 1, n)``; f is zero at ``edge`` points at each end."""
    shape = solve_shape(size.grid, size.options)
    f = box.synthesize(forcing.even_sines(seeds, 1, size.options.get("modes", MODES)), shape)
    f = _zero_ends(f, edge)
    return _as_channel(f, size.grid), _as_channel(box.solve(f), size.grid)


def coarse_1d(inputs: np.ndarray, level: int, size: Scale, edge: int = 1) -> np.ndarray:
    """The same stencil on a grid 2**level times coarser; fields move between grids as sine series."""
    f = box.resample(inputs[:, 0], coarse_shape(size, level))
    return box.resample(box.solve(_zero_ends(f, edge)), size.grid)[:, None]


def coarse_shape(size: Scale, level: int) -> tuple[int, ...]:
    """The dataset's own resolution, halved ``level`` times."""
    return tuple(n // 2**level for n in solve_shape(size.grid, size.options))


def _zero_ends(f: np.ndarray, edge: int) -> np.ndarray:
    """Points 0..edge-1 and their mirror images; the mirror image of point 0 is x = 1, which is not stored."""
    f[:, :edge] = 0.0
    f[:, f.shape[1] - edge + 1 :] = 0.0
    return f


def _as_channel(fields: np.ndarray, grid: Sequence[int]) -> np.ndarray:
    """``(samples, *shape) -> (samples, 1, *grid)``."""
    return restrict(fields, grid)[:, None]
