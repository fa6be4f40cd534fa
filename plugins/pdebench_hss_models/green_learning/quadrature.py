"""Quadrature weights for the integral of G(x, .) f over a task's grid: the trapezoidal rule along each axis.

Grids of points j / n hold their left end and not their right one. The value at a missing end follows from the boundary
condition:

    Dirichlet   G vanishes on the boundary, so the end adds nothing: the last point weighs h, like every other
    periodic    the end is the first point again: all points weigh h
    otherwise   G(x, .) f is extrapolated linearly from the two points next to the end, which keeps the rule of
                second order: the last two points of a grid j / n weigh h / 2 and 2 h

Giving all of the space up to the end to the last point (1.5 h) would be of first order: with the exact kernel and rough
forcing, that cell's error dominates (tests/models/test_green_kernels.py).
"""

from __future__ import annotations

import numpy as np

from pdebench_hss import TaskInfo


def cell_sizes(task: TaskInfo) -> np.ndarray:
    """The weight of each grid point, shape ``grid``: a product of one rule an axis."""
    sizes = np.ones(task.grid)
    for axis, (low, high) in enumerate(task.domain):
        x = np.moveaxis(task.coords[axis], axis, 0)
        x = x.reshape(len(x), -1)[:, 0]  # (n,): the grid is a product of axes
        if task.periodic:
            weights = np.full(len(x), (high - low) / len(x))
        else:
            weights = trapezoidal(x, low, high, vanishes=task.boundary == "dirichlet")
        sizes *= weights.reshape(-1, *(1,) * (task.dim - axis - 1))
    return sizes


def trapezoidal(x: np.ndarray, low: float, high: float, vanishes: bool) -> np.ndarray:
    """Weights (n,) on [low, high] for ascending points ``x``, at least two; ``vanishes``: zero at missing ends."""
    weights = np.zeros(len(x))
    weights[:-1] += np.diff(x) / 2
    weights[1:] += np.diff(x) / 2
    for gap, last, next_to_last in ((x[0] - low, 0, 1), (high - x[-1], -1, -2)):
        weights[last] += gap / 2  # the trapezium between the last point and the end; 0 where the end is a point
        if not vanishes:  # its value at the end: (1 + beyond) * last - beyond * next to last
            beyond = gap / abs(x[last] - x[next_to_last])
            weights[last] += gap / 2 * (1 + beyond)
            weights[next_to_last] -= gap / 2 * beyond
    return weights
