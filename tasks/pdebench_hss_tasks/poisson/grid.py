"""The grid convention of every task in this folder, and moving between nested grids.

Along each axis of the unit box there are n points

    x_j = j h,   j = 0 .. n - 1,   h = 1 / n.

This is the reading of the paper's "1024 grid points with spacing h = 1/1024" that is consistent with itself: the
left end is on the grid, the right end x_n = 1 is one spacing beyond it. What happens there is known from the
boundary condition (u = 0, or u(1) = u(0) if periodic) and is not stored. Grids whose n divide one another are nested:
every r-th point of n points is the same convention with n / r points, so down-sampling moves no boundary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pdebench_hss import Scale


def points(grid: Sequence[int]) -> np.ndarray:
    """Coordinates of the grid points, ``(dim, *grid)``."""
    axes = [np.arange(n) / n for n in grid]
    return np.stack(np.meshgrid(*axes, indexing="ij"))


def solve_shape(size: Scale) -> tuple[int, ...]:
    """The resolution of the solve, ``options["solve"]``; an error unless the models' grid is nested in it."""
    shape = tuple(int(n) for n in size.options["solve"])
    if len(shape) != len(size.grid) or any(n % m for n, m in zip(shape, size.grid, strict=True)):
        raise ValueError(f"solve={shape} must be a multiple of the grid {size.grid} along each axis")
    return shape


def options_at(options: Mapping[str, Any], grid: Sequence[int]) -> dict[str, Any]:
    """On another grid: the same solve if the grid is nested in it, else the least multiple of the grid that is no
    coarser."""
    solve = tuple(m * -(-n // m) for n, m in zip(options["solve"], grid, strict=True))
    return {**options, "solve": solve}


def restrict(fields: np.ndarray, grid: Sequence[int]) -> np.ndarray:
    """Every r-th point: ``(..., *fine) -> (..., *grid)``."""
    fine = fields.shape[-len(grid) :]
    if any(n % m for n, m in zip(fine, grid, strict=True)):
        raise ValueError(f"the grid {tuple(grid)} is not nested in {fine}: each size must divide the finer one")
    steps: tuple[Any, ...] = (Ellipsis, *(slice(None, None, n // m) for n, m in zip(fine, grid, strict=True)))
    return np.ascontiguousarray(fields[steps])


def coarse_shape(size: Scale, level: int) -> tuple[int, ...]:
    """The dataset's own resolution, halved ``level`` times."""
    return tuple(n // 2**level for n in solve_shape(size))


def interpolate(fields: np.ndarray, grid: Sequence[int], periodic: bool) -> np.ndarray:
    """Linear interpolation along each axis: ``(..., *coarse) -> (..., *grid)``; x = 1 is x = 0 again, or zero."""
    for axis, n in zip(range(-len(grid), 0), grid, strict=True):
        matrix = _interpolation(fields.shape[axis], n, periodic)
        fields = np.moveaxis(np.tensordot(fields, matrix, axes=(axis, 1)), -1, axis)
    return fields


def _interpolation(coarse: int, fine: int, periodic: bool) -> np.ndarray:
    """The matrix ``(fine, coarse)`` of linear interpolation."""
    left, share = np.divmod(np.arange(fine) * coarse / fine, 1)
    left = left.astype(int)
    matrix = np.zeros((fine, coarse + 1))
    matrix[np.arange(fine), left] = 1 - share
    matrix[np.arange(fine), left + 1] += share
    if periodic:
        matrix[:, 0] += matrix[:, coarse]
    return matrix[:, :coarse]
