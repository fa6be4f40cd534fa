"""Shapes that metrics share: steady fields are trajectories of one frame."""

from __future__ import annotations

import numpy as np

from ..contract.metric import Setting


def frames(fields: np.ndarray, setting: Setting) -> np.ndarray:
    """``(n, channels, *grid)`` or ``(n, steps, channels, *grid)`` -> ``(n, steps, channels, *grid)``."""
    return fields if setting.rollout else fields[:, None]


def inside(fields: np.ndarray, setting: Setting) -> np.ndarray:
    """The values at points inside the domain, ``(n, steps, channels, points)``."""
    fields = frames(fields, setting)
    if setting.mask is not None:
        return fields[..., setting.mask]
    return fields.reshape(*fields.shape[:3], -1)


def zero_outside(fields: np.ndarray, setting: Setting) -> np.ndarray:
    """``(n, steps, channels, *grid)``, zero outside the domain, where a model's output does not count."""
    fields = frames(fields, setting)
    return fields if setting.mask is None else np.where(setting.mask, fields, 0.0)


def mean_over_frames(values: np.ndarray) -> np.ndarray:
    """``(n, steps, channels) -> (n,)``."""
    return values.mean(axis=(1, 2))
