"""How long it takes to merge 20 boards of 500 trials, and how much memory.

The boards are live ones in a temporary folder: ten tasks, twenty models, fifty seeds, cut into shards by key, with the
odd failed one. Each record is as large as a real one (`leaderboard_10k`). Two boards hold the same shard, so that 500
records are repeated. Merging runs in a process of its own; its CPU time and the high-water mark of its memory are
printed, and what writing the tables alone takes. CPU time, because files are in the page cache and the disk differs.

    python benchmarks/merging.py [--boards 20] [--trials 500]

Ends with an error if merging takes more than `LIMIT_SECONDS` of CPU time or `LIMIT_MB` of memory, or if the merged
board is not the same bytes when the boards are given in reverse order.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

from tabulate import tabulate

sys.path.insert(0, str(Path(__file__).parent))
from leaderboard_10k import make_record, make_trials

from pdebench_hss.base.machine import peak_memory
from pdebench_hss.boards.merging import merge
from pdebench_hss.boards.writing import write_board
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.trials.fitting import provenance
from pdebench_hss.trials.store import Store

LIMIT_SECONDS = 60.0
LIMIT_MB = 1500.0


def make_boards(folder: Path, boards: int, trials: int) -> list[Path]:
    """Boards of consecutive trials; the last is a copy of the first that ran again."""
    rng = random.Random(0)
    planned = list(make_trials((boards - 1) * trials))
    where_from = provenance(planned[0], time.time())
    paths = []
    for number in range(boards):
        start = trials * (number % (boards - 1))
        part = planned[start : start + trials]
        store = Store(folder / f"board{number:02d}")
        store.prepare()
        store.add_to_plan(part)
        for trial in part:
            store.put(make_record(trial, where_from, random.Random(trial.key) if number in (0, boards - 1) else rng))
        paths.append(store.path)
    return paths


def merged(paths: list[Path], out: Path) -> tuple[float, float, float, int, int]:
    """CPU seconds of merging and of its tables alone, the memory in MB, records and repeated ones."""
    registry = load_registry()
    started = time.process_time()
    done = merge(paths, out, registry)
    seconds = time.process_time() - started
    memory = peak_memory() / 1e6
    started = time.process_time()
    write_board(Store(out), registry)
    return seconds, time.process_time() - started, memory, done.records, done.repeated


def digest(folder: Path) -> str:
    """Of all files and their names."""
    found = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        found.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description="Time and memory of merging boards.")
    parser.add_argument("--boards", type=int, default=20)
    parser.add_argument("--trials", type=int, default=500)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="merging-") as name:
        folder = Path(name)
        paths = make_boards(folder, options.boards, options.trials)
        with get_context("spawn").Pool(1) as pool:
            seconds, tables, memory, records, repeated = pool.apply(merged, (paths, folder / "merged"))
        with get_context("spawn").Pool(1) as pool:
            pool.apply(merged, (paths[::-1], folder / "reversed"))
        assert digest(folder / "merged") == digest(folder / "reversed"), "the order of boards changed the bytes"
        size = sum(path.stat().st_size for path in (folder / "merged").rglob("*") if path.is_file()) / 1e6
    rows = [[options.boards, records, repeated, seconds, tables, memory, size]]
    headers = ["boards", "trials", "repeated", "CPU s", "of it tables", "peak MB", "board MB"]
    print(tabulate(rows, headers=headers, floatfmt=".1f"))
    assert seconds < LIMIT_SECONDS, f"merging took {seconds:.1f} s; the limit is {LIMIT_SECONDS} s"
    assert memory < LIMIT_MB, f"merging took {memory:.0f} MB; the limit is {LIMIT_MB} MB"


if __name__ == "__main__":
    main()
