"""Boards that are compared: errors that differ by seed and sample as those of real models do, reproducibly."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd

from pdebench_hss.boards.comparison import compare
from pdebench_hss.boards.reading import read_board
from pdebench_hss.boards.writing import write_board
from pdebench_hss.contract.registry import Registry
from pdebench_hss.trials.store import Store

from .records import make_record

TASKS, MODELS, SEEDS, SAMPLES = ("heat", "wave"), ("fno", "net"), 3, 32
HARDNESS = np.random.default_rng(0).lognormal(-2, 0.8, SAMPLES)  # of each test sample, for every model


def errors_of(task: str, model: str, seed: int, factor: float = 1.0) -> np.ndarray:
    """Errors that differ by seed (3 %) and by sample; the same whenever they are asked for."""
    random = np.random.default_rng([len(task) + ord(task[0]), len(model) + ord(model[0]), seed])
    return factor * HARDNESS * random.normal(1, 0.03) * random.normal(1, 0.05, SAMPLES)


def make_board(
    path: Path, factors=None, seeds=range(SEEDS), tasks=TASKS, models=MODELS, hardware="machine", **changes
) -> Path:
    """A directory of records; ``factors[task, model]`` makes a cell's errors that much larger."""
    store = Store(path)
    store.prepare()
    for task in tasks:
        for model in models:
            for seed in seeds:
                what = {"task": task, "task_label": task, "data_id": task, **changes}
                errors = errors_of(task, model, seed, (factors or {}).get((task, model), 1.0))
                record = make_record(model, float(errors.mean()), seed, **what)
                record.provenance["hardware"] = {**record.provenance["hardware"], "id": hardware}
                record.data["n_test"] = len(errors)
                store.put(dataclasses.replace(record, samples={"error_test_err": errors}))
    write_board(store, Registry())
    return path


def compared(*sources, **options) -> pd.DataFrame:
    """The comparison by (task, model)."""
    table = compare([read_board(source) for source in sources], **options).table
    return table.set_index(["task", "model"])


def notes(*sources, **options) -> str:
    return "\n".join(compare([read_board(source) for source in sources], **options).notes)


def edited(board: Path, tmp_path: Path, edit, name: str = "leaderboard.csv") -> Path:
    path = tmp_path / "edited.csv"
    path.write_text(edit((board / name).read_text()), encoding="utf-8")
    return path


def without_column(name: str):
    def edit(text: str) -> str:
        rows = [line.split(",") for line in text.splitlines()]
        index = rows[0].index(name)
        return "\n".join(",".join(row[:index] + row[index + 1 :]) for row in rows)

    return edit


def with_value(column: str, value: str):
    def edit(text: str) -> str:
        header, first, *rest = text.splitlines()
        fields = first.split(",")
        fields[header.split(",").index(column)] = value
        return "\n".join([header, ",".join(fields), *rest])

    return edit
