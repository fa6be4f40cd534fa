"""What checksums cost when a dataset is read.

Three files with the same content: contiguous (the layout of earlier versions), in chunks, and in chunks with a
Fletcher-32 checksum each (what is written now). They take turns in one process, from a warm page cache, so
that CPU time is all the time there is; the best of many turns counts.

* read     HDF5 to numpy arrays and nothing else: the price itself. Memory is copied faster than a checksum of it is
           computed, so this is never within a tenth, whatever the size of chunks (``--chunks`` tries some).
* prepare  `data.load` and `training.prepare`: what a trial does before its model sees the data.
* trial    a whole trial of `mean`, the cheapest model there is: read, prepare, fit, predict, score.
* epoch    a trial of `resnet` that sees every training sample once, in the old layout; what checksums add to its read.
* hash     what the same notice of rot would cost without checksums: the file's SHA-256 at every read.

    python benchmarks/data_checksums.py [--megabytes 1 16 64] [--repeats 25] [--chunks 16 256 1024 4096]

The goal: reading a dataset takes at most 10 % longer with checksums. It is missed, and the command ends with an error.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from tabulate import tabulate

from pdebench_hss.contract.registry import Registered, Registry, load_registry
from pdebench_hss.data import cache, hdf5
from pdebench_hss.runs.config import RunConfig
from pdebench_hss.runs.plan import make_plan
from pdebench_hss.training import windows
from pdebench_hss.trials.context import Context
from pdebench_hss.trials.run_trial import run_trial
from pdebench_hss.trials.store import Store

LIMIT = 0.10
LAYOUTS = ("contiguous", "chunks", "checksums")


def make_dataset(megabytes: int) -> cache.Dataset:
    """poisson_2d at 64 x 64 with as many random samples as fill the size; 9 of 10 are for training."""
    task = load_registry().task("poisson_2d")
    count = max(20, (megabytes << 20) // (2 * 64 * 64 * 8))
    size = dataclasses.replace(task.spec.scales["small"], grid=(64, 64), train=count - count // 10, test=count // 10)
    return cache.Dataset(Registered(dataclasses.replace(task.spec, scales={"small": size}), task.origin), "small")


def write_layouts(dataset: cache.Dataset, folder: Path) -> dict[str, Path]:
    rng = np.random.default_rng(0)
    samples = {split: rng.standard_normal((2, getattr(dataset.size, split), 1, 64, 64)) for split in hdf5.SPLITS}
    files = {layout: folder / f"{layout}.h5" for layout in LAYOUTS}
    hdf5.write(files["checksums"], dataset.recipe, "float64", lambda split: [tuple(samples[split])])
    for layout in ("contiguous", "chunks"):
        with h5py.File(files["checksums"], "r") as source, h5py.File(files[layout], "w") as file:
            file.attrs.update(source.attrs)
            for split in hdf5.SPLITS:
                for name in hdf5.ARRAYS:
                    stored = source[split][name]
                    chunks = stored.chunks if layout == "chunks" else None
                    file.create_dataset(f"{split}/{name}", data=stored[()], chunks=chunks)
        hdf5.verify(files[layout])  # and remember it: every turn finds a file that was checked before
    return files


def read(dataset: cache.Dataset, path: Path) -> None:
    for split in hdf5.SPLITS:
        hdf5.read_split(path, split)


def prepare(dataset: cache.Dataset, path: Path) -> None:
    windows.prepare(cache.load(dataset, path=path), torch.float32)


def trial(dataset: cache.Dataset, path: Path, model: str = "mean") -> None:
    registry = _registry()
    registry.tasks[dataset.spec.name] = dataset.task
    config = RunConfig(models=model, tasks=dataset.spec.name, device="cpu", budget="epochs=1")
    (cell,) = make_plan(config, registry, Store(path.parent / "board")).cells
    record = run_trial(cell.trial, Context(data=str(path)), registry)  # an absolute path: not in the cache
    assert record.status == "ok", record.reason


def epoch(dataset: cache.Dataset, path: Path) -> None:
    trial(dataset, path, "resnet")


@functools.cache
def _registry() -> Registry:
    return load_registry()


def sha256(dataset: cache.Dataset, path: Path) -> None:
    hdf5.verify(path, deep=True)
    read(dataset, path)


def best(
    action: Callable[[cache.Dataset, Path], None], dataset: cache.Dataset, files: dict[str, Path], repeats: int
) -> dict[str, float]:
    """CPU seconds by file."""
    seconds = dict.fromkeys(files, np.inf)
    for _ in range(repeats):
        for layout, path in files.items():
            start = time.process_time()
            action(dataset, path)
            seconds[layout] = min(seconds[layout], time.process_time() - start)
    return seconds


def compare_layouts(megabytes: int, repeats: int) -> tuple[list[list[Any]], float]:
    """Rows of the table, and by how much checksums make reading longer."""
    dataset, rows, extra, share = make_dataset(megabytes), [], {}, {}
    with tempfile.TemporaryDirectory() as folder:
        files = write_layouts(dataset, Path(folder))
        for action in (read, prepare, trial):
            seconds = best(action, dataset, files, repeats)
            extra[action] = seconds["checksums"] - seconds["contiguous"]
            share[action] = extra[action] / seconds["contiguous"]
            milliseconds = [1e3 * seconds[k] for k in LAYOUTS]
            rows.append([f"{megabytes} MB", action.__name__, *milliseconds, 100 * share[action]])
        old = {"contiguous": files["contiguous"]}
        trained, hashed = (best(action, dataset, old, 2)["contiguous"] for action in (epoch, sha256))
        rows.append([f"{megabytes} MB", "epoch", 1e3 * trained, None, None, 100 * extra[read] / trained])
        rows.append([f"{megabytes} MB", "hash", 1e3 * hashed])
    return rows, share[read]


def compare_chunks(sizes: list[int], repeats: int) -> list[list[Any]]:
    """Reading 64 MB in chunks of several sizes, with and without checksums."""
    array, rows = np.random.default_rng(0).standard_normal((2048, 1, 64, 64)), []
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for kilobytes in sizes:
            for checksum in (False, True):
                files[kilobytes, checksum] = Path(folder) / f"{kilobytes}-{checksum}.h5"
                chunks = (min(2048, max(1, kilobytes // 32)), 1, 64, 64)
                with h5py.File(files[kilobytes, checksum], "w") as file:
                    file.create_dataset("x", data=array, chunks=chunks, fletcher32=checksum)
        seconds = dict.fromkeys(files, np.inf)
        for _ in range(repeats):
            for which, path in files.items():
                start = time.process_time()
                with h5py.File(path, "r") as file:
                    file["x"][()]
                seconds[which] = min(seconds[which], time.process_time() - start)
    for kilobytes in sizes:
        rows.append([f"{kilobytes} kB", 1e3 * seconds[kilobytes, False], 1e3 * seconds[kilobytes, True]])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--chunks", type=int, nargs="+", default=[], metavar="KILOBYTES")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"CPU milliseconds, best of {options.repeats}; HDF5 {h5py.version.hdf5_version}, one thread")
    if options.chunks:
        rows = compare_chunks(options.chunks, options.repeats)
        print(tabulate(rows, ["chunks of", "without", "with checksums"], floatfmt=".1f"))
        return
    rows, worst = [], 0.0
    for megabytes in options.megabytes:
        more_rows, more = compare_layouts(megabytes, options.repeats)
        rows, worst = rows + more_rows, max(worst, more)
    print(tabulate(rows, ["data", "", *LAYOUTS, "more [%]"], floatfmt=".1f"))
    if worst > LIMIT:
        sys.exit(f"missed: reading takes {100 * worst:.0f} % longer with checksums; the goal is {100 * LIMIT:.0f} %")


if __name__ == "__main__":
    main()
