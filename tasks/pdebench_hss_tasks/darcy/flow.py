"""-div(a grad u) = 1 on the unit square, u = 0 on its boundary, by finite volumes.

Models see a as a value per cell, x_i = (i + 1/2) / n, and u as the mean over each cell. The problem that is solved has
just this a, constant on each cell, so that nothing about it is hidden from the models: each cell is divided into
r x r smaller ones (``refine``), and

    sum over the four faces of T (u_here - u_there) = h^2,   T = 2 a_here a_there / (a_here + a_there),

with T = 2 a on the boundary, where u = 0 is half a cell away. With the harmonic mean the flux is continuous where a
jumps.

The system is solved by conjugate gradients with the Laplacian on the same cells as preconditioner. That one is diagonal
in sin(k pi (i + 1/2) / N), and the spectrum of the preconditioned matrix lies between the least and the greatest value
of T: for a in {3, 12} its condition number is at most 4, and each step divides the error by 3 at least, on every grid.
Li et al. solve with second-order differences on 421^2 points and take every fifth.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.fft import dstn, idstn

from pdebench_hss import Scale

from .permeability import permeability

TOLERANCE = 1e-12  # of the residual in the preconditioner's norm, relative to the right-hand side's
MOST_STEPS = 2000


def cell_centres(grid: Sequence[int]) -> np.ndarray:
    """Coordinates ``(2, n, n)``."""
    axes = [(np.arange(n) + 0.5) / n for n in grid]
    return np.stack(np.meshgrid(*axes, indexing="ij"))


def generate(seeds: Sequence[int], size: Scale, lognormal: bool) -> tuple[np.ndarray, np.ndarray]:
    """a and u, each ``(samples, 1, n, n)``."""
    a = permeability(seeds, size.grid[0], lognormal)
    return a[:, None], pressure(a, size.options["refine"])[:, None]


def coarse(inputs: np.ndarray, level: int, size: Scale, lognormal: bool) -> np.ndarray:
    """The same scheme with half as many cells along each axis per level.

    Where its cells are larger than the models', a is their harmonic mean, and u is the same in all that it covers.
    """
    a, refine = inputs[:, 0], size.options["refine"]
    if refine >> level:
        return pressure(a, refine >> level)[:, None]
    larger = 2**level // refine  # of the models' cells along an axis of a coarse one
    u = pressure(1 / cell_means(1 / a, larger), 1)
    return np.repeat(np.repeat(u, larger, axis=1), larger, axis=2)[:, None]


def pressure(a: np.ndarray, refine: int) -> np.ndarray:
    """Means of u over the cells on which a is given, ``(samples, n, n) -> (samples, n, n)``.

    One sample at a time: each has its own number of steps, and must not depend on the others.
    """
    ones = np.ones((refine, refine))
    return np.stack([cell_means(solve(np.kron(sample, ones))[None], refine)[0] for sample in a])


def cell_means(fields: np.ndarray, width: int) -> np.ndarray:
    """Of blocks of width x width cells: ``(samples, n width, n width) -> (samples, n, n)``."""
    n = fields.shape[1] // width
    return fields.reshape(len(fields), n, width, n, width).mean(axis=(2, 4))


def solve(a: np.ndarray) -> np.ndarray:
    """u in the cells of a, ``(N, N) -> (N, N)``."""
    across, along = transmissibilities(a), transmissibilities(a.T)
    inverse_laplacian = 1 / laplacian_eigenvalues(len(a))
    u, residual = np.zeros_like(a), np.full_like(a, 1 / a.size)
    z = idstn(inverse_laplacian * dstn(residual, type=2), type=2)
    direction, size = z, np.vdot(residual, z)
    target = TOLERANCE**2 * size
    for _ in range(MOST_STEPS):
        image = apply(across, along, direction)
        step = size / np.vdot(direction, image)
        u = u + step * direction
        residual = residual - step * image
        z = idstn(inverse_laplacian * dstn(residual, type=2), type=2)
        size, before = np.vdot(residual, z), size
        if size <= target:
            return u
        direction = z + size / before * direction
    raise ValueError(f"a between {a.min():.3g} and {a.max():.3g}: no solution after {MOST_STEPS} steps")


def transmissibilities(a: np.ndarray) -> np.ndarray:
    """T of the N + 1 faces that are crossed along the first axis, ``(N + 1, N)``."""
    inner = 2 * a[1:] * a[:-1] / (a[1:] + a[:-1])
    return np.concatenate([2 * a[:1], inner, 2 * a[-1:]])


def apply(across: np.ndarray, along: np.ndarray, u: np.ndarray) -> np.ndarray:
    """What leaves each cell through its faces, ``(N, N)``; `along` is that of the transposed field."""
    return _outflow(across, u) + _outflow(along, u.T).T


def _outflow(faces: np.ndarray, u: np.ndarray) -> np.ndarray:
    edge = np.zeros_like(u[:1])
    flux = faces * np.diff(np.concatenate([edge, u, edge]), axis=0)  # (N + 1, N); beyond the boundary u = 0
    return flux[:-1] - flux[1:]


def laplacian_eigenvalues(cells: int) -> np.ndarray:
    """Of the scheme with a = 1, in the order of a sine transform of type II: ``(N, N)``."""
    along = 2 - 2 * np.cos(np.pi * np.arange(1, cells + 1) / cells)
    return along[:, None] + along
