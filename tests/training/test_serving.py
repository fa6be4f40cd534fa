"""How fast a model answers: what is called, how often, and what becomes of the times."""

from __future__ import annotations

import time

import numpy as np
import pytest

from pdebench_hss.training.serving import FEWEST, LIMITS, STEP, call_seconds, measure_serving

INPUTS = np.zeros((20, 1, 4))


class Answering:
    """Stands where a fitted model stands: a call costs so much, and so much more for each input."""

    def __init__(self, per_call: float, per_input: float, calls: list[int] | None = None) -> None:
        self.per_call, self.per_input = per_call, per_input
        self.calls: list[int] = [] if calls is None else calls

    def in_batches_of(self, batch: int) -> Answering:
        return Answering(self.per_call, self.per_input, self.calls)

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        self.calls.append(len(inputs))
        time.sleep(self.per_call + self.per_input * len(inputs))
        return inputs


def test_a_model_whose_calls_are_dear_is_best_served_by_all_inputs_at_once():
    found = measure_serving(Answering(2e-3, 0.0), INPUTS, spent=10.0)
    assert found["best_batch"] == STEP**2  # the largest power that the inputs allow
    assert found["latency_ms"] >= 2
    assert found["throughput"] > 2 * 1e3 / found["latency_ms"]


def test_a_model_whose_inputs_are_dear_gains_nothing_from_batches():
    found = measure_serving(Answering(0.0, 5e-3), INPUTS, spent=10.0)
    assert found["best_batch"] == 1
    assert found["throughput"] == pytest.approx(1e3 / found["latency_ms"])


def test_the_spread_is_of_the_same_calls_and_in_order():
    found = measure_serving(Answering(1e-3, 0.0), INPUTS, spent=10.0)
    assert found["latency_ms_low"] <= found["latency_ms"] <= found["latency_ms_high"]
    assert found["throughput_low"] <= found["throughput"] <= found["throughput_high"]


def test_a_slow_model_is_called_a_few_times_and_no_more():
    model = Answering(2 * LIMITS[0], 0.0)
    measure_serving(model, INPUTS[:1], spent=0.0)
    assert model.calls == [1] * (1 + FEWEST)  # one to warm up


def test_one_input_is_enough():
    found = measure_serving(Answering(1e-4, 0.0), INPUTS[:1], spent=0.0)
    assert found["best_batch"] == 1


def test_calls_end_at_their_limit_of_number():
    numbers: list[int] = []
    assert len(call_seconds(numbers.append, allowed=60.0, most=7)) == 7
    assert numbers == list(range(7))
