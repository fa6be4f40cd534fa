"""The dataset cache: made once per recipe, in parallel over samples, checked whenever it is used.

A `Dataset` is an identity (`dataset`: name, generator and version, sizes, parameters, seed). `ensure` finds its file or
has it made (`generation`), under a lock, so that two processes that need it at once make it once.
"""

from __future__ import annotations

import contextlib
import shutil
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout

from ..base.errors import DataError
from ..base.files import human_bytes
from ..base.references import call_target
from ..contract.task import TaskSpec
from . import generation, hdf5
from .dataset import Dataset, Resized, Split, TaskData, cache_dir, data_dir, find_source, sample_seeds
from .generation import Progress, check_shapes
from .hdf5 import CorruptData
from .sources import needs_files

__all__ = ["Dataset", "Resized", "Split", "TaskData", "cache_dir", "data_dir", "find_source", "sample_seeds"]


class DataWarning(UserWarning):
    """Something about cached data that the user should know."""


def load(dataset: Dataset, n_train: int | None = None, path: Path | None = None) -> TaskData:
    """The samples of an existing dataset as this task sees them, the first ``n_train`` of train."""
    path = path or dataset.path
    task = dataset.spec.info(dataset.scale, dataset.params)
    header = verify(path)
    train, test = read_split(dataset, path, "train", n_train), read_split(dataset, path, "test")
    return TaskData(task, train, test, header.sha256, header.seconds_per_sample)


def verify(path: Path) -> hdf5.Header:
    with _naming(path):
        return hdf5.verify(path)


def peek(path: Path) -> hdf5.Header:
    """The header alone, without a look at the content: what is read later is compared with its checksums then."""
    with _naming(path):
        return hdf5.read_header(path)


def read_split(dataset: Dataset, path: Path, split: str, count: int | None = None) -> Split:
    """One split as the task sees it."""
    with _naming(path):
        arrays = hdf5.read_split(path, split, count)
    arrays = as_seen(dataset.spec, *arrays)
    check_shapes(dataset.spec.info(dataset.scale, dataset.params), *arrays)
    return Split(*arrays)


def as_seen(spec: TaskSpec, inputs: np.ndarray, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The stored arrays of a dataset as one of its tasks sees them."""
    if spec.view is not None:
        inputs, outputs = call_target(spec.view)(inputs, outputs)
    return with_history(inputs, outputs, spec.history) if spec.history > 1 else (inputs, outputs)


def with_history(inputs: np.ndarray, outputs: np.ndarray, frames: int) -> tuple[np.ndarray, np.ndarray]:
    """u(0) and the frames after it -> the first ``frames`` of them as channels, newest first, and the rest."""
    known = [inputs, *outputs[:, : frames - 1].swapaxes(0, 1)]  # each (n, channels, *grid)
    return np.concatenate(known[::-1], axis=1), outputs[:, frames - 1 :]


def read_inputs(dataset: Dataset, path: Path, split: str) -> np.ndarray:
    """The inputs of a split as they are stored: outputs are not read."""
    with _naming(path):
        inputs = hdf5.read_array(path, split, "inputs")
    check_shapes(dataset.spec.info(dataset.scale, dataset.params), inputs)
    return inputs


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name a damaged file and say how to recover."""
    try:
        yield
    except CorruptData as error:
        raise CorruptData(
            f"{path.name} in the data cache is not what was written ({error}); run the same command to make it again"
        ) from None


def obtain(dataset: Dataset, *, jobs: int = 1, plugin_files: Sequence[str] = ()) -> TaskData:
    """The samples, made now if they have to be: also if the file turns out to be damaged while it is read."""
    ensure(dataset, jobs=jobs, plugin_files=plugin_files)
    try:
        return load(dataset)
    except CorruptData:
        ensure(dataset, jobs=jobs, plugin_files=plugin_files)
        return load(dataset)


def existing(dataset: Dataset) -> hdf5.Header | None:
    """The dataset's verified file; None, with a warning if there was one that can't be trusted."""
    if not dataset.path.exists():
        return None
    try:
        return hdf5.verify(dataset.path)
    except CorruptData as error:
        message = f"{dataset.path.name} in the data cache is not what was written ({error}); making it again"
        warnings.warn(message, DataWarning, stacklevel=2)
        return None


def ensure(
    dataset: Dataset, *, jobs: int = 1, plugin_files: Sequence[str] = (), progress: Progress = lambda done, total: None
) -> hdf5.Header:
    """The dataset's file, made now if it has to be."""
    path = dataset.path
    _make_folder(path.parent)
    with FileLock(path.with_suffix(".lock")):
        header = existing(dataset)
        if header is None:
            _check_space(dataset)
            if dataset.source:
                generation.import_public(dataset, plugin_files)
            elif dataset.spec.generate is None:
                raise DataError(needs_files(dataset.spec.name))
            else:
                generation.generate(dataset, jobs, plugin_files, progress)
            header = hdf5.verify(path)
    return header


def _check_space(dataset: Dataset) -> None:
    """Parts and file exist side by side for a moment, so twice the size is needed."""
    needed = 2 * dataset.sample_bytes * (dataset.size.train + dataset.size.test)
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


def cached_files() -> list[Path]:
    return sorted(data_dir().glob("*.h5"))


def unfinished() -> list[Path]:
    """The folders of parts that generations under way, or killed ones, have in the cache."""
    return sorted(data_dir().glob("*.parts"))


def remove(path: Path) -> bool:
    """Remove a dataset's file and all that belongs to it; False if another process is making it right now."""
    lock = FileLock(path.with_suffix(".lock"), timeout=0)
    try:
        with lock:
            for relative in (path, path.with_name(path.name + ".ok")):
                relative.unlink(missing_ok=True)
            shutil.rmtree(path.with_suffix(".parts"), ignore_errors=True)
            path.with_suffix(".lock").unlink(missing_ok=True)
    except Timeout:
        return False
    return True
