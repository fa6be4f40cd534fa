"""Parameters: counted both ways without allocating them, matched to the closest reachable count."""

from __future__ import annotations

import pytest
import torch
from factories.tasks import make_task
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from pdebench_hss import ModelSpec, TaskInfo
from pdebench_hss.base.errors import UsageError
from pdebench_hss.training.parameters import Count, count_on_meta, count_parameters, match_parameters

TASK = make_task(grid=(8,))


class Flat(nn.Module):
    def __init__(self, *sizes: int, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.weights = nn.ParameterList(torch.empty(size, dtype=dtype) for size in sizes)


def sized(count, refuses=lambda width: False, error: type[Exception] = ValueError) -> ModelSpec:
    """A model with ``count(width)`` parameters that can't be built where ``refuses(width)``."""

    def build(task: TaskInfo, width: int, depth: int = 2) -> nn.Module:
        if refuses(width):
            raise error(f"width {width} does not fit")
        return Flat(count(width))

    return ModelSpec(name="net", title="Net", build=build, hparams={"width": 4, "depth": 2}, size_knob="width")


def test_complex_parameters_count_twice_as_degrees_of_freedom_and_once_as_entries():
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.real = nn.Parameter(torch.zeros(3, 5))
            self.complex = nn.Parameter(torch.zeros(4, 7, dtype=torch.cfloat))
            self.register_buffer("grid", torch.zeros(100))

    assert count_parameters(Mixed()) == Count(real=15 + 2 * 28, numel=15 + 28)


def test_shared_parameters_count_once():
    layer = nn.Linear(4, 4)
    assert count_parameters(nn.Sequential(layer, layer)) == Count(20, 20)


def test_what_is_no_network_has_no_parameters():
    assert count_parameters(object()) == Count(0, 0)


def test_counting_allocates_nothing():
    spec = sized(lambda width: width * 10**12)  # 16 TB at width 4
    assert count_on_meta(spec, TASK, spec.hparams_for(TASK)) == Count(4 * 10**12, 4 * 10**12)


def closest(count, valid, target: int) -> int:
    """By looking at all of them; of two equally close the smaller."""
    return min(valid, key=lambda width: (abs(count(width) - target), width))


@settings(deadline=None, max_examples=100)
@given(
    a=st.integers(0, 50),
    b=st.integers(20, 500),
    c=st.integers(0, 1000),
    divisor=st.integers(1, 12),
    offset=st.integers(0, 11),
    target=st.integers(1, 20_000),
)
def test_the_closest_reachable_count_is_found(a, b, c, divisor, offset, target):
    """Against brute force, for models that refuse all widths but every ``divisor``-th."""

    def count(width: int) -> int:
        return a * width**2 + b * width + c

    def refuses(width: int) -> bool:
        return width % divisor != offset % divisor

    end = next(w for w in range(1, 10**6) if count(w) > target and not refuses(w))
    valid = [width for width in range(1, end + 1) if not refuses(width)]
    found = match_parameters(sized(count, refuses), TASK, {"width": 4, "depth": 3}, target)
    assert found == {"width": closest(count, valid, target), "depth": 3}


@settings(deadline=None)
@given(largest=st.integers(1, 100), target=st.integers(1, 2000))
def test_a_knob_with_a_largest_value_is_turned_no_further(largest, target):
    """Modes can't exceed half the grid, a rank can't exceed the width: the closest is then the largest allowed."""

    def count(width: int) -> int:
        return 10 * width

    spec = sized(count, refuses=lambda width: width > largest)
    found = match_parameters(spec, TASK, spec.hparams_for(TASK), target)
    assert found["width"] == closest(count, range(1, largest + 1), target)


@pytest.mark.parametrize("error", [ValueError, RuntimeError, AssertionError])
def test_values_that_the_model_refuses_are_passed_over(error):
    spec = sized(lambda width: 10 * width, refuses=lambda width: width % 4 != 0, error=error)
    assert match_parameters(spec, TASK, spec.hparams_for(TASK), 90)["width"] == 8


def test_real_degrees_of_freedom_are_what_is_matched():
    def build(task: TaskInfo, width: int) -> nn.Module:
        return Flat(width, dtype=torch.cfloat)

    spec = ModelSpec(name="net", title="Net", build=build, hparams={"width": 4}, size_knob="width")
    assert match_parameters(spec, TASK, {"width": 4}, 100) == {"width": 50}


def test_a_target_below_the_smallest_model_gives_the_smallest():
    assert match_parameters(sized(lambda width: 1000 * width), TASK, {"width": 9, "depth": 2}, 5)["width"] == 1


def test_the_given_hyper_parameters_are_not_changed():
    given_hparams = {"width": 4, "depth": 2}
    match_parameters(sized(lambda width: 10 * width), TASK, given_hparams, 500)
    assert given_hparams == {"width": 4, "depth": 2}


def test_a_closed_form_has_nothing_to_match():
    spec = ModelSpec(name="mean", title="Mean", build=lambda task: object(), training_free=True)
    assert match_parameters(spec, TASK, {}, 1000) == {}


def test_a_model_without_a_knob_is_refused_by_name():
    spec = ModelSpec(name="fixed", title="Fixed", build=lambda task: Flat(10))
    with pytest.raises(UsageError, match="model 'fixed' declares no size_knob"):
        match_parameters(spec, TASK, {}, 1000)


def test_a_model_that_can_not_be_built_at_any_size_is_refused():
    with pytest.raises(UsageError, match="no size between 1 and 256 can be built"):
        match_parameters(sized(lambda width: width, refuses=lambda width: True), TASK, {"width": 4}, 10)
