"""The dataset cache: made once per recipe, in parallel over samples, checked whenever it is used.

A `Dataset` is an identity (the recipe: dataset name and version, sizes, parameters, seed). `ensure` makes its file or
finds it, under a lock, so that two processes that need it at once make it once. Work in progress is kept as parts,
one file per block of samples, so that a killed generation goes on where it was.
"""

from __future__ import annotations

import collections
import os
import shutil
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from . import datafile
from .datafile import CorruptData
from .errors import DataError, UsageError
from .files import human_bytes, remove_stale_temporaries, replacing
from .hashing import digest, seed_from
from .lazy import call_target
from .plugins import load_registry
from .pool import Event, WorkerPool
from .task import Scale, TaskInfo, TaskSpec, describe
from .worker import Failure, Job

SMALLEST_PART = 8  # samples: a process of its own for less is not worth its start
PART_BYTES = 32 << 20
PUBLIC_SUFFIXES = {".h5", ".hdf5", ".mat", ".nc"}
Progress = Callable[[int, int], None]


class DataWarning(UserWarning):
    """Something about cached data that the user should know."""


@dataclass(frozen=True)
class Split:
    inputs: np.ndarray
    outputs: np.ndarray


@dataclass(frozen=True)
class TaskData:
    """A task's samples in physical units."""

    task: TaskInfo
    train: Split
    test: Split
    sha256: str
    seconds_per_sample: float | None = None


@dataclass(frozen=True)
class Dataset:
    """What a dataset is, before it exists."""

    spec: TaskSpec
    scale: str
    params: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    source: Path | None = None

    @property
    def size(self) -> Scale:
        return self.spec.scales[self.scale]

    @cached_property
    def recipe(self) -> dict[str, Any]:
        size = self.size
        return {
            "dataset": self.spec.dataset,
            "version": self.spec.data_version,
            "scale": self.scale,
            "grid": list(size.grid),
            "sizes": {"train": size.train, "test": size.test},
            "steps": size.steps,
            "options": describe(size.options),
            "params": describe({**self.spec.params, **self.params}),
            "cases": self.spec.cases,
            "dtype": self.spec.dtype,
            "seed": self.seed,
            "source": _fingerprint(self.source) if self.source else "generated",
        }

    @cached_property
    def id(self) -> str:
        return digest(self.recipe)

    @property
    def path(self) -> Path:
        return data_dir() / f"{self.spec.dataset}-{self.scale}-v{self.spec.data_version}-s{self.seed}-{self.id[:10]}.h5"

    @property
    def title(self) -> str:
        grid = "x".join(map(str, self.size.grid))
        return f"{self.spec.dataset} {grid}, {self.size.train} train / {self.size.test} test"

    def seeds(self, split: str, start: int, stop: int) -> list[int]:
        """Per-sample seeds: the same for sample i whatever is made around it; samples of one group share one."""
        groups = (i // self.spec.cases for i in range(start, stop))
        return [seed_from("data", self.spec.dataset, split, self.seed, group) for group in groups]


def cache_dir() -> Path:
    """``PDEBENCH_HSS_CACHE``, or the user's cache directory."""
    if chosen := os.environ.get("PDEBENCH_HSS_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pdebench-hss"


def data_dir() -> Path:
    return cache_dir() / "data"


def load(dataset: Dataset, n_train: int | None = None, path: Path | None = None) -> TaskData:
    """The samples of an existing dataset as this task sees them, the first ``n_train`` of train."""
    path = path or dataset.path
    header = datafile.verify(path)
    task = dataset.spec.info(dataset.scale, dataset.params)
    train, test = read_split(dataset, path, "train", n_train), read_split(dataset, path, "test")
    return TaskData(task, train, test, header.sha256, header.seconds_per_sample)


def read_split(dataset: Dataset, path: Path, split: str, count: int | None = None) -> Split:
    """One split as the task sees it."""
    arrays = datafile.read_split(path, split, count)
    if dataset.spec.view is not None:
        arrays = call_target(dataset.spec.view)(*arrays)
    check_shapes(dataset.spec.info(dataset.scale, dataset.params), *arrays)
    return Split(*arrays)


def existing(dataset: Dataset) -> datafile.Header | None:
    """The dataset's verified file; None, with a warning if there was one that can't be trusted."""
    if not dataset.path.exists():
        return None
    try:
        return datafile.verify(dataset.path)
    except CorruptData as error:
        message = f"{dataset.path.name} in the data cache is not what was written ({error}); making it again"
        warnings.warn(message, DataWarning, stacklevel=2)
        return None


def ensure(
    dataset: Dataset, *, jobs: int = 1, plugin_files: Sequence[str] = (), progress: Progress = lambda done, total: None
) -> datafile.Header:
    """The dataset's file, made now if it has to be."""
    path = dataset.path
    _make_folder(path.parent)
    with FileLock(path.with_suffix(".lock")):
        header = existing(dataset)
        if header is None:
            _check_space(dataset)
            if dataset.source:
                _import(dataset, plugin_files)
            else:
                _generate(dataset, jobs, plugin_files, progress)
            header = datafile.verify(path)
    return header


def _generate(dataset: Dataset, jobs: int, plugin_files: Sequence[str], progress: Progress) -> None:
    """Make the missing parts side by side, then one file of them all."""
    folder = _parts_dir(dataset)
    folder.mkdir(exist_ok=True)
    remove_stale_temporaries(folder)
    parts = {part.name: part for part in _parts(dataset)}
    todo = [part for part in parts.values() if not (folder / part.name).exists()]
    total = sum(map(len, parts.values()))
    done = total - sum(map(len, todo))
    progress(done, total)
    reference = _reference(dataset, plugin_files)
    work = [Job(p.name, "pdebench_hss.data:make_part", {"reference": reference, "part": p}) for p in todo]
    with _workers(dataset, min(jobs, len(work))) as pool:
        for event in _run_jobs(pool, dataset, work):
            done += len(parts[event.job.id])
            progress(done, total)
        # HDF5 may crash, and not only raise, when the disk is full: so the file, too, is written in a worker.
        job = Job("file", "pdebench_hss.data:assemble", {"reference": reference})
        collections.deque(_run_jobs(pool, dataset, [job]), 0)
    shutil.rmtree(folder)


def _import(dataset: Dataset, plugin_files: Sequence[str]) -> None:
    if dataset.spec.read is None:
        raise UsageError(f"--data-dir: task {dataset.spec.name!r} has no reader for public files; leave it out")
    job = Job("import", "pdebench_hss.data:import_files", {"reference": _reference(dataset, plugin_files)})
    with _workers(dataset, 1) as pool:
        collections.deque(_run_jobs(pool, dataset, [job]), 0)


def _workers(dataset: Dataset, processes: int) -> WorkerPool:
    generate = dataset.spec.generate
    module = generate.partition(":")[0] if isinstance(generate, str) else generate.__module__
    return WorkerPool(processes, preload=("pdebench_hss.data", module))  # or every job would import scipy by itself


def _run_jobs(pool: WorkerPool, dataset: Dataset, jobs: Sequence[Job]) -> Iterator[Event]:
    """Run jobs in processes of their own; yields each that is done, raises for the first that isn't."""
    for event in pool.run(jobs):
        if event.kind == "done":
            yield event
        elif event.kind == "failed":
            raise _generator_error(dataset, event.value)
        elif event.kind == "crashed":
            raise DataError(f"task {dataset.spec.name!r}: the process that made its data died ({event.value})")


def _reference(dataset: Dataset, plugin_files: Sequence[str]) -> dict[str, Any]:
    """A dataset as plain values that a worker can find it by."""
    return {
        "task": dataset.spec.name,
        "scale": dataset.scale,
        "params": dict(dataset.params),
        "seed": dataset.seed,
        "source": str(dataset.source) if dataset.source else "",
        "plugin_files": [str(file) for file in plugin_files],
    }


def _referenced(
    task: str, scale: str, params: Mapping[str, Any], seed: int, source: str, plugin_files: Sequence[str]
) -> Dataset:
    spec = load_registry(plugin_files).task(task).spec
    return Dataset(spec, scale, params, seed, Path(source) if source else None)


def _parts_dir(dataset: Dataset) -> Path:
    return dataset.path.with_suffix(".parts")


def _generator_error(dataset: Dataset, failure: Failure) -> DataError:
    if failure.expected:
        return DataError(failure.message)
    return DataError(f"task {dataset.spec.name!r}: its generator raised {failure.kind}: {failure.message}")


@dataclass(frozen=True)
class Part:
    split: str
    start: int
    stop: int

    @property
    def name(self) -> str:
        return f"{self.split}-{self.start:07d}-{self.stop:07d}.npz"

    def __len__(self) -> int:
        return self.stop - self.start


def _parts(dataset: Dataset) -> Iterator[Part]:
    """Blocks of samples. They depend on the recipe alone, never on how many processes share the work."""
    spec, size = dataset.spec, dataset.size
    for split, count in (("train", size.train), ("test", size.test)):
        sample_bytes = _sample_bytes(dataset)
        step = spec.chunk or max(1, min(PART_BYTES // sample_bytes, max(SMALLEST_PART, -(-count // 4))))
        step = -(-step // spec.cases) * spec.cases
        for start in range(0, count, step):
            yield Part(split, start, min(start + step, count))


def make_part(emit: Any, reference: dict[str, Any], part: Part) -> None:
    """In a worker: generate one block of samples, refuse what is not finite, write it whole."""
    dataset = _referenced(**reference)
    spec, task = dataset.spec, dataset.spec.name
    keywords = {**spec.params, **dataset.params}
    if spec.cases > 1:
        keywords["cases"] = np.arange(part.start, part.stop) % spec.cases
    seeds = dataset.seeds(part.split, part.start, part.stop)
    start = time.perf_counter()
    inputs, outputs = call_target(spec.generate)(seeds, dataset.size, **keywords)
    seconds = time.perf_counter() - start
    for name, array in (("inputs", inputs), ("outputs", outputs)):
        if len(array) != len(seeds):
            raise DataError(f"task {task!r}: generate returned {len(array)} {name} for {len(seeds)} seeds")
        finite = np.isfinite(array).reshape(len(array), -1).all(axis=1)
        if not finite.all():
            index = part.start + int(np.argmin(finite))
            raise DataError(f"task {task!r}: {part.split} sample {index} has non-finite {name}; mend its generator")
    if spec.view is None:
        check_shapes(spec.info(dataset.scale, dataset.params), inputs, outputs)
    with replacing(_parts_dir(dataset) / part.name) as temporary, temporary.open("wb") as file:
        inputs, outputs = np.asarray(inputs, spec.dtype), np.asarray(outputs, spec.dtype)
        np.savez(file, inputs=inputs, outputs=outputs, seconds=np.float64(seconds))


def assemble(emit: Any, reference: dict[str, Any]) -> None:
    """In a worker: one file from all parts, a part at a time."""
    dataset = _referenced(**reference)
    folder = _parts_dir(dataset)

    def stream(split: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for part in _parts(dataset):
            if part.split == split:
                with np.load(folder / part.name) as arrays:
                    yield arrays["inputs"], arrays["outputs"]

    seconds = 0.0
    for part in _parts(dataset):
        with np.load(folder / part.name) as arrays:
            seconds += float(arrays["seconds"])
    _write(dataset, stream, seconds / (dataset.size.train + dataset.size.test))


def import_files(emit: Any, reference: dict[str, Any]) -> None:
    """In a worker: take the samples from public files instead of the generator."""
    dataset = _referenced(**reference)
    spec = dataset.spec
    assert spec.read is not None
    try:
        splits = call_target(spec.read)(dataset.source, dataset.size, **{**spec.params, **dataset.params})
    except (ValueError, OSError) as error:
        raise DataError(f"task {spec.name!r}: {error}") from error
    _write(dataset, lambda split: [splits[split]])


def _write(dataset: Dataset, parts: Callable[[str], Any], seconds_per_sample: float | None = None) -> None:
    try:
        datafile.write(dataset.path, dataset.recipe, dataset.spec.dtype, parts, seconds_per_sample)
    except (OSError, RuntimeError) as error:
        raise DataError(
            f"can't write {dataset.path}: {error}. Free space or set PDEBENCH_HSS_CACHE to another place."
        ) from error
    except CorruptData as error:
        raise DataError(f"task {dataset.spec.name!r}: {error}") from None


def check_shapes(task: TaskInfo, inputs: np.ndarray, outputs: np.ndarray | None = None) -> None:
    steps = (task.size.steps,) if task.rollout else ()
    expected = {
        "inputs": (len(inputs), task.in_channels, *task.grid),
        "outputs": (len(inputs), *steps, task.out_channels, *task.grid),
    }
    for name, array in (("inputs", inputs), ("outputs", outputs)):
        if array is not None and array.shape != expected[name]:
            raise DataError(f"task {task.name!r}: {name} have shape {array.shape}, expected {expected[name]}")


def _sample_bytes(dataset: Dataset) -> int:
    spec, size = dataset.spec, dataset.size
    channels = spec.in_channels + spec.out_channels * size.steps
    return channels * int(np.prod(size.grid)) * np.dtype(spec.dtype).itemsize


def _check_space(dataset: Dataset) -> None:
    """Parts and file exist side by side for a moment, so twice the size is needed."""
    needed = 2 * _sample_bytes(dataset) * (dataset.size.train + dataset.size.test)
    free = shutil.disk_usage(dataset.path.parent).free
    if free < needed:
        raise DataError(
            f"{dataset.title} needs {human_bytes(needed)} in {dataset.path.parent}, {human_bytes(free)} are free. "
            "Set PDEBENCH_HSS_CACHE to a larger disk or run: pdebench-hss data clean"
        )


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"can't make the data cache {folder}: {error.strerror}. Set PDEBENCH_HSS_CACHE."
        raise DataError(message) from None


def _fingerprint(source: Path) -> str:
    """Names, sizes and times of the public files: enough to notice that they changed without reading 150 GB."""
    if not source.is_dir():
        raise UsageError(f"--data-dir {source}: no such directory")
    files = sorted(f for f in source.rglob("*") if f.suffix.lower() in PUBLIC_SUFFIXES)
    return digest([[str(f.relative_to(source)), f.stat().st_size, f.stat().st_mtime_ns] for f in files])


def cached_files() -> list[Path]:
    return sorted(data_dir().glob("*.h5"))
