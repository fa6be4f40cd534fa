"""How fast a fitted model answers: one input at a time, and in batches of the size that suits it best.

    latency     milliseconds from one physical input to its answer
    throughput  answers a second in batches of b, for the b among 1, 4, 16, ... up to all test inputs that gives most

Both are medians of repeated calls, and their spread is the 10th and the 90th percentile of the same calls: a model that
must answer in time is judged by its slow answers. The machine is as busy as the run makes it; other load shows in the
spread. A measurement makes at least a few calls and takes at most `SHARE` of the trial's time so far (within `LIMITS`),
so it does not slow a board down.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from .evaluation import Predictor

SHARE = 0.01  # share of the trial's time so far
LIMITS = (0.05, 1.0)  # seconds
FEWEST, MOST = 3, 50  # calls
STEP = 4  # between sizes of batches
GAIN = 1.05  # the search ends unless a larger batch gives this factor more
SPREAD = (0.1, 0.5, 0.9)


def measure_serving(predict: Predictor, inputs: np.ndarray, spent: float) -> dict[str, float]:
    """For `Record.serving`; ``spent`` are the trial's seconds so far."""
    allowed = min(max(SHARE * spent, LIMITS[0]), LIMITS[1])
    one = predict.in_batches_of(1)
    one(inputs[:1])  # the first call of a shape may prepare something
    single = call_seconds(lambda number: one(inputs[number % len(inputs)][None]), allowed / 2)
    low, median, high = (1e3 * float(q) for q in np.quantile(single, SPREAD))
    batch, calls = _best_batch(predict, inputs, single, allowed / 2)
    least, usual, most = (batch / float(q) for q in np.quantile(calls, SPREAD[::-1]))  # slow calls give few answers
    return {
        **{"latency_ms": median, "latency_ms_low": low, "latency_ms_high": high},
        **{"throughput": usual, "throughput_low": least, "throughput_high": most, "best_batch": batch},
    }


def call_seconds(call: Callable[[int], object], allowed: float, most: int = MOST) -> list[float]:
    """Seconds of each of several calls, numbered from 0."""
    seconds: list[float] = []
    while len(seconds) < FEWEST or (sum(seconds) < allowed and len(seconds) < most):
        start = time.perf_counter()
        call(len(seconds))
        seconds.append(time.perf_counter() - start)
    return seconds


def _best_batch(predict: Predictor, inputs: np.ndarray, single: list[float], allowed: float) -> tuple[int, list[float]]:
    """The batch size with the most answers a second, and the seconds of its calls."""
    best, calls, batch = 1, single, STEP
    while batch <= len(inputs) and allowed > 0:
        many, block = predict.in_batches_of(batch), inputs[:batch]
        many(block)
        seconds = call_seconds(lambda _: many(block), allowed / 4)  # noqa: B023  (called at once)
        allowed -= sum(seconds)
        if batch / float(np.median(seconds)) < GAIN * best / float(np.median(calls)):
            break
        best, calls, batch = batch, seconds, STEP * batch
    return best, calls
