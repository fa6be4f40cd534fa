"""Relative H1: errors of the field and of its slopes in one number.

    sqrt(|e|^2 + |grad e|^2) / sqrt(|t|^2 + |grad t|^2),   e = p - t

|.|^2 is the mean of squares over the points inside the domain, and of differences of neighbours over their distance,
axis by axis, over the pairs of neighbours that both lie inside. All channels and times are one vector.
"""

from __future__ import annotations

import numpy as np

from ..contract.metric import Setting
from .arrays import frames


def relative_h1(prediction: np.ndarray, target: np.ndarray, setting: Setting) -> np.ndarray:
    t = frames(target, setting)  # (n, steps, channels, *grid)
    size = _squares(t, setting)
    error = _squares(frames(prediction, setting) - t, setting)
    return np.sqrt(error / np.where(size > 0, size, 1.0))


def _squares(fields: np.ndarray, setting: Setting) -> np.ndarray:
    """|v|^2 + |grad v|^2, ``(n,)``."""
    mask = np.ones(setting.grid, bool) if setting.mask is None else setting.mask
    total = _mean_square(fields, mask)
    for axis, spacing in enumerate(setting.spacing, start=-setting.dim):
        total = total + _mean_square(
            _ahead(fields, axis, setting.periodic, np.subtract) / spacing, _pairs(mask, axis, setting)
        )
    return total


def _pairs(mask: np.ndarray, axis: int, setting: Setting) -> np.ndarray:
    """Where a point and the next one along an axis are both inside."""
    return _ahead(mask, axis, setting.periodic, np.logical_and)


def _ahead(values: np.ndarray, axis: int, periodic: bool, combine: np.ufunc) -> np.ndarray:
    """Each value's next neighbour along an axis, combined with it; one fewer along the axis unless that is periodic."""
    if periodic:
        return combine(np.roll(values, -1, axis), values)
    n = values.shape[axis]
    return combine(values.take(range(1, n), axis), values.take(range(n - 1), axis))


def _mean_square(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """``(n, steps, channels, *shape) -> (n,)`` over what the mask ``(*shape)`` marks; 0 if that is nothing."""
    if not mask.any():
        return np.zeros(len(values))
    kept = values if mask.all() else values[..., mask]
    return np.square(kept).reshape(len(values), -1).mean(axis=1)
