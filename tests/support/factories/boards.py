"""Whole boards of records that nobody ran: small, exact and quick, with the curves and pictures that a page draws."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from pdebench_hss.contract.budget import Budget
from pdebench_hss.trials.record import Record
from pdebench_hss.trials.status import Status
from pdebench_hss.trials.store import Store
from pdebench_hss.trials.trial import Trial

from .records import PROVENANCE, make_trial

HARDWARE = {"id": "machine-a", "cpu": "a cpu", "cores": 2}

SERVING = {
    **{"latency_ms": 0.7, "latency_ms_low": 0.6, "latency_ms_high": 0.9},
    **{"throughput": 2500.0, "throughput_low": 2000.0, "throughput_high": 2600.0, "best_batch": 64},
}


def page_trial(model="fno", task="poisson_2d", seed=0, **changes: Any) -> Trial:
    usual = {"data_id": f"data of {task}", "scale": "small", "n_train": 64, "budget": Budget("steps", 100)}
    words = {"hparams": {"width": 8}, "equation": "Poisson Eq."}
    return make_trial(model, seed, task=task, **{**usual, **words, **changes})


def page_record(trial: Trial, error: float | None = 0.1, status="ok", reason="", pictures=True, **fields) -> Record:
    """A record as a run would leave it; without an error it has no results."""
    source = {"commit": "abc", "modified": False}
    provenance = {**PROVENANCE, "hardware": HARDWARE, "source": source}
    if error is None:
        return Record(trial.key, trial, Status(status), reason, provenance=provenance)
    return Record(
        trial.key,
        trial,
        Status(status),
        reason,
        **{
            "metrics": dict.fromkeys(("test_err", "relative_l2", "trajectory_l2", "rmse", "max_error"), error),
            "parameters": {"real": 2000, "numel": 1000, "target": None},
            "spent": {"steps": 100, "samples": 400, "seconds": 2.0, "flops": 1e9},
            "flops_step": 1e7,
            "seconds": {"fit": 2.0 + trial.seed, "predict": 0.1, "total": 3.0},
            "predict_ms": 0.5,
            "serving": SERVING,
            "peak_memory": 5_000_000,
            "data": {"sha256": "f00", "n_train": trial.n_train, "n_test": 5},
            "provenance": provenance,
            "samples": make_samples(error, pictures),
            **fields,
        },
    )


def held_out_record(trial: Trial, errors: list[float], error: float = 0.1) -> Record:
    """Of a training that was looked at on held-out samples: their mean error every ten steps, the last as it ended."""
    record = page_record(trial, error)
    steps = 10 * np.arange(1, len(errors) + 1)
    curve = {"val_steps": steps, "val_seconds": 0.01 * steps, "val_errors": np.array(errors)}
    return dataclasses.replace(
        record,
        metrics={**record.metrics, "val_err": errors[-1]},
        data={**record.data, "n_val": trial.val},
        samples={**record.samples, **curve, "error_val_err": np.full(trial.val, errors[-1])},
    )


def make_samples(error: float, pictures: bool) -> dict[str, np.ndarray]:
    x, y = np.meshgrid(np.linspace(-1, 1, 16), np.linspace(-1, 1, 16), indexing="ij")
    field = np.broadcast_to(np.sin(3 * x) * np.cos(2 * y), (3, 1, 16, 16)).astype(np.float32)
    arrays = {
        "error_test_err": error * np.array([0.5, 0.8, 1.0, 1.2, 1.5]),
        "curve_steps": np.arange(1, 101),
        "curve_losses": np.exp(-np.arange(100) / 30),
    }
    if pictures:
        index = np.array([0, 2, 4])
        arrays |= {"picture_index": index, "picture_input": field, "picture_truth": field, "picture_error": 0.1 * field}
        arrays["picture_map"] = np.abs([0.05, 0.1] * field[:2].T).T.astype(np.float32)
    return arrays


def write_board(folder: Path, records: list[Record], planned: list[Trial] = ()) -> Path:
    """A directory of records; planned trials without a record are missing cells."""
    store = Store(folder)
    store.prepare()
    trials = [record.trial for record in records]
    store.add_to_plan([*trials, *planned])
    for record in records:
        store.put(record)
    return folder


def usual_board(folder: Path) -> Path:
    """Two tasks, four models, two seeds; something skipped, something failed, something missing."""
    records = []
    for task, factor in (("poisson_2d", 1.0), ("heat_1d", 0.1)):
        for seed in (0, 1):
            records += [
                page_record(page_trial("mean", task, seed, training_free=True), 0.9 * factor),
                page_record(page_trial("fno", task, seed), (0.2 + 0.01 * seed) * factor),
                page_record(page_trial("neural_hss", task, seed), (0.1 + 0.01 * seed) * factor, flops_step=3e7),
            ]
    skipped = page_record(page_trial("green_learning"), None, "skipped", "needs a linear PDE")
    failed = page_record(page_trial("resnet"), None, "failed", "ValueError: the kernel is too wide")
    return write_board(folder, [*records, skipped, failed], [page_trial("deeponet")])
