"""Error measures: one number per test sample, in physical units, over the points inside the domain.

``relative_l2``    ||pred - target|| / ||target||, all channels (and times) stacked     (paper, Metrics, first)
``trajectory_l2``  ||pred - target|| over the whole trajectory as one vector            (paper, Metrics, second)

A test error is the mean over samples. Every trial also reports ``rmse`` (independent of grid and length) and
``max_error``, so that boards made at different sizes can be read side by side.

Squares of 1e200 and 1e-200 overflow and underflow, so a sample whose largest value is beyond 2^±400 is divided by a
power of two before squaring and multiplied by it afterwards. That is exact, and other samples are not touched. An
error that is still infinite is beyond floating point, and its trial has diverged (`not_finite`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

CHUNK = 1 << 20  # values of a field that are processed together: 8 MB per copy
SAFE_EXPONENT = 400  # squares of values up to 2^400, and their sums, don't overflow


def sample_errors(
    prediction: np.ndarray, target: np.ndarray, metric: str, mask: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Per-sample errors ``(n,)`` by name; the task's own metric is also under ``test_err``."""
    if prediction.shape != target.shape:
        raise ValueError(f"prediction has shape {prediction.shape}, target {target.shape}")
    parts = [_errors(prediction[start:end], target[start:end], mask) for start, end in chunks(target)]
    errors = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return {"test_err": errors[metric], **errors}


def _errors(prediction: np.ndarray, target: np.ndarray, mask: np.ndarray | None) -> dict[str, np.ndarray]:
    p, t = _flat(prediction, mask), _flat(target, mask)  # (n, values inside)
    common = np.maximum(_exponents(p), _exponents(t))  # (n,)
    difference = _scaled(p, common) - _scaled(t, common)  # (n, values inside)
    own = _exponents(difference)
    difference, power = _scaled(difference, own), common + own
    size_power = _exponents(t)
    size = np.linalg.norm(_scaled(t, size_power), axis=1)
    norm = np.linalg.norm(difference, axis=1)
    # A target that is exactly zero has no relative error; the absolute error is used instead.
    ratio, ratio_power = norm / np.where(size > 0, size, 1.0), power - np.where(size > 0, size_power, 0)
    with np.errstate(over="ignore", under="ignore"):
        return {
            "relative_l2": np.ldexp(ratio, ratio_power),
            "trajectory_l2": np.ldexp(norm, power),
            "rmse": np.ldexp(norm / np.sqrt(difference.shape[1]), power),
            "max_error": np.ldexp(np.abs(difference).max(axis=1), power),
        }


def chunks(fields: np.ndarray) -> Iterator[tuple[int, int]]:
    """First and last sample of each part: a second array as large as all of them may not fit in memory.

    No part is one sample alone, if there are others: behind a mask, numpy sums one sample in another order than many.
    """
    count = max(2, CHUNK * len(fields) // max(1, fields.size))
    starts = range(0, max(1, len(fields) - 1), count)
    yield from zip(starts, [*starts[1:], len(fields)], strict=True)


def all_finite(fields: np.ndarray) -> bool:
    return all(np.isfinite(fields[start:end]).all() for start, end in chunks(fields))


def mean_errors(errors: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Test errors by name: the means over samples."""
    return {name: mean_of(values) for name, values in errors.items()}


def mean_of(values: np.ndarray) -> float:
    """The mean, even where the sum overflows and the mean does not."""
    with np.errstate(over="ignore"):
        mean = float(np.add.reduce(values) / len(values))  # the same as values.mean(), four times as fast
        return mean if math.isfinite(mean) else float((values / len(values)).sum())


def not_finite(metrics: Mapping[str, float | None]) -> str:
    """Why a trial with these test errors has diverged; empty if all of them are finite."""
    bad = [name for name, value in metrics.items() if value is None or not math.isfinite(value)]
    return f"the test error {bad[0]} is not finite" if bad else ""


def _flat(x: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
    x = np.asarray(x, dtype=np.float64)
    inside = x[..., mask] if mask is not None else x
    return inside.reshape(len(x), -1)


def _exponents(values: np.ndarray) -> np.ndarray:
    """By which power of two each row ``(n, m)`` must be divided before squaring, ``(n,)``: 0 for ordinary rows."""
    _, exponents = np.frexp(np.abs(values).max(axis=1))  # of zero or non-finite values: 0 or anything, harmless
    return np.where(np.abs(exponents) > SAFE_EXPONENT, exponents, 0)


def _scaled(values: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    return np.ldexp(values, -exponents[:, None]) if exponents.any() else values
