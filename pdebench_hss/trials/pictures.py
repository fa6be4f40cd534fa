"""What a record shows of its predictions: the best, the median and the worst test sample by the task's metric, and
where in the domain the errors are: at each point the mean of |error| over all test samples, and the worst of them.

Kept small, because there is one record per trial and boards are shared:

* 3D fields are cut through the middle of the last axis
* rollouts show their last step; in 1D the whole space-time picture, (steps, points)
* a side of more than `SIDE` points is strided
* float32 with `BITS` significant bits (0.05 %), which is more than a screen shows and compresses to half

The error is stored, not the prediction: truth + error gives the prediction to the eye, while the difference of two
rounded fields would say nothing of an error of 1e-7. Points outside the domain are NaN.
"""

from __future__ import annotations

import numpy as np

from ..contract.task import TaskInfo

SIDE = 128
BITS = 11
LARGEST = 2.0**127  # fits in float32 with any number of bits; larger errors are drawn as this value


def pick(errors: np.ndarray) -> np.ndarray:
    """Indices of the best, the (lower) median and the worst sample, (3,)."""
    order = np.argsort(errors, kind="stable")
    return order[[0, (len(order) - 1) // 2, -1]]


def pictures(
    task: TaskInfo, inputs: np.ndarray, outputs: np.ndarray, prediction: np.ndarray, errors: np.ndarray
) -> dict[str, np.ndarray]:
    """Arrays for `Record.samples`: ``picture_index`` (3,), ``picture_input|truth|error`` (3, channels, *picture), and
    ``picture_map`` (2, channels, *picture): mean and worst |error| over the test set."""
    index = pick(errors)
    difference = np.asarray(prediction[index], np.float64) - outputs[index]
    return {
        "picture_index": index,
        "picture_input": _frame(task, inputs[index]),
        "picture_truth": _frame(task, _last_or_all_steps(task, outputs[index])),
        "picture_error": _frame(task, _last_or_all_steps(task, difference)),
        "picture_map": _frame(task, _error_map(task, outputs, prediction)),
    }


def _error_map(task: TaskInfo, outputs: np.ndarray, prediction: np.ndarray) -> np.ndarray:
    """(2, channels, ..., *grid), one sample at a time: a second copy of all errors may not fit in memory."""
    total = worst = np.zeros(1)
    for truth, guess in zip(outputs, prediction, strict=True):
        error = np.abs(_last_or_all_steps(task, np.asarray(guess, np.float64)[None] - truth)[0])
        total, worst = total + error / len(outputs), np.maximum(worst, error)
    return np.stack([total, worst])


def _last_or_all_steps(task: TaskInfo, values: np.ndarray) -> np.ndarray:
    if not task.rollout:
        return values
    if task.dim == 1:
        return values.swapaxes(1, 2)  # (3, steps, channels, n) -> (3, channels, steps, n)
    return values[:, -1]  # (3, steps, channels, *grid) -> (3, channels, *grid)


def _frame(task: TaskInfo, values: np.ndarray) -> np.ndarray:
    """(k, channels, ..., *grid) -> (k, channels, at most two sides of at most `SIDE` points)."""
    values = np.asarray(values, np.float64)
    if task.mask is not None:
        values = np.where(task.mask, values, np.nan)
    for axis in range(task.dim - 1, 1, -1):  # axes after the second are cut in the middle
        values = np.take(values, task.grid[axis] // 2, axis=-1)
    for axis in range(2, values.ndim):
        side = values.shape[axis]
        values = np.take(values, range(0, side, -(-side // SIDE)), axis=axis)
    return _rounded(values)


def _rounded(values: np.ndarray) -> np.ndarray:
    mantissa, exponent = np.frexp(np.clip(values, -LARGEST, LARGEST).astype(np.float32))
    return np.ldexp(np.round(mantissa * 2**BITS) / 2**BITS, exponent).astype(np.float32)
