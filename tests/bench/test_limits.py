"""The limit of a step: FLOPs and bytes of models that can be counted by hand, and the batch that is best."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from pdebench_hss.base.machine import cache_bytes
from pdebench_hss.bench.limits import COPIED, GEMM, Speeds, Work, bound, kept_bytes, least_bytes, limit_ms, speeds
from pdebench_hss.bench.models import Subject, best_batch, largest_batch, settled
from pdebench_hss.bench.timing import Timing
from pdebench_hss.training import flops

FLOAT = 4
NOTHING, EVERYTHING = 0, 2**40  # caches


class Perceptron(nn.Module):
    """Two linear layers without bias, 8 -> 16 -> 4."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16, bias=False), nn.Linear(16, 4, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.tanh(self.first(x)))


def vectors(batch: int) -> tuple[Tensor, Tensor]:
    return torch.randn(batch, 8), torch.randn(batch, 4)


def fields(batch: int) -> tuple[Tensor, Tensor]:
    return torch.randn(batch, 2, 10), torch.randn(batch, 3, 10)


def test_a_linear_layer_multiplies_three_times_and_its_input_needs_no_gradient() -> None:
    layer = nn.Linear(8, 4, bias=False)
    step = Subject(layer, *vectors(5)).step
    assert flops.count(step) == 2 * (2 * 5 * 8 * 4)  # the output, and the gradient of the weight
    step = Subject(Perceptron(), *vectors(5)).step
    assert flops.count(step) == 2 * (2 * 5 * 8 * 16) + 3 * (2 * 5 * 16 * 4)


def test_a_linear_layer_keeps_its_output_for_the_loss_and_nothing_else() -> None:
    assert kept_bytes(nn.Linear(8, 4, bias=False), *vectors(5)) == FLOAT * 5 * 4


def test_what_two_layers_keep_is_counted_once() -> None:
    # tanh and the second layer both save the values between the layers: it is the same memory
    assert kept_bytes(Perceptron(), *vectors(5)) == FLOAT * 5 * (16 + 4)


def test_a_convolution_keeps_what_its_loss_needs() -> None:
    assert kept_bytes(nn.Conv1d(2, 3, 3, padding=1), *fields(5)) == FLOAT * 5 * 3 * 10


def test_bytes_of_a_step_without_a_cache() -> None:
    data, weights, kept = 7 * (8 + 4), 8 * 16 + 16 * 4, 7 * (16 + 4)
    assert least_bytes(Perceptron(), vectors, 7, NOTHING) == FLOAT * (data + 3 * weights + 2 * kept)
    data, weights, kept = 7 * (20 + 30), 2 * 3 * 3 + 3, 7 * 30
    found = least_bytes(nn.Conv1d(2, 3, 3, padding=1), fields, 7, NOTHING)
    assert found == FLOAT * (data + 3 * weights + 2 * kept)


def test_what_fits_the_cache_for_one_sample_does_not_move() -> None:
    data, weights = 7 * (8 + 4), 8 * 16 + 16 * 4
    assert least_bytes(Perceptron(), vectors, 7, EVERYTHING) == FLOAT * (data + 3 * weights)
    one = FLOAT * (16 + 4)
    part = least_bytes(Perceptron(), vectors, 7, one - FLOAT)  # one number of each sample is too many
    assert part == FLOAT * (data + 3 * weights + 2 * 7)


def test_what_does_not_depend_on_the_batch_moves_once() -> None:
    class Basis(nn.Module):
        """Coefficients times functions that are computed once for all samples."""

        def __init__(self) -> None:
            super().__init__()
            self.functions = nn.Linear(3, 8, bias=False)
            self.register_buffer("points", torch.randn(4, 3))

        def forward(self, x: Tensor) -> Tensor:
            return x @ torch.tanh(self.functions(self.points)).T

    data, weights, shared, per_sample = 7 * (8 + 4), 24, 32, 4
    expected = FLOAT * (data + 3 * weights + 2 * (shared + 7 * per_sample))
    assert least_bytes(Basis(), vectors, 7, NOTHING) == expected


def test_frozen_weights_have_no_gradients_to_write() -> None:
    model = Perceptron()
    model.first.requires_grad_(False)
    data, weights = 2 * (8 + 4), 16 * 4
    assert least_bytes(model, vectors, 2, EVERYTHING) == FLOAT * (data + 3 * weights)


def test_the_limit_is_the_longer_of_arithmetic_and_memory() -> None:
    here = Speeds(peak=100e9, bandwidth=10e9)
    assert limit_ms(Work(flops=1e9, bytes=1e7), here) == pytest.approx(10)
    assert limit_ms(Work(flops=1e8, bytes=1e8), here) == pytest.approx(10)
    assert bound(Work(1e9, 1e7), here) == "arithmetic"
    assert bound(Work(1e8, 1e8), here) == "memory"


def test_speeds_follow_from_the_times_of_a_product_and_a_copy() -> None:
    took = Timing(median=10, low=9, high=11, repeats=3)  # ms
    assert speeds({"gemm": took, "copy": took}) == pytest.approx((2 * GEMM**3 / 0.01, 2 * COPIED / 0.01))


def test_the_cache_of_this_machine_is_plausible() -> None:
    assert 2**18 <= cache_bytes() <= 2**31


def test_the_best_batch_has_the_least_time_per_sample() -> None:
    def cached(batch: int) -> float:  # quickest at 16, where samples still fit the cache
        return batch * (1.0 if batch <= 16 else 2.0) + 3

    assert best_batch(cached, 64, cached(64)) == 16

    def started(batch: int) -> float:  # what starts a step is shared by more samples
        return batch + 1000

    assert best_batch(started, 64, started(64)) == 1024
    assert best_batch(lambda b: None if b > 64 else started(b), 64, started(64)) == 64
    assert best_batch(started, 1, None) == 1024


def test_a_batch_that_is_too_large_is_halved() -> None:
    assert largest_batch(lambda b: 0.5 if b <= 20 else None, 128) == (16, 0.5)
    assert largest_batch(lambda b: None, 8) == (1, None)


def test_a_best_batch_that_turns_out_slower_is_given_up_for_the_recipes() -> None:
    def row(model: str, at: str, batch: int, sample_ms: float) -> dict:
        return {"task": "t", "model": model, "at": at, "batch": batch, "sample_ms": sample_ms}

    rows = [
        row("a", "recipe", 64, 1.0),
        row("a", "best", 16, 2.0),
        row("b", "recipe", 64, 2.0),
        row("b", "best", 16, 1),
    ]
    slow = {"task": "t", "model": "c", "at": "recipe", "status": "too_slow"}
    assert settled([*rows, slow]) == [rows[0], row("a", "best", 64, 1.0), rows[2], rows[3], slow]
