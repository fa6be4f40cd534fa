"""What checksums cost when a dataset is read.

The same four arrays are read in three ways, from a warm page cache:

* plain    contiguous arrays without checksums, read by HDF5: the layout and the way of the first version
* HDF5     chunks with a Fletcher-32 each, which HDF5 compares as it reads
* charted  the same file as `datafile` reads it, every chunk checked by its sums (`checked_chunks`)

They take turns, each in a fork of its own, as a trial is, so that none finds memory that another has left. Shown are
medians of wall and of CPU time; both count. One thread.

    python benchmarks/data_checksums.py [--megabytes 1 16 64] [--repeats 101]

Ends with an error if reading with checksums takes more than a tenth longer than plain reading.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from tabulate import tabulate

from pdebench_hss.data import hdf5

LIMIT = 0.10


def write_files(megabytes: int, folder: Path) -> tuple[Path, Path]:
    """Samples of 64 x 64, 9 of 10 for training: with checksums, and plain."""
    count = max(20, (megabytes << 20) // (2 * 64 * 64 * 8))
    sizes = {"train": count - count // 10, "test": count // 10}
    rng = np.random.default_rng(0)
    samples = {split: rng.standard_normal((2, sizes[split], 1, 64, 64)) for split in hdf5.SPLITS}
    checked, plain = folder / "checked.h5", folder / "plain.h5"
    hdf5.write(checked, {"sizes": sizes}, "float64", lambda split: [tuple(samples[split])])
    with h5py.File(plain, "w") as file:
        for split in hdf5.SPLITS:
            for name, array in zip(hdf5.ARRAYS, samples[split]):
                file.create_dataset(f"{split}/{name}", data=array)
    return checked, plain


def read_by_hdf5(path: Path) -> list[np.ndarray]:
    arrays = []
    for split in hdf5.SPLITS:
        for name in hdf5.ARRAYS:
            with h5py.File(path, "r", rdcc_nbytes=0) as file:
                arrays.append(file[split][name][()])
    return arrays


def read_by_charts(path: Path) -> list[np.ndarray]:
    return [array for split in hdf5.SPLITS for array in hdf5.read_split(path, split)]


def seconds(read: Callable[[Path], Any], path: Path) -> tuple[float, float]:
    """Wall and CPU time of one reading, in a fork."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        wall, cpu = time.perf_counter(), time.process_time()
        arrays = read(path)  # noqa: F841  kept until the clocks are read
        os.write(into, json.dumps([time.perf_counter() - wall, time.process_time() - cpu]).encode())
        os._exit(0)
    os.close(into)
    with os.fdopen(out) as answer:
        wall, cpu = json.loads(answer.read())
    os.waitpid(child, 0)
    return wall, cpu


def compare(megabytes: int, repeats: int) -> tuple[list[list[Any]], float]:
    """Rows of the table, and by how much checksums make reading longer."""
    with tempfile.TemporaryDirectory() as folder:
        checked, plain = write_files(megabytes, Path(folder))
        ways = {"plain": (read_by_hdf5, plain), "HDF5": (read_by_hdf5, checked), "charted": (read_by_charts, checked)}
        first, *others = (read(path) for read, path in ways.values())
        assert all(np.array_equal(a, b) for arrays in others for a, b in zip(first, arrays))
        del first, others
        taken: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        for turn in range(repeats):
            for way in list(ways)[:: 1 if turn % 2 else -1]:
                taken[way].append(seconds(*ways[way]))
    medians = {way: [statistics.median(times) for times in zip(*taken[way])] for way in ways}
    more = [medians["charted"][clock] / medians["plain"][clock] - 1 for clock in (0, 1)]
    rows = [
        [f"{megabytes} MB", clock, *(1e3 * medians[way][number] for way in ways), 100 * more[number]]
        for number, clock in enumerate(("wall", "CPU"))
    ]
    return rows, max(more)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--repeats", type=int, default=101)
    options = parser.parse_args()
    rows, worst = [], -1.0
    for megabytes in options.megabytes:
        more_rows, more = compare(megabytes, options.repeats)
        rows, worst = rows + more_rows, max(worst, more)
    load = os.getloadavg()[0]
    print(f"milliseconds, medians of {options.repeats}; HDF5 {h5py.version.hdf5_version}; load {load:.1f}")
    print(tabulate(rows, ["data", "", "plain", "HDF5", "charted", "charted, more [%]"], floatfmt=".2f"))
    if worst > LIMIT:
        sys.exit(f"missed: reading takes {100 * worst:.0f} % longer with checksums; the goal is {100 * LIMIT:.0f} %")


if __name__ == "__main__":
    main()
