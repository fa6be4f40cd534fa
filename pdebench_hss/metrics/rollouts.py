"""How trajectories diverge: the error at every step, and how long prediction and target stay correlated."""

from __future__ import annotations

import numpy as np

from ..contract.metric import Setting
from ..training.metrics import sample_errors
from .arrays import inside

THRESHOLD = 0.8


def errors_by_step(prediction: np.ndarray, target: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
    """Relative L2 of each frame, ``(n, steps, channels, *grid) -> (n, steps)``."""
    n, steps = target.shape[:2]
    flat = (n * steps, *target.shape[2:])
    return sample_errors(prediction.reshape(flat), target.reshape(flat), "relative_l2", mask)["test_err"].reshape(
        n, steps
    )


def correlation_time(prediction: np.ndarray, target: np.ndarray, setting: Setting) -> np.ndarray:
    """How many steps pass before the correlation first falls below the threshold, ``(n,)``; all if it never does."""
    below = correlations(prediction, target, setting) < THRESHOLD  # (n, steps)
    return np.where(below.any(axis=1), below.argmax(axis=1), below.shape[1]).astype(float)


def correlations(prediction: np.ndarray, target: np.ndarray, setting: Setting) -> np.ndarray:
    """Pearson's correlation over points, mean over channels, ``(n, steps)``.

    A constant target correlates with nothing: its channel is left out, and a frame without any other counts as 1. A
    constant prediction of a target that varies has correlation 0.
    """
    p, t = (_centred(inside(fields, setting)) for fields in (prediction, target))  # (n, steps, channels, points)
    sizes = np.linalg.norm(p, axis=-1) * np.linalg.norm(t, axis=-1)  # (n, steps, channels)
    found = np.einsum("...i,...i->...", p, t) / np.where(sizes > 0, sizes, 1.0)
    varies = np.linalg.norm(t, axis=-1) > 0
    counted = varies.sum(axis=-1)  # (n, steps)
    return np.where(counted > 0, (found * varies).sum(axis=-1) / np.maximum(counted, 1), 1.0)


def _centred(values: np.ndarray) -> np.ndarray:
    return values - values.mean(axis=-1, keepdims=True)
