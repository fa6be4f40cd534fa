"""What --keep-predictions and the measurement of latencies add to a run of a board.

For each task of the board a prediction of its shape is written as the scorer does: smooth fields with the noise of
single precision, which is what networks give and compresses badly. The CPU time of that, median of a few, is charged to
every trial of the task and compared with the seconds that the board's trials took in all, as their records say. The
time allowed for latencies and throughput follows from the same records by the rule of `training.serving`; the few calls
that are made at least are charged by ``predict_ms``.

    python benchmarks/keeping_predictions.py [leaderboards/small-cpu] [--repeats 5]

Ends with an error if either adds more than 3 %.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from tabulate import tabulate

from pdebench_hss.contract.registry import load_registry
from pdebench_hss.training.serving import FEWEST, LIMITS, SHARE
from pdebench_hss.trials import predictions
from pdebench_hss.trials.record import Record
from pdebench_hss.trials.status import Status
from pdebench_hss.trials.store import Store

LIMIT = 0.03


def prediction_of(record: Record) -> np.ndarray:
    """An array of the shape that the trial predicted."""
    task = load_registry().task(record.trial.task).spec.info(record.trial.scale, record.trial.task_params)
    steps = (task.size.steps,) if task.rollout else ()
    x = np.linspace(0, 3, task.grid[-1])
    rng = np.random.default_rng(0)
    smooth = np.sin(x + rng.uniform(0, 6, (record.data["n_test"], *steps, task.out_channels, *task.grid[:-1], 1)))
    return np.float64(smooth.astype(np.float32)) * 0.7310585786300049  # a normaliser's scale fills the mantissa


def seconds_to_write(record: Record, folder: Path, repeats: int) -> tuple[float, int]:
    """CPU seconds, and bytes on disk."""
    values, seconds, size = prediction_of(record), [], 0
    for _ in range(repeats):
        start = time.process_time()
        size = predictions.write(folder / "p.h5", record.trial, values, "data")["bytes"]
        seconds.append(time.process_time() - start)
    return statistics.median(seconds), size


def serving_seconds(record: Record) -> float:
    """At most, but for the few calls that are made in any case."""
    fit = (record.seconds.get("build") or 0.0) + (record.seconds.get("fit") or 0.0)
    return min(max(SHARE * fit, LIMITS[0]), LIMITS[1]) + 2 * FEWEST * (record.predict_ms or 0.0) / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("board", nargs="?", default="leaderboards/small-cpu")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    records = [record for record in Store(arguments.board).current() if record.status is Status.OK]
    by_task: dict[str, list[Record]] = {}
    for record in records:
        by_task.setdefault(record.trial.task_label, []).append(record)
    rows, written = [], 0.0
    with tempfile.TemporaryDirectory() as folder:
        for task, own in sorted(by_task.items()):
            seconds, size = seconds_to_write(own[0], Path(folder), arguments.repeats)
            written += seconds * len(own)
            mean = statistics.mean(record.seconds["total"] for record in own)
            rows.append([task, f"{size / 1e6:.1f} MB", f"{1e3 * seconds:.0f} ms", f"{100 * seconds / mean:.1f} %"])
    print(tabulate(rows, headers=["task", "file", "CPU time", "of a trial"], tablefmt="github"))
    total = sum(record.seconds["total"] for record in records)
    shares = {"predictions": written / total, "latencies": sum(map(serving_seconds, records)) / total}
    for what, share in shares.items():
        print(f"{what}: {100 * share:.2f} % of {total:.0f} s in {len(records)} trials")
    if max(shares.values()) > LIMIT:
        sys.exit(f"more than {100 * LIMIT:g} %")


if __name__ == "__main__":
    main()
