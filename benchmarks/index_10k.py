"""How long the index of 10,000 cells takes, and how much memory.

Five boards of ten tasks and two hundred models with one seed each, packed, in a temporary folder. The index is written
in a process of its own; its CPU time, the high-water mark of its memory and the size of the file are printed.

    python benchmarks/index_10k.py [--boards 5] [--models 200]

Ends with an error if it takes more than `LIMIT_SECONDS` of CPU time or `LIMIT_MB` of memory.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

from tabulate import tabulate

sys.path.insert(0, str(Path(__file__).parent))
from leaderboard_10k import TASKS, make_record, make_trials

from pdebench_hss.base.machine import peak_memory
from pdebench_hss.boards.index import write_index
from pdebench_hss.boards.packing import pack
from pdebench_hss.trials.fitting import provenance
from pdebench_hss.trials.store import Store

LIMIT_SECONDS = 120.0
LIMIT_MB = 1500.0


def make_board(folder: Path, models: int) -> None:
    rng, store = random.Random(0), Store(folder)
    trials = []
    for number, trial in enumerate(make_trials(TASKS * models)):
        name = f"model_{number // TASKS}"
        trials.append(dataclasses.replace(trial, model=name, model_label=name, seed=0))
    where_from = provenance(trials[0], time.time())
    store.prepare()
    store.add_to_plan(trials)
    for trial in trials:
        store.put(make_record(trial, where_from, rng))
    pack(store)


def timed(folder: Path) -> tuple[float, float, int, int]:
    """CPU seconds, memory in MB, cells, and bytes of the file."""
    started = time.process_time()
    path, _, cells = write_index(folder)
    return time.process_time() - started, peak_memory() / 1e6, cells, path.stat().st_size


def main() -> None:
    parser = argparse.ArgumentParser(description="Time and memory of the index of many cells.")
    parser.add_argument("--boards", type=int, default=5)
    parser.add_argument("--models", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="index-") as name:
        for number in range(options.boards):
            make_board(Path(name) / f"board{number}", options.models)
        with get_context("spawn").Pool(1) as pool:
            seconds, memory, cells, size = pool.apply(timed, (Path(name),))
    print(tabulate([[cells, seconds, memory, size / 1e6]], ["cells", "CPU s", "peak MB", "index MB"], floatfmt=".1f"))
    assert seconds < LIMIT_SECONDS, f"the index took {seconds:.1f} s; the limit is {LIMIT_SECONDS} s"
    assert memory < LIMIT_MB, f"the index took {memory:.0f} MB; the limit is {LIMIT_MB} MB"


if __name__ == "__main__":
    main()
