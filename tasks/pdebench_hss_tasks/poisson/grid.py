"""The grid convention of every task in this folder, and moving between nested grids.

Along each axis of the unit box there are n points

    x_j = j h,   j = 0 .. n - 1,   h = 1 / n.

This is the reading of the paper's "1024 grid points with spacing h = 1/1024" that is consistent with itself: the
left end is on the grid, the right end x_n = 1 is one spacing beyond it. What happens there is known from the
boundary condition (u = 0, or u(1) = u(0) if periodic) and is not stored. Grids whose n divide one another are nested:
every r-th point of n points is the same convention with n / r points, so down-sampling moves no boundary.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def points(grid: Sequence[int]) -> np.ndarray:
    """Coordinates of the grid points, ``(dim, *grid)``."""
    axes = [np.arange(n) / n for n in grid]
    return np.stack(np.meshgrid(*axes, indexing="ij"))


def solve_shape(grid: Sequence[int], options: dict) -> tuple[int, ...]:
    """The resolution of the solve, ``options["solve"]``; an error unless the models' grid is nested in it."""
    shape = tuple(int(n) for n in options.get("solve", grid))
    if len(shape) != len(grid) or any(n % m for n, m in zip(shape, grid)):
        raise ValueError(f"solve={shape} must be a multiple of the grid {tuple(grid)} along each axis")
    return shape


def restrict(fields: np.ndarray, grid: Sequence[int]) -> np.ndarray:
    """Every r-th point: ``(..., *fine) -> (..., *grid)``."""
    fine = fields.shape[-len(grid) :]
    if any(n % m for n, m in zip(fine, grid)):
        raise ValueError(f"the grid {tuple(grid)} is not nested in {fine}: each size must divide the finer one")
    steps = tuple(slice(None, None, n // m) for n, m in zip(fine, grid))
    return np.ascontiguousarray(fields[(..., *steps)])
