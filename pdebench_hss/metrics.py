"""Error measures: one number per test sample, in physical units, over the points inside the domain.

``relative_l2``    ||pred - target|| / ||target||, all channels (and times) stacked     (paper, Metrics, first)
``trajectory_l2``  ||pred - target|| over the whole trajectory as one vector            (paper, Metrics, second)

A test error is the mean over samples. Every trial also reports ``rmse`` (independent of grid and length) and
``max_error``, so that boards made at different sizes can be read side by side.
"""

from __future__ import annotations

import numpy as np


def sample_errors(
    prediction: np.ndarray, target: np.ndarray, metric: str, mask: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Per-sample errors ``(n,)`` by name; the task's own metric is also under ``test_err``."""
    if prediction.shape != target.shape:
        raise ValueError(f"prediction has shape {prediction.shape}, target {target.shape}")
    difference = _flat(prediction, mask) - _flat(target, mask)  # (n, values inside)
    size = np.linalg.norm(_flat(target, mask), axis=1)
    norm = np.linalg.norm(difference, axis=1)
    # A target that is exactly zero has no relative error; the absolute one stands in for it.
    errors = {
        "relative_l2": norm / np.where(size > 0, size, 1.0),
        "trajectory_l2": norm,
        "rmse": norm / np.sqrt(difference.shape[1]),
        "max_error": np.abs(difference).max(axis=1),
    }
    return {"test_err": errors[metric], **errors}


def _flat(x: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
    x = np.asarray(x, dtype=np.float64)
    inside = x[..., mask] if mask is not None else x
    return inside.reshape(len(x), -1)
