"""bRMSE: the error on the boundary of the domain.

    sqrt(sum w (p - t)^2 / sum w),   w = how many of a point's 2 dim neighbours lie outside the domain

On a whole grid w is 1 on a face and 2 where two faces meet: PDEBench's sums over faces, (2 nx + 2 ny) in the plane. A
periodic box has no boundary, but PDEBench uses its faces; so do we, unless a mask gives it a real one.
"""

from __future__ import annotations

import numpy as np

from ..contract.metric import Setting
from .arrays import frames, mean_over_frames


def brmse(prediction: np.ndarray, target: np.ndarray, setting: Setting) -> np.ndarray:
    weights = boundary_weights(setting)  # (*grid)
    edge = weights > 0
    difference = frames(prediction, setting)[..., edge] - frames(target, setting)[..., edge]
    mse = np.square(difference) @ (weights[edge] / weights.sum())  # (n, steps, channels)
    return mean_over_frames(np.sqrt(mse))


def boundary_weights(setting: Setting) -> np.ndarray:
    """How many neighbours of each point inside the domain are outside of it, ``(*grid)``; 0 at points outside."""
    inside = np.ones(setting.grid, bool) if setting.mask is None else setting.mask
    wraps = setting.periodic and setting.mask is not None
    padded = np.pad(inside, 1, mode="wrap") if wraps else np.pad(inside, 1, constant_values=False)
    core = (slice(1, -1),) * setting.dim
    neighbours = [np.roll(padded, shift, axis)[core] for axis in range(setting.dim) for shift in (-1, 1)]
    return np.where(inside, sum((~near).astype(float) for near in neighbours), 0.0)
