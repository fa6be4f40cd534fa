"""What checksums cost when a dataset is read.

Three files with the same content: contiguous (the layout of earlier versions), in chunks, and in chunks with a
Fletcher-32 checksum each (what is written now). They take turns in one process, from a warm page cache, and the best of
many turns counts. Two things are timed:

* read   HDF5 to numpy arrays alone. Copying memory is faster than any checksum of it, so this shows the price itself.
* use    what a trial does with a dataset before its model sees it: `data.load` and `training.prepare` (verify, read,
         check shapes, fit the normaliser, form training pairs in float32).

    python benchmarks/data_checksums.py [--megabytes 1 16 64] [--repeats 25]

Ends with an error if a dataset with checksums takes more than 10 % longer to use than the same in the old layout.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import torch
from tabulate import tabulate

from pdebench_hss import data, datafile, training
from pdebench_hss.plugins import Registered, load_registry

LIMIT = 0.10
LAYOUTS = ("contiguous", "chunks", "checksums")


def make_dataset(megabytes: int) -> data.Dataset:
    """poisson_2d at 64 x 64 with as many random samples as fill the size; 9 of 10 are for training."""
    task = load_registry().task("poisson_2d")
    count = max(20, (megabytes << 20) // (2 * 64 * 64 * 8))
    size = dataclasses.replace(task.spec.scales["small"], grid=(64, 64), train=count - count // 10, test=count // 10)
    return data.Dataset(Registered(dataclasses.replace(task.spec, scales={"small": size}), task.origin), "small")


def write_layouts(dataset: data.Dataset, folder: Path) -> dict[str, Path]:
    rng = np.random.default_rng(0)
    samples = {split: rng.standard_normal((2, getattr(dataset.size, split), 1, 64, 64)) for split in datafile.SPLITS}
    files = {layout: folder / f"{layout}.h5" for layout in LAYOUTS}
    datafile.write(files["checksums"], dataset.recipe, "float64", lambda split: [tuple(samples[split])])
    for layout in ("contiguous", "chunks"):
        with h5py.File(files["checksums"], "r") as source, h5py.File(files[layout], "w") as file:
            file.attrs.update(source.attrs)
            for split in datafile.SPLITS:
                for name in datafile.ARRAYS:
                    stored = source[split][name]
                    chunks = stored.chunks if layout == "chunks" else None
                    file.create_dataset(f"{split}/{name}", data=stored[()], chunks=chunks)
        datafile.verify(files[layout])  # and remember it: every turn finds a file that was checked before
    return files


def read(dataset: data.Dataset, path: Path) -> None:
    for split in datafile.SPLITS:
        datafile.read_split(path, split)


def use(dataset: data.Dataset, path: Path) -> None:
    training.prepare(data.load(dataset, path=path), torch.float32)


def best(
    action: Callable[[data.Dataset, Path], None], dataset: data.Dataset, files: dict[str, Path], repeats: int
) -> dict[str, float]:
    seconds = dict.fromkeys(files, np.inf)
    for _ in range(repeats):
        for layout, path in files.items():
            start = time.process_time()
            action(dataset, path)
            seconds[layout] = min(seconds[layout], time.process_time() - start)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--repeats", type=int, default=25)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows, worst = [], 0.0
    for megabytes in options.megabytes:
        dataset = make_dataset(megabytes)
        with tempfile.TemporaryDirectory() as folder:
            files = write_layouts(dataset, Path(folder))
            for action in (read, use):
                seconds = best(action, dataset, files, options.repeats)
                more = seconds["checksums"] / seconds["contiguous"] - 1
                rows.append([f"{megabytes} MB", action.__name__, *(1e3 * seconds[k] for k in LAYOUTS), 100 * more])
                if action is use:
                    worst = max(worst, more)
    print(f"milliseconds, best of {options.repeats}; HDF5 {h5py.version.hdf5_version}, {os.cpu_count()} cores")
    print(tabulate(rows, ["data", "", *LAYOUTS, "more than contiguous [%]"], floatfmt=".1f"))
    if worst > LIMIT:
        sys.exit(f"a dataset with checksums takes {100 * worst:.0f} % longer to use; the limit is {100 * LIMIT:.0f} %")


if __name__ == "__main__":
    main()
