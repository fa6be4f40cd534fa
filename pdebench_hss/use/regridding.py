"""Interpolating fields from one grid of a task to another, for models whose weights belong to one grid.

Each axis separately: a periodic field by its Fourier series (with the modes that both grids hold), any other by the
cubic spline through its points. A grid may omit its right end, where the boundary condition gives the value; there the
last piece of the spline is extended. The interpolation error is part of the error that is reported for a model used
this way.
"""

from __future__ import annotations

import numpy as np

from ..contract.task import TaskInfo


def refusal(task: TaskInfo) -> str:
    """Why fields of a task can't be interpolated to another grid; empty if they can."""
    return "its domain has an edge inside the grid, across which fields can't be interpolated" if _masked(task) else ""


def _masked(task: TaskInfo) -> bool:
    return task.mask is not None


def carry(fields: np.ndarray, start: TaskInfo, end: TaskInfo) -> np.ndarray:
    """``(..., *grid of start) -> (..., *grid of end)``"""
    from scipy.interpolate import CubicSpline
    from scipy.signal import resample

    values = np.asarray(fields, dtype=np.float64)
    for axis in range(start.dim):
        place = values.ndim - start.dim + axis
        if start.periodic:
            values = resample(values, end.grid[axis], axis=place)
        else:
            here, there = (_points(task, axis) for task in (start, end))
            values = CubicSpline(here, values, axis=place)(there)
    return np.ascontiguousarray(values)


def _points(task: TaskInfo, axis: int) -> np.ndarray:
    """Coordinates along an axis, ``(grid[axis],)``."""
    first = tuple(slice(None) if other == axis else 0 for other in range(task.dim))
    return task.coords[axis][first]
