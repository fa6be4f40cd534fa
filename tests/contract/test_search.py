"""Spaces of options: what is refused, with which words, and what every space has."""

from __future__ import annotations

import pytest

from pdebench_hss import Integer, ModelSpec, OneOf, Real
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.contract.search import RATE, around, ends


def spec(**changes):
    return ModelSpec(**{"name": "toy", "title": "Toy", "build": "toy:Toy", "hparams": {"width": 8}, **changes})


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Real(1.0, 1.0), "is empty: low must be below high"),
        (lambda: Real(1e-1, 1e-3, log=True), "is reversed: low must be below high"),
        (lambda: Real(0.0, 1.0, log=True), "a logarithmic range must begin above 0"),
        (lambda: Real(0.0, float("inf")), "high must be a finite number, not inf"),
        (lambda: Real(0.0, "1"), "high must be a finite number, not '1'"),
        (lambda: Integer(8, 4), "is reversed"),
        (lambda: Integer(1, 4.5), "high must be a whole number, not 4.5"),
        (lambda: OneOf("gelu"), "leaves nothing to choose"),
        (lambda: OneOf(1, 1), "has a value twice"),
        (lambda: OneOf(1, None), "None is neither a number, a word nor true or false"),
    ],
)
def test_a_range_that_holds_nothing_is_refused_in_one_line(make, complaint):
    with pytest.raises(ValueError, match=complaint) as refused:
        make()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("search", "complaint"),
    [
        ({"widht": Integer(4, 16)}, "search names 'widht', which is not among its options. Did you mean 'width'"),
        ({"batch": Integer(4, 16)}, "search names 'batch'"),  # the task's, and the same for everybody
        ({"width": (4, 16)}, r"must be Real, Integer or OneOf, not \(4, 16\)"),
        ([("width", Integer(4, 16))], "must be a mapping of options to ranges"),
    ],
)
def test_a_bad_space_is_refused_when_the_spec_is_made(search, complaint):
    with pytest.raises(ValueError, match=complaint) as refused:
        spec(search=search)
    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith("model 'toy': search")


def test_a_space_that_depends_on_the_task_is_checked_when_it_is_asked():
    info = load_registry().task("heat_1d").spec.info("smoke")
    late = spec(search=lambda task, scale: {"depth": Integer(1, task.dim + 1)})
    with pytest.raises(ValueError, match="search names 'depth'"):
        late.search_for(info)


def test_the_learning_rate_is_in_every_space():
    info = load_registry().task("heat_1d").spec.info("smoke")
    assert spec().search_for(info) == {"lr": RATE}
    mine = Real(1e-2, 1e-1, log=True)
    assert spec(search={"lr": mine, "width": Integer(4, 16)}).search_for(info)["lr"] is mine


def test_what_lies_in_a_range():
    assert 0.5 in Real(0.5, 1.0)
    assert 1.1 not in Real(0.5, 1.0)
    assert 4 in Integer(4, 8)
    assert 4.0 not in Integer(4, 8)
    assert True not in Integer(0, 8)
    assert "a" in OneOf("a", "b")
    assert True not in OneOf(1, 2)
    assert [ends(found) for found in (Integer(4, 8), OneOf(2, 5, 3))] == [(4, 8), (2, 5, 3)]


def test_a_range_around_a_size_never_is_empty():
    assert around(8) == Integer(4, 16, log=True)
    assert around(1) == Integer(1, 2, log=True)
    assert around(12, high=16) == Integer(6, 16, log=True)
    assert around(1, low=4, high=4) == Integer(4, 5, log=True)


TRAINED = ("deeponet", "factformer", "fno", "green_learning", "neural_hss", "resnet")


def test_the_built_in_models_have_equal_freedom():
    """A rate, a size and two more for everybody, on every task and at every scale."""
    registry = load_registry()
    for task in registry.tasks.values():
        for scale in task.spec.scales:
            info = task.spec.info(scale)
            for name in TRAINED:
                model = registry.model(name).spec
                if model.unsupported(info) is None:
                    space = model.search_for(info)
                    assert {"lr", model.size_knob} < set(space), (name, info.name, scale)
                    assert len(space) == 4, (name, info.name, scale, space)
