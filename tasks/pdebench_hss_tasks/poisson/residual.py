"""What is left of -Lap u = f on the grid that models see.

* u = 0 on the edges of the box: the sine series through the interior points is differentiated exactly,
  (pi k)^2 b_k - a_k for the coefficients b of u and a of f. The data solve a fourth-order scheme on a finer grid, so
  their residual is the error of that scheme. Values on the boundary don't enter: those are for bRMSE.
* other boundaries: the stencils of `box.py` at the points where the whole stencil lies inside the domain. With
  D = 2 u_j - u_{j-1} - u_{j+1} along an axis,

      1D   (D + D^2 / 12) u / h^2 - f
      2D   (Dx + Dy - Dx Dy / 6) u / h^2 - (1 - (Dx + Dy) / 12) f

  Their own error on a coarse grid is in the residual of the data, too.

The scale is f at the same modes or points.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from pdebench_hss import Scale

from . import box, disk, lshape

Residual = tuple[np.ndarray, np.ndarray]


def on_box(inputs: np.ndarray, outputs: np.ndarray, size: Scale, **_of_the_forcing: object) -> Residual:
    """Each ``(n, *(grid - 1))``: coefficients of sines."""
    f, u = box.analyze(inputs[:, 0]), box.analyze(outputs[:, 0])
    squares = [(np.pi * np.arange(1, n)) ** 2 for n in size.grid]
    laplacian = np.asarray(sum(np.meshgrid(*squares, indexing="ij", sparse=True)))
    return laplacian * u - f, f


def on_interval(inputs: np.ndarray, outputs: np.ndarray, size: Scale, **_of_the_forcing: object) -> Residual:
    """Each ``(n, grid - 4)``: the points that have two neighbours on either side."""
    once = _differences(outputs[:, 0], {1})  # (n, grid - 2)
    twice = _differences(once, {1})  # (n, grid - 4)
    f = inputs[:, 0, 2:-2]
    return (once[:, 1:-1] + twice / 12) * size.grid[0] ** 2 - f, f


def on_lshape(inputs: np.ndarray, outputs: np.ndarray, size: Scale, **_of_the_forcing: object) -> Residual:
    return _nine_points(inputs[:, 0], outputs[:, 0], lshape.mask(size.grid))


def around_disk(inputs: np.ndarray, outputs: np.ndarray, size: Scale, **_of_the_forcing: object) -> Residual:
    return _nine_points(inputs[:, 0], outputs[:, 0], disk.mask(size.grid))


def _nine_points(f: np.ndarray, u: np.ndarray, mask: np.ndarray) -> Residual:
    """Each ``(n, points)``: those with eight neighbours inside the domain."""
    whole = sliding_window_view(mask, (3, 3)).all(axis=(-2, -1))  # (*(grid - 2))
    left = (_differences(u, {1}) + _differences(u, {2}) - _differences(u, {1, 2}) / 6) * mask.shape[0] ** 2
    right = _differences(f, ()) - (_differences(f, {1}) + _differences(f, {2})) / 12
    return (left - right)[:, whole], _differences(f, ())[:, whole]


def _differences(fields: np.ndarray, axes: Collection[int]) -> np.ndarray:
    """D along some axes; the others lose their ends as well: ``(n, *grid) -> (n, *(grid - 2))``."""
    for axis in range(1, fields.ndim):
        n = fields.shape[axis]
        before, here, after = (fields.take(range(start, n - 2 + start), axis) for start in (0, 1, 2))
        fields = 2 * here - before - after if axis in axes else here
    return fields
