"""Trials and records that nobody ran: one is like any other unless told what to change."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from pdebench_hss.contract.budget import Budget
from pdebench_hss.contract.optimizer import Optimizer
from pdebench_hss.trials.record import Record
from pdebench_hss.trials.status import Status
from pdebench_hss.trials.trial import Trial

TRIAL = Trial(
    model="net", model_label="net", model_version="1", hparams={},
    optimizer=Optimizer(4, 1e-3, 1e-5, 0.0), task="toy", task_label="toy",
    task_params={}, data_id="d", data_seed=0, scale="smoke", budget=Budget("steps", 4), n_train=8,
    seed=0, device="cpu", equation="Toy Eq.", metric="relative_l2",
)  # fmt: skip

PROVENANCE = {
    "versions": {"python": "3.11.1", "torch": "2.13.0"}, "source": {"commit": "c" * 40, "modified": False},
    "hardware": {"cpu": "CPU", "cores": 2, "memory_gb": 8, "system": "Linux", "gpus": [], "id": "machine"},
    "device": "cpu", "threads": 1, "started": 1_700_000_000.0, "ended": 1_700_000_060.0,
}  # fmt: skip


def make_trial(model="net", seed=0, **changes: Any) -> Trial:
    """Labels are the names unless given."""
    labels = {"model_label": model, "task_label": changes.get("task", TRIAL.task)}
    return dataclasses.replace(TRIAL, model=model, seed=seed, **{**labels, **changes})


def make_record(
    model="net", error: float | None = None, seed=0, status="ok", reason="", sha256="abc", **changes: Any
) -> Record:
    """All that a table shows of a trial; ``changes`` are those of the trial."""
    trial = make_trial(model, seed, **changes)
    return Record(
        trial.key,
        trial,
        Status(status),
        reason,
        metrics={} if error is None else {"test_err": error, "relative_l2": error, trial.metric: error},
        parameters={"real": 200, "numel": 100},
        seconds={"fit": 1.0 + seed, "total": 2.0 + seed},
        predict_ms=0.5,
        data={"sha256": sha256, "n_train": 8, "n_test": 4},
        provenance=dict(PROVENANCE),
        samples={} if error is None else {"error_test_err": np.full(4, float(error))},
    )


def bare_record(trial: Trial = TRIAL, status="ok", reason="", **fields: Any) -> Record:
    """The least that a store takes: one that ended well has an error, and the errors of its test samples behind it."""
    if status == "ok":
        metrics = fields.setdefault("metrics", {"test_err": 0.5, **({trial.metric: 0.5} if trial.metric else {})})
        behind = {"error_test_err": np.full(3, metrics["test_err"])}
        fields = {"data": {"n_test": 3}, "samples": behind, **fields}
    return Record(trial.key, trial, Status(status), reason, **fields)
