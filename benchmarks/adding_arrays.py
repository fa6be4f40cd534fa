"""What `data add` costs, compared with a plain copy that hashes.

Two files of arrays are added to an empty cache, and copied by a loop that reads a block, updates a SHA-256 and writes
the block; both without waiting for the disk, from a warm page cache. They take turns, each in a fork of its own. Shown
are medians of wall and of CPU time.

    python benchmarks/adding_arrays.py [--gigabytes 1] [--repeats 5]

Ends with an error if adding takes more than 1.5 times the CPU time, or the wall time, of the copy.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from tabulate import tabulate

from pdebench_hss.contract.task_file import TaskFile
from pdebench_hss.data import adding

LIMIT = 1.5
BLOCK_BYTES = 4 << 20


def write_arrays(folder: Path, gigabytes: float) -> None:
    """Pairs of two float32 fields on 128 x 96 points."""
    count = max(10, int(gigabytes * 1e9 / (2 * 2 * 128 * 96 * 4)))
    rng = np.random.default_rng(0)
    for name in ("x", "y"):
        array = np.lib.format.open_memmap(folder / f"{name}.npy", "w+", np.float32, (count, 2, 128, 96))
        for start in range(0, count, 64):
            array[start : start + 64] = rng.standard_normal(array[start : start + 64].shape, np.float32)
        array.flush()


def copy_with_hash(folder: Path, target: Path) -> None:
    target.mkdir()
    buffer = memoryview(bytearray(BLOCK_BYTES))
    for name in ("x.npy", "y.npy"):
        state = hashlib.sha256()
        with (folder / name).open("rb", buffering=0) as stream, (target / name).open("wb", buffering=0) as copy:
            while count := stream.readinto(buffer):
                state.update(buffer[:count])
                copy.write(buffer[:count])


def add(folder: Path, target: Path) -> None:
    os.environ["PDEBENCH_HSS_CACHE"] = str(target)
    adding.add(TaskFile(name="arrays", inputs="x.npy", outputs="y.npy", folder=str(folder)))


def measure(work: Callable[[Path, Path], None], folder: Path, target: Path) -> tuple[float, float]:
    """Seconds of wall and of CPU time, in a fork."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        wall, cpu = time.perf_counter(), time.process_time()
        work(folder, target)
        os.write(writing, f"{time.perf_counter() - wall} {time.process_time() - cpu}".encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    found = os.read(reading, 100).decode().split()
    os.close(reading)
    shutil.rmtree(target)
    if len(found) != 2:
        sys.exit(f"{work.__name__} failed")
    return float(found[0]), float(found[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    ways = {"copy with hash": copy_with_hash, "data add": add}
    times: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_arrays(folder, arguments.gigabytes)
        for repeat in range(-1, arguments.repeats):
            for way, work in list(ways.items())[:: 1 if repeat % 2 else -1]:  # who goes first changes, too
                seconds = measure(work, folder, folder / "target")
                if repeat >= 0:  # the first turn warms the page cache
                    times[way].append(seconds)
    medians = {way: [statistics.median(column) for column in zip(*found, strict=True)] for way, found in times.items()}
    wall, cpu = (added / plain for added, plain in zip(medians["data add"], medians["copy with hash"], strict=True))
    print(tabulate([[way, *found] for way, found in medians.items()], ["", "wall s", "CPU s"], floatfmt=".2f"))
    print(f"{arguments.gigabytes:g} GB: data add takes {wall:.2f} times the wall and {cpu:.2f} times the CPU time")
    if max(wall, cpu) > LIMIT:
        sys.exit(f"more than {LIMIT} times a copy with hash")


if __name__ == "__main__":
    main()
