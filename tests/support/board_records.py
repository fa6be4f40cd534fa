"""Records for tests of tables: a trial that is like any other unless told what to change."""

from __future__ import annotations

import dataclasses

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


def make_trial(model="net", seed=0, **changes) -> Trial:
    return dataclasses.replace(TRIAL, model=model, model_label=model, seed=seed, **changes)


def make_record(model="net", error=None, seed=0, status="ok", reason="", sha256="abc", **changes) -> Record:
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
