"""Users' arrays in the cache: copied with their hashes, described by a task file, and from then on a task.

    cache/arrays/NAME/task.yaml     what ``data add`` was told, what was found, the SHA-256 of every file
    cache/arrays/NAME/x.npy ...     the copies

A folder is made under another name and renamed when all of it was copied and inspected, so that a stopped ``data add``
leaves nothing that looks complete. A file that changes while it is copied is noticed by its size, time and inode.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock

from ..base.errors import DataError, UsageError
from ..base.files import check_writable, folder_size, human_bytes, write_text
from ..base.places import TASK_FILES, arrays_dir
from ..contract.task import TaskSpec
from ..contract.task_file import TaskFile, files_of, read_task_file, spec_of, split_place
from . import sources
from .arrays import find
from .dataset import cache_dir, find_source
from .inspection import Findings, inspect

BLOCK_BYTES = 4 << 20
UNFINISHED = ".adding-"
Progress = Callable[[int, int], None]  # how much is done, of how much: bytes copied, then samples inspected


def add(
    task: TaskFile, duplicates: bool = False, progress: Progress = lambda done, total: None
) -> tuple[TaskSpec, Findings]:
    """Copy, inspect and register the arrays of a task file."""
    spec_of(task)  # what their headers tell is said before a byte is copied
    base, places = files_of(task)
    files = list(_files(Path(base), {split_place(place, role)[0] for role, place in places.items()}))
    _check_space(files)
    folder = arrays_dir() / task.name
    check_writable(folder.parent, "It is in the data cache: set PDEBENCH_HSS_CACHE to another place.")
    with FileLock(folder.with_name(f"{UNFINISHED}{task.name}.lock")):
        if folder.exists():
            raise UsageError(f"{task.name!r} was added before; to replace it:  pdebench-hss data remove {task.name}")
        making = folder.with_name(f"{UNFINISHED}{task.name}")
        shutil.rmtree(making, ignore_errors=True)
        try:
            hashes = _copy_all(Path(base), making, files, progress)
            copied = dataclasses.replace(task, folder=str(making), inputs=places["inputs"], **_others(places))
            found = find(copied)
            complete = dataclasses.replace(copied, found={**found, "sha256": hashes})
            spec = spec_of(complete)
            source = _remember(spec, hashes)
            findings = inspect(spec, source, duplicates, progress)
            write_text(making / "task.yaml", yaml.safe_dump(complete.plain(), sort_keys=False, allow_unicode=True))
            os.rename(making, folder)
        finally:
            shutil.rmtree(making, ignore_errors=True)
    spec = spec_of(read_task_file(folder / "task.yaml"))
    _remember(spec, hashes)
    return spec, findings


def _others(places: dict[str, str]) -> dict[str, Any]:
    return {role: place for role, place in places.items() if role != "inputs"}


def _files(base: Path, names: set[str]) -> Iterator[Path]:
    """Every file, those of a ``.zarr`` folder one by one."""
    for name in sorted(names):
        path = base / name
        yield from sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


def _copy_all(base: Path, folder: Path, files: list[Path], progress: Progress) -> dict[str, str]:
    """The hash of every file by its relative path. They are looked at again when the last one was copied."""
    total, done = sum(file.stat().st_size for file in files), 0
    before = {file: _state(file) for file in files}
    hashes = {}
    for file in files:
        name = file.relative_to(base).as_posix()
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            hashes[name] = _copy(file, target, lambda part: progress(done + part, total))  # noqa: B023
        except OSError as error:
            raise DataError(f"can't copy {file} to {target.parent}: {error.strerror or error}") from None
        done += before[file][1]
    for file in files:
        if _state(file) != before[file]:
            raise UsageError(f"{file} changed while it was read; wait until it is complete and run the same command")
    return hashes


def _copy(file: Path, target: Path, progress: Callable[[int], None]) -> str:
    """Each block is read once, hashed and written."""
    state, done = hashlib.sha256(), 0
    buffer = memoryview(bytearray(BLOCK_BYTES))
    with file.open("rb", buffering=0) as stream, target.open("wb", buffering=0) as copy:
        while count := stream.readinto(buffer):
            block = buffer[:count]
            state.update(block)
            while block:  # a raw write may take less
                block = block[copy.write(block) or 0 :]
            done += count
            progress(done)
    return state.hexdigest()


def _state(file: Path) -> tuple[int, int, int]:
    try:
        status = file.stat()
    except OSError:
        return (0, -1, 0)
    return status.st_ino, status.st_size, status.st_mtime_ns


def _check_space(files: list[Path]) -> None:
    needed = sum(file.stat().st_size for file in files)
    place = arrays_dir()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if free < needed:
        raise DataError(
            f"{human_bytes(needed)} of arrays don't fit in {arrays_dir()}: {human_bytes(free)} are free. "
            "Set PDEBENCH_HSS_CACHE to a larger disk"
        )


def _remember(spec: TaskSpec, hashes: dict[str, str]) -> sources.Source:
    """The source of a task whose files were hashed while they were copied."""
    sources.remember(Path(spec.files), hashes, cache_dir() / "sources")
    found = find_source(spec)
    assert found is not None
    return found


# --- what is there ---------------------------------------------------------------------------------------------------


def added() -> list[str]:
    """The names of the arrays in the cache."""
    return sorted(path.parent.name for path in arrays_dir().glob(TASK_FILES))


def size_of(name: str) -> int:
    return folder_size(arrays_dir() / name)


def damaged(name: str) -> list[str]:
    """The files of added arrays that are not what was copied, each with the reason."""
    folder = arrays_dir() / name
    bad = []
    for file, sha256 in read_task_file(folder / "task.yaml").found.get("sha256", {}).items():
        try:
            with (folder / file).open("rb") as stream:
                found = _sha256(stream)
        except OSError as error:
            bad.append(f"{file}: {error.strerror}")
            continue
        if found != sha256:
            bad.append(f"{file}: content hash {found[:12]}, copied with {sha256[:12]}")
    return bad


def _sha256(stream: Any) -> str:
    state = hashlib.sha256()
    while block := stream.read(BLOCK_BYTES):
        state.update(block)
    return state.hexdigest()


def remove(name: str) -> None:
    """Remove added arrays: the folder loses its name first, so that a stopped removal leaves no half of it."""
    folder = arrays_dir() / name
    doomed = folder.with_name(f"{UNFINISHED}{name}")
    with FileLock(folder.with_name(f"{UNFINISHED}{name}.lock")) as lock:
        shutil.rmtree(doomed, ignore_errors=True)
        os.rename(folder, doomed)
        shutil.rmtree(doomed)
        Path(lock.lock_file).unlink(missing_ok=True)
