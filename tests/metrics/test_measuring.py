"""Metrics of plugins: each gets plain arrays, and one that does not work costs nobody but itself."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from metric_settings import samples_of

from pdebench_hss import MetricSpec
from pdebench_hss.boards.frames import RESULTS_COLUMNS
from pdebench_hss.contract.metric import NEEDS, RESERVED
from pdebench_hss.contract.registry import Origin, Registered, Registry, load_registry
from pdebench_hss.metrics.measuring import measure
from pdebench_hss.training import metrics

BUILT_IN = load_registry().metrics


def registry(**functions) -> Registry:
    """The built-in metrics, and these."""
    own = {
        name: Registered(MetricSpec(name, name, "of a test", function), Origin("tests", "1", "tests"))
        for name, function in functions.items()
    }
    return Registry(metrics={**BUILT_IN, **own})


@pytest.fixture
def data():
    return samples_of("poisson_1d")


def measured(data, known=(), **functions):
    rng = np.random.default_rng(0)
    prediction = data.test.outputs * (1 + 0.1 * rng.normal(size=data.test.outputs.shape))
    found = measure(registry(**functions), data.task, data.test.inputs, prediction, data.test.outputs, known)
    return found, prediction


def test_every_metric_that_makes_sense_is_there_with_one_number_for_each_sample(data):
    found, _ = measured(data)
    expected = {name for name, metric in BUILT_IN.items() if not metric.spec.unsupported(data.task.spec)}
    assert set(found.samples) == expected
    assert "correlation_time" not in expected  # of rollouts only
    assert found.complaints == {}
    for name, values in found.samples.items():
        assert values.shape == (4,)
        assert values.dtype == np.float64
        assert found.means[name] == pytest.approx(values.mean(), rel=1e-12)


@pytest.mark.parametrize("chunk", [1, 70, 10**9])
def test_how_many_samples_are_looked_at_together_does_not_matter(data, monkeypatch, chunk):
    usual, _ = measured(data)
    monkeypatch.setattr(metrics, "CHUNK", chunk)
    for name, values in measured(data)[0].samples.items():
        np.testing.assert_allclose(values, usual.samples[name], rtol=1e-12)


def overwrites(prediction, target, setting):
    target[:] = prediction
    return np.zeros(len(target))


def exits(prediction, target, setting):
    sys.exit("enough")


def sets_the_seed(prediction, target, setting):
    np.random.seed(0)  # noqa: NPY002  (that is the point)
    return np.zeros(len(target))


FAULTS = {
    "raises": (lambda p, t, s: 1 / 0, "ZeroDivisionError: division by zero"),
    "one_number": (lambda p, t, s: 0.5, "expected one number for each of 4 samples"),
    "too_many": (lambda p, t, s: np.abs(p - t), "float64 of shape (4, 1, 32)"),
    "words": (lambda p, t, s: ["bad"] * len(t), "expected one number for each of 4 samples"),
    "complex_numbers": (lambda p, t, s: 1j * np.ones(len(t)), "complex128"),
    "nothing": (lambda p, t, s: None, "returned no value of that name"),
    "other_name": (lambda p, t, s: {"another": np.ones(len(t))}, "returned no value of that name"),
    "overwrites": (overwrites, "read-only"),
    "exits": (exits, "called sys.exit(enough)"),
    "sets_the_seed": (sets_the_seed, "which a plugin must leave alone"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_metric_that_does_not_work_has_a_complaint_and_the_others_their_values(data, name):
    function, words = FAULTS[name]
    usual, _ = measured(data)
    outputs = data.test.outputs.copy()
    found, prediction = measured(data, **{name: function})
    assert words in found.complaints[name]
    assert set(found.complaints) == {name}
    assert name not in found.samples
    np.testing.assert_array_equal(data.test.outputs, outputs)
    assert found.means == usual.means
    assert prediction.flags.writeable  # its owner may go on with it


def test_a_formula_without_a_value_is_no_complaint_and_has_no_mean(data):
    found, _ = measured(data, undefined=lambda p, t, s: np.where(np.arange(len(t)) == 1, np.nan, 1.0))
    np.testing.assert_array_equal(found.samples["undefined"], [1, np.nan, 1, 1])
    assert "undefined" not in found.means
    assert found.complaints == {}


def test_fields_beyond_floating_point_end_in_no_value_and_no_warning(data):
    huge = np.full_like(data.test.outputs, 1e200)
    found = measure(registry(), data.task, data.test.inputs, huge, data.test.outputs)
    assert found.complaints == {}
    assert np.isfinite(list(found.means.values())).all()
    assert found.means["relative_l2"] > 1e199
    assert "spectral_mse_low" not in found.means


def test_what_is_known_is_not_computed_again(data):
    calls = []
    found, _ = measured(data, known=["mine", "vrmse"], mine=lambda p, t, s: calls.append(1))
    assert calls == []
    assert "vrmse" not in found.samples
    assert "nrmse" in found.samples


def test_a_metric_is_told_what_it_needs(data):
    seen = {}

    def look(prediction, target, setting):
        seen.update(vars(setting), dtype=prediction.dtype)
        return np.zeros(len(target))

    measured(data, look=look)
    np.testing.assert_array_equal(seen["inputs"], data.test.inputs)
    assert seen["dtype"] == np.float64
    assert (seen["dim"], seen["grid"], seen["periodic"], seen["rollout"]) == (1, (32,), False, False)
    assert seen["spacing"] == (pytest.approx(1 / 32),)
    assert seen["params"] == {"edge": 1}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"name": "Bad Name"}, "lower-case letters"),
        ({"name": "seed"}, "a column of results.csv"),
        ({"direction": "up"}, "'up' is not one of lower, higher"),
        ({"formula": ""}, "needs a formula"),
        ({"needs": ("water",)}, "'water' is not one of rollout"),
        ({"compute": "nowhere"}, "must be 'package.module:attribute'"),
    ],
)
def test_a_spec_that_makes_no_sense_is_refused_when_it_is_made(wrong, words):
    with pytest.raises(ValueError, match=words):
        MetricSpec(**{"name": "mine", "title": "Mine", "formula": "p - t", "compute": "a:b", **wrong})


def test_no_metric_can_take_the_name_of_another_column():
    assert set(RESULTS_COLUMNS) - set(BUILT_IN) <= RESERVED


@pytest.mark.parametrize("need", NEEDS)
def test_every_need_is_met_by_some_task_and_not_by_another(need):
    tasks = [task.spec for task in load_registry().tasks.values()]
    spec = MetricSpec("mine", "Mine", "p - t", "a:b", needs=(need,))
    reasons = {spec.unsupported(task) for task in tasks}
    assert reasons == {"", NEEDS[need][1]}
