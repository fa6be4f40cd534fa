"""Errors point by point: of everything as one vector, and of each channel at each time.

For one channel at one time, over the N points inside the domain, with prediction p and target t:

    nRMSE   sqrt(mean (p - t)^2) / sqrt(mean t^2)
    VRMSE   sqrt(mean (p - t)^2 / (var t + 1e-7)),   var with N - 1
    cRMSE   |sum p - sum t| / N:  the error of the conserved quantity

and then the mean over channels and times.
"""

from __future__ import annotations

import numpy as np

from ..contract.metric import Setting
from ..training.metrics import sample_errors
from .arrays import inside, mean_over_frames

EPSILON = 1e-7  # The Well's


def field_errors(prediction: np.ndarray, target: np.ndarray, setting: Setting) -> dict[str, np.ndarray]:
    return sample_errors(prediction, target, "relative_l2", setting.mask)


def channel_errors(prediction: np.ndarray, target: np.ndarray, setting: Setting) -> dict[str, np.ndarray]:
    t = inside(target, setting)  # (n, steps, channels, points)
    difference = inside(prediction, setting) - t
    mse = np.square(difference).mean(axis=-1)  # (n, steps, channels)
    size = np.square(t).mean(axis=-1)
    variance = t.var(axis=-1, ddof=1) if t.shape[-1] > 1 else np.zeros_like(size)
    found = {
        "nrmse": np.sqrt(mse / np.where(size > 0, size, 1.0)),
        "vrmse": np.sqrt(mse / (variance + EPSILON)),
        "crmse": np.abs(difference.mean(axis=-1)),
    }
    return {name: mean_over_frames(values) for name, values in found.items()}
