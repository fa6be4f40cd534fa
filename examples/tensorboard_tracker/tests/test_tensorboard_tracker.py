"""What TensorBoard reads back is what the record says. Install the package first."""

from __future__ import annotations

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard_tracker import VARIABLE, pdebench_hss_trial_finished

from pdebench_hss import Budget, Optimizer, Record, Status, Trial


@pytest.fixture
def logs(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    return tmp_path


def record(status: str = "ok", **more: object) -> Record:
    trial = Trial(
        model="net", model_label="net[width=4]", model_version="1",
        hparams={"width": 4, "kind": "plain"}, optimizer=Optimizer(4, 0.1, 0.01, 0.0), task="toy", task_label="toy",
        task_params={}, data_id="d", data_seed=0, scale="smoke", budget=Budget("steps", 20),
        n_train=4, seed=0, device="cpu",
    )  # fmt: skip
    return Record(key="0123456789abcdef", trial=trial, status=Status(status), **more)


def test_curves_and_errors_arrive(logs):
    samples = {"curve_steps": np.array([0, 10]), "curve_losses": np.array([1.0, 0.25])}
    done = record(metrics={"test_err": 0.125}, seconds={"fit": 2.0}, samples=samples)
    pdebench_hss_trial_finished(done)
    pdebench_hss_trial_finished(done)  # run again: no curve twice
    events = EventAccumulator(str(logs / "toy" / "net[width=4]-01234567")).Reload()
    assert [(event.step, event.value) for event in events.Scalars("train/loss")] == [(0, 1.0), (10, 0.25)]
    assert events.Scalars("test/test_err")[-1].value == 0.125


def test_a_failed_trial_is_logged_with_its_reason(logs):
    pdebench_hss_trial_finished(record("failed", reason="RuntimeError: no"))
    events = EventAccumulator(str(logs / "toy" / "net[width=4]-01234567")).Reload()
    (text,) = events.Tensors("trial/text_summary")
    assert text.tensor_proto.string_val[0] == b"failed RuntimeError: no"
