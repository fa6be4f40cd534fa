"""Every metric is recorded for every trial, sample by sample, by the scorer; and is believed only with its samples."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from board_of_records import make_record, make_trial

from pdebench_hss.contract.registry import load_registry
from pdebench_hss.trials import validation
from pdebench_hss.trials.record import Record
from pdebench_hss.trials.store import Store
from pdebench_hss.trials.validation import Invalid

PLUGIN = """
import numpy as np
from pdebench_hss import MetricSpec, hookimpl


def bias(prediction, target, setting):
    return (prediction - target).mean(axis=tuple(range(1, target.ndim)))


def undefined(prediction, target, setting):
    return np.full(len(target), np.nan)


def wrong_shape(prediction, target, setting):
    return prediction - target


@hookimpl
def pdebench_hss_metrics():
    return [
        MetricSpec("bias", "Bias", "mean (p - t)", bias, unit="field"),
        MetricSpec("undefined_here", "Nothing", "0 / 0", undefined),
        MetricSpec("wrong_shape", "Field", "p - t", wrong_shape),
        MetricSpec("periodic_only", "Periodic", "0", undefined, needs=("periodic",)),
    ]
"""
MODEL = """
from pdebench_hss import MetricSpec, ModelSpec, hookimpl


@hookimpl
def pdebench_hss_models():
    return [ModelSpec(name="mine", title="Mine", build="nowhere:Mine")]


@hookimpl
def pdebench_hss_metrics():
    return [MetricSpec("flattering", "Flattering", "0", "nowhere:zero")]
"""


@pytest.fixture
def ran(cli, tmp_path):
    (tmp_path / "mine.py").write_text(PLUGIN)
    (tmp_path / "both.py").write_text(MODEL)
    files = ["--plugin", "mine.py", "--plugin", "both.py"]
    done = cli("run", "--models", "mean,linear", "--tasks", "heat_1d", "--scale", "smoke", "--out", "board", *files)
    assert done.code == 0, done.err
    return done, Store(tmp_path / "board")


def test_a_run_records_all_of_them_and_reports_what_does_not_work_once(ran):
    done, store = ran
    built_in = {name for name, found in load_registry().metrics.items()}
    for record in store.all():
        arrays = store.samples(record.key)
        assert built_in - set(record.metrics) == set()
        assert record.status == "ok"
        for name in {*built_in, "bias", "undefined_here"}:
            assert arrays[f"error_{name}"].shape == (4,)
            assert arrays[f"error_{name}"].dtype == np.float64
        assert record.metrics["bias"] == pytest.approx(arrays["error_bias"].mean())
        assert not {"undefined_here", "wrong_shape", "flattering", "periodic_only"} & set(record.metrics)
        assert record.provenance["unmeasured"]["undefined_here"] == "not finite"
        assert "of shape (4, 4, 1, 32)" in record.provenance["unmeasured"]["wrong_shape"]
        assert record.provenance["metrics"]["bias"].startswith("mine.py ")
        assert arrays["step_relative_l2"].shape == (4,)
    assert done.err.count("metric 'wrong_shape' is not measured") + done.out.count("metric 'wrong_shape' is not") == 1
    assert "undefined_here" not in done.err + done.out
    assert "metric 'flattering' is not measured: both.py also brings a model" in done.err + done.out


def test_the_errors_of_steps_are_those_of_the_whole_seen_apart(ran):
    """The relative errors of steps, weighted by the sizes of their fields, make the error of the trajectory."""
    _, store = ran
    for record in store.all():
        arrays = store.samples(record.key)
        by_step, whole = arrays["step_relative_l2"], arrays["error_relative_l2"].mean()
        assert by_step.min() <= whole <= by_step.max() or whole < 1e-12


def test_a_run_with_more_metrics_is_the_same_trial(ran, cli):
    again = cli("run", "--models", "mean,linear", "--tasks", "heat_1d", "--scale", "smoke", "--out", "board")
    assert "2 cached" in again.out


def changed(record: Record, **metrics) -> tuple[dict, dict]:
    record = dataclasses.replace(record, metrics={**record.metrics, **metrics})
    return json.loads(record.to_json("")), record.samples


@pytest.fixture
def measured():
    usual = make_record(make_trial())
    values = np.array([-0.5, 0.1, 0.2, 0.1, 0.2])
    samples = {**usual.samples, "error_bias": values, "error_vrmse": np.arange(1.0, 6.0)}
    return dataclasses.replace(
        usual, metrics={**usual.metrics, "bias": float(values.mean()), "vrmse": 3.0}, samples=samples
    )


def check(content: dict, arrays: dict) -> None:
    fields, _ = validation.check_record(content, content["key"], [f.name for f in dataclasses.fields(Record)])
    validation.check_errors(fields, arrays)


def test_means_are_checked_against_samples_also_of_further_metrics(measured):
    check(*changed(measured))
    with pytest.raises(Invalid, match=r"vrmse is 2\.9, and the mean of the errors behind it 3"):
        check(*changed(measured, vrmse=2.9))
    with pytest.raises(Invalid, match=r"bias is 0\.3"):
        check(*changed(measured, bias=0.3))
    with pytest.raises(Invalid, match="unknown_one has no errors by test sample behind it"):
        check(*changed(measured, unknown_one=1.0))
    with pytest.raises(Invalid, match="metrics is a dict of another kind"):
        check(*changed(measured, vrmse=None))


def test_errors_are_not_negative_and_other_metrics_may_be(measured):
    assert measured.metrics["bias"] < 0.1
    with pytest.raises(Invalid, match="metrics is a dict"):
        check(*changed(measured, rmse=-0.1))
    content, arrays = changed(measured)
    arrays["error_test_err"] = arrays["error_test_err"] - np.array([1, 0, 0, 0, -1])
    with pytest.raises(Invalid, match="test_err is"):
        check(content, arrays)
