"""How long a leaderboard of 10,000 records takes: read them, build both tables, write them; live and packed.

Ten tasks, twenty models, fifty seeds, with the odd failed, diverged and missing one, in a temporary store. Writing the
records is not timed, packing them is. Each stage is timed on its own; files are in the page cache, as they are after a
run.

    python benchmarks/leaderboard_10k.py [--records 10000]

Ends with an error if reading and building take 5 s or more, or if a pack is read more slowly than the live files.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from tabulate import tabulate

from pdebench_hss.boards import frames
from pdebench_hss.boards.packing import pack
from pdebench_hss.boards.writing import write_board
from pdebench_hss.contract.budget import Budget
from pdebench_hss.contract.optimizer import Optimizer
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.trials.fitting import provenance
from pdebench_hss.trials.record import Record
from pdebench_hss.trials.status import Status
from pdebench_hss.trials.store import Store
from pdebench_hss.trials.trial import Trial

LIMIT_SECONDS = 5.0
TASKS, MODELS = 10, 20
REPEATS = 3


def make_trials(count: int) -> Iterator[Trial]:
    for number in range(count):
        rest, task = divmod(number, TASKS)
        seed, model = divmod(rest, MODELS)
        yield Trial(
            model=f"model_{model}",
            model_label=f"model_{model}",
            model_version="1",
            hparams={"width": 64, "depth": 4, "modes": 16, "activation": "gelu"},
            optimizer=Optimizer(32, 1e-3, 1e-5, 1e-4),
            task=f"task_{task}",
            task_label=f"task_{task}",
            task_params={},
            data_id=f"{task:064d}",
            data_seed=0,
            scale="small",
            budget=Budget("steps", 300),
            n_train=192,
            seed=seed,
            device="cpu",
            equation=f"Equation {task}",
            metric="relative_l2",
            training_free=model < 3,
        )


def make_record(trial: Trial, where_from: dict[str, Any], rng: random.Random) -> Record:
    """As large as a real one."""
    status = rng.choices(["ok", "failed", "diverged"], weights=[98, 1, 1])[0]
    error = rng.lognormvariate(-3, 1)
    names = ("test_err", "relative_l2", "trajectory_l2", "rmse", "max_error")
    return Record(
        trial.key,
        trial,
        Status(status),
        reason="" if status == "ok" else "RuntimeError: something went wrong",
        metrics=dict.fromkeys(names, error) if status == "ok" else {},
        parameters={"real": 166_033, "numel": 166_033, "target": None},
        spent={"steps": 300, "samples": 9600, "seconds": 12.3, "flops": 1.2e12},
        flops_step=4e9,
        seconds={"build": 0.01, "fit": rng.uniform(10, 20), "predict": 0.1, "total": 21.0},
        predict_ms=rng.uniform(1, 2),
        peak_memory=100_000_000,
        data={"sha256": "0" * 64, "n_train": 192, "n_test": 48},
        provenance=where_from,
        samples={f"error_{name}": np.full(48, error) for name in names} if status == "ok" else {},
    )


def fill(store: Store, count: int) -> int:
    """Write the plan and the records, one in a hundred missing; returns how many records there are."""
    store.prepare()
    rng = random.Random(0)
    trials = list(make_trials(count))
    where_from = provenance(trials[0], time.time())
    store.add_to_plan(trials)
    present = [trial for number, trial in enumerate(trials) if number % 100]
    for trial in present:
        store.put(make_record(trial, where_from, rng))
    return len(present)


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """The median of a few runs, and the result."""
    taken = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        result = function()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken), result


def main() -> None:
    parser = argparse.ArgumentParser(description="Time to build a leaderboard from many records.")
    parser.add_argument("--records", type=int, default=10_000)
    options = parser.parse_args()
    registry = load_registry()
    with tempfile.TemporaryDirectory(prefix="leaderboard-") as folder:
        store = Store(folder)
        present = fill(store, options.records)
        reading, records = timed(store.current)
        building_results, results = timed(lambda: frames.results(records))
        building_board, board = timed(lambda: frames.leaderboard(results))
        everything, _ = timed(lambda: write_board(store, registry))
        start = time.perf_counter()
        packed = pack(store)
        packing = time.perf_counter() - start
        reading_pack, again = timed(lambda: Store(folder).current())
        everything_packed, _ = timed(lambda: write_board(Store(folder), registry))
    assert len(results) == options.records
    assert again == records
    total = reading + building_results + building_board
    rows = [
        ["read the records", reading, reading_pack],
        ["build results", building_results],
        ["build the leaderboard", building_board],
        ["the three together", total, total - reading + reading_pack],
        ["all of it with writing the tables", everything, everything_packed],
        ["pack the records", packing],
    ]
    print(f"{options.records} cells, {present} records, {len(board)} rows of the leaderboard; medians of {REPEATS}")
    print(tabulate(rows, headers=["stage", "seconds", "packed"], floatfmt=".3f"))
    print(f"pack: {packed.before[0]} files of {packed.before[1]} bytes -> {packed.after[0]} of {packed.after[1]}")
    assert total < LIMIT_SECONDS, f"{total:.2f} s for {options.records} records; the limit is {LIMIT_SECONDS} s"
    assert everything < LIMIT_SECONDS, f"{everything:.2f} s with writing; the limit is {LIMIT_SECONDS} s"
    assert reading_pack <= reading, f"a pack is read in {reading_pack:.2f} s, live files in {reading:.2f} s"


if __name__ == "__main__":
    main()
