"""|E(p) - E(t)| / E(t), E the mean of squares over all channels, times and points inside the domain."""

from __future__ import annotations

import numpy as np

from pdebench_hss import Setting


def energy_error(prediction: np.ndarray, target: np.ndarray, setting: Setting) -> np.ndarray:
    """``(n, channels, *grid)``, rollouts ``(n, steps, channels, *grid)``, to ``(n,)``."""
    predicted, true = _energy(prediction, setting), _energy(target, setting)
    return np.abs(predicted - true) / np.where(true > 0, true, np.nan)


def _energy(fields: np.ndarray, setting: Setting) -> np.ndarray:
    inside = fields if setting.mask is None else fields[..., setting.mask]
    return np.square(inside).reshape(len(fields), -1).mean(axis=1)
