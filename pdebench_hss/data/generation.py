"""Making a dataset's file: by its task's generator in parts side by side, or from public files by its reader.

The driver's half (`generate`, `import_public`) hands out jobs; the workers' half (`make_part`, `assemble`,
`import_files`) runs a plugin's code, and HDF5, in processes of their own. A part is one file for a block of samples:
what a killed generation made is used by the next, and a part that can't be read any more is made again.
"""

from __future__ import annotations

import collections
import shutil
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import DataError, PdebenchError, UsageError
from ..base.files import remove_stale_temporaries, replacing
from ..base.references import call_target
from ..contract.registry import load_registry
from ..contract.task import TaskInfo, TaskSpec
from ..workers.events import Crashed, Done, Failed
from ..workers.jobs import Failure, Job
from ..workers.pool import WorkerPool
from . import hdf5
from .dataset import Dataset, Resized, find_source
from .hdf5 import CorruptData
from .reading import read_splits
from .sources import Source

SMALLEST_PART = 8  # samples: fewer are not worth starting a process for
PART_BYTES = 32 << 20
Progress = Callable[[int, int], None]


def generate(dataset: Dataset, jobs: int, plugin_files: Sequence[str], progress: Progress) -> None:
    """Make the missing parts side by side, then one file of them all."""
    folder = _parts_dir(dataset)
    folder.mkdir(exist_ok=True)
    remove_stale_temporaries(folder)
    parts = {part.name: part for part in _parts(dataset)}
    total = sum(map(len, parts.values()))
    reference = Reference.to(dataset, plugin_files)
    damaged: set[str] = set()
    with _workers(dataset, min(jobs, len(parts))) as pool:
        while True:
            todo = [part for part in parts.values() if not (folder / part.name).exists()]
            done = total - sum(map(len, todo))
            progress(done, total)
            work = [
                Job(p.name, "pdebench_hss.data.generation:make_part", {"reference": reference, "part": p}) for p in todo
            ]
            for event in _run_jobs(pool, dataset, work):
                done += len(parts[event.job.id])
                progress(done, total)
            # HDF5 may crash, and not only raise, when the disk is full: so the file, too, is written in a worker.
            job = Job("file", "pdebench_hss.data.generation:assemble", {"reference": reference})
            (event,) = _run_jobs(pool, dataset, [job])
            if event.value is None:
                break
            if event.value in damaged:
                raise DataError(f"{folder / event.value} was damaged twice on disk; set PDEBENCH_HSS_CACHE to another")
            damaged.add(event.value)  # removed by `assemble`, and made again
    shutil.rmtree(folder)


def import_public(dataset: Dataset, plugin_files: Sequence[str]) -> None:
    assert dataset.source is not None
    job = Job("import", "pdebench_hss.data.generation:import_files", {"reference": Reference.to(dataset, plugin_files)})
    with _workers(dataset, 1) as pool:
        collections.deque(_run_jobs(pool, dataset, [job], "reader"), 0)
    if find_source(dataset.spec, dataset.source.path) != dataset.source:
        dataset.path.unlink()
        raise DataError(f"files in {dataset.source.path} changed while they were read; run the same command again")


def _workers(dataset: Dataset, processes: int) -> WorkerPool:
    maker = dataset.spec.generate or dataset.spec.read
    module = maker.partition(":")[0] if isinstance(maker, str) else str(getattr(maker, "__module__", ""))
    # Imported before the forks, or every job would import scipy by itself.
    return WorkerPool(processes, preload=("pdebench_hss.data.generation", module))


def _run_jobs(pool: WorkerPool, dataset: Dataset, jobs: Sequence[Job], what: str = "generator") -> Iterator[Done]:
    """Run jobs in processes of their own; yields each finished job, raises for the first that fails."""
    for event in pool.run(jobs):
        if isinstance(event, Done):
            yield event
        elif isinstance(event, Failed):
            raise _error(dataset, event.failure, what)
        elif isinstance(event, Crashed):
            raise DataError(f"task {dataset.spec.name!r}: the process that made its data died ({event.reason})")


@dataclass(frozen=True)
class Reference:
    """A dataset by plain values that a worker can find it by."""

    task: str
    scale: str
    params: Mapping[str, Any]
    seed: int
    source: Source | None
    plugin_files: tuple[str, ...]
    id: str
    resized: Resized | None = None

    @classmethod
    def to(cls, dataset: Dataset, plugin_files: Sequence[str]) -> Reference:
        files, params = tuple(str(file) for file in plugin_files), dict(dataset.params)
        places = (dataset.seed, dataset.source, files, dataset.id, dataset.resized)
        return cls(dataset.spec.name, dataset.scale, params, *places)

    def find(self) -> Dataset:
        task = load_registry(self.plugin_files).task(self.task)
        dataset = Dataset(task, self.scale, self.params, self.seed, self.source).with_size(self.resized)
        if dataset.id != self.id:
            raise DataError(
                f"task {self.task!r}: its plugin changed while its data were made; run the same command again"
            )
        return dataset


def _parts_dir(dataset: Dataset) -> Path:
    return dataset.path.with_suffix(".parts")


def _error(dataset: Dataset, failure: Failure, what: str) -> PdebenchError:
    if failure.expected:  # what is wrong with files that somebody named is theirs to mend
        return UsageError(failure.message) if failure.kind == UsageError.__name__ else DataError(failure.message)
    return DataError(f"task {dataset.spec.name!r}: its {what} raised {failure.kind}: {failure.message}")


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
        sample_bytes = dataset.sample_bytes
        step = spec.chunk or max(1, min(PART_BYTES // sample_bytes, max(SMALLEST_PART, -(-count // 4))))
        step = -(-step // spec.cases) * spec.cases
        for start in range(0, count, step):
            yield Part(split, start, min(start + step, count))


def make_part(emit: Any, reference: Reference, part: Part) -> None:
    """In a worker: generate one block of samples, refuse what is not finite, write it whole."""
    dataset = reference.find()
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
    inputs, outputs = _as_stored(spec, part.split, part.start, inputs, outputs, "fix its generator")
    if spec.view is None:
        check_shapes(spec.info(dataset.scale, dataset.params), inputs, outputs)
    with replacing(_parts_dir(dataset) / part.name) as temporary, temporary.open("wb") as file:
        np.savez(file, inputs=inputs, outputs=outputs, seconds=np.float64(seconds))


def _as_stored(
    spec: TaskSpec, split: str, start: int, inputs: Any, outputs: Any, fix: str
) -> tuple[np.ndarray, np.ndarray]:
    """Both arrays in the stored dtype, all of it finite: 1e200 is, and as float32 it is not."""
    stored = []
    for name, array in (("inputs", inputs), ("outputs", outputs)):
        with np.errstate(over="ignore"):
            cast = np.asarray(array, spec.dtype)
        finite = np.isfinite(cast).reshape(len(cast), -1).all(axis=1)
        if not finite.all():
            index = start + int(np.argmin(finite))
            where = f"task {spec.name!r}: {split} sample {index} has non-finite {name}"
            raise DataError(f"{where} (stored as {spec.dtype}); {fix}")
        stored.append(cast)
    return stored[0], stored[1]


class _DamagedPart(Exception):
    """Its argument is the part's name."""


def _read_part(path: Path) -> tuple[np.ndarray, np.ndarray, float]:
    """Inputs, outputs and seconds; the archive's own checksums are compared on the way."""
    try:
        with np.load(path) as arrays:
            return arrays["inputs"], arrays["outputs"], float(arrays["seconds"])
    except (OSError, ValueError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error):
        raise _DamagedPart(path.name) from None


def assemble(emit: Any, reference: Reference) -> str | None:
    """In a worker: one file from all parts, a part at a time; or the name of a damaged part, which is removed."""
    dataset = reference.find()
    folder = _parts_dir(dataset)
    seconds = 0.0

    def stream(split: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        nonlocal seconds
        for part in _parts(dataset):
            if part.split == split:
                inputs, outputs, spent = _read_part(folder / part.name)
                seconds += spent
                yield inputs, outputs

    try:
        _write(dataset, stream, lambda: seconds / (dataset.size.train + dataset.size.test))
    except _DamagedPart as damage:
        (folder / str(damage)).unlink(missing_ok=True)
        return str(damage)
    return None


def import_files(emit: Any, reference: Reference) -> None:
    """In a worker: take the samples from files instead of the generator, a block at a time if they come in blocks."""
    dataset = reference.find()
    spec = dataset.spec
    assert dataset.source is not None
    splits = read_splits(spec, dataset.source.path, dataset.size, dataset.params)
    fix = f"look at the files in {dataset.source.path}"

    def stream(split: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        done = 0
        for inputs, outputs in splits[split]:
            yield _as_stored(spec, split, done, inputs, outputs, fix)
            done += len(inputs)

    _write(dataset, stream)


def _write(
    dataset: Dataset, parts: Callable[[str], Any], seconds_per_sample: Callable[[], float] | None = None
) -> None:
    try:
        hdf5.write(dataset.path, dataset.recipe, dataset.spec.dtype, parts, seconds_per_sample)
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
