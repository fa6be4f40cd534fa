"""Files that data are read from, known by their content: the same files are the same source on every machine.

A source is a directory. Its identity is a hash over the relative path, size and SHA-256 of every regular file below it,
whatever its suffix (a ``.zarr`` store is a directory of files without one), or of those that its task reads. Hashing
150 GB takes minutes, so each file's hash is remembered in the data cache by size, modification time and inode, and only
what changed is read again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.errors import DataError, UsageError
from ..base.files import write_text
from ..base.hashing import digest
from ..contract.task import TaskSpec

# What file managers, version control and downloaders leave behind. It differs between copies of the same files.
LITTER = {".DS_Store", "Thumbs.db", "desktop.ini", ".git", ".cache", "__pycache__"}
BLOCK_BYTES = 4 << 20
SAVE_SECONDS = 30.0  # how often the hashes found so far are saved; a stopped run resumes from there
HashProgress = Callable[[Path, int, int], None]  # source, bytes done, bytes in all


@dataclass(frozen=True)
class Source:
    path: Path
    id: str


def identify(
    spec: TaskSpec, place: str | Path, notes: Path, progress: HashProgress = lambda path, done, total: None
) -> Source:
    """A task's source in a directory; hashes are remembered in the folder ``notes``."""
    if not place:
        raise UsageError(needs_files(spec.name))
    path, where = Path(place), f"task {spec.name!r}: {place}" if str(place) == spec.files else f"--data-dir {place}"
    if not path.is_dir():
        raise UsageError(f"{where}: no such directory")
    if spec.read is None:
        raise UsageError(f"--data-dir: task {spec.name!r} has no reader for public files; leave it out")
    try:
        files = {file: file.stat() for file in _chosen(path, spec.reads, where)}
        return Source(path, digest(_contents(path, files, notes, progress)))
    except OSError as error:
        raise DataError(f"{where}: can't read {error.filename or path}: {error.strerror or error}") from None


def remember(path: Path, hashes: dict[str, str], notes: Path) -> None:
    """Note the hashes of files that were computed elsewhere, while they were copied say."""
    found = {}
    for name, sha256 in hashes.items():
        status = (path / name).stat()
        found[name] = ([status.st_size, status.st_mtime_ns, status.st_ino], sha256)
    note = _note(path, notes)
    _save(note, {**_recall(note), **found})


def needs_files(task: str) -> str:
    return f"task {task!r} reads files and can't generate them; name their directory: --data-dir DIR"


def _chosen(path: Path, reads: Iterable[str], where: str) -> Iterator[Path]:
    """The files that are named, or all; each once, in a fixed order."""
    found: dict[Path, None] = {}
    for pattern in reads:
        matches = sorted(path.glob(pattern))
        if not matches:
            there = ", ".join(sorted(entry.name for entry in path.iterdir())[:8]) or "nothing"
            raise UsageError(f"{where}: no file {pattern!r} in it; found {there}")
        for match in matches:
            found.update(dict.fromkeys(_files(match, ()) if match.is_dir() else [match]))
    if not reads:
        found.update(dict.fromkeys(_files(path, ())))
    if not found:
        raise UsageError(f"{where}: no readable files in it; name the directory that holds the public files")
    return iter(found)


def _contents(
    path: Path, files: dict[Path, os.stat_result], notes: Path, progress: HashProgress
) -> list[tuple[str, int, str]]:
    """Relative path, size and hash of every file, in the order of their paths."""
    note = _note(path, notes)
    known, found = _recall(note), {}
    total, done, saved = sum(status.st_size for status in files.values()), 0, time.monotonic()
    for file, status in files.items():
        name, stamp = file.relative_to(path).as_posix(), [status.st_size, status.st_mtime_ns, status.st_ino]
        stamped, sha256 = known.get(name, (None, ""))
        if stamped != stamp:
            sha256 = _hash(file, status, lambda part: progress(path, done + part, total))  # noqa: B023 (called at once)
        found[name] = (stamp, sha256)
        done += status.st_size
        if time.monotonic() - saved > SAVE_SECONDS:
            saved = time.monotonic()
            _save(note, {**known, **found})
    if any(known.get(name) != entry for name, entry in found.items()):
        _save(note, {**known, **found})  # tasks that read other files of this directory have theirs in it
    return sorted((name, stamp[0], sha256) for name, (stamp, sha256) in found.items())


def _files(folder: Path, above: tuple[Path, ...]) -> Iterator[Path]:
    """Every regular file below a folder that may be read. Links are followed, as readers do, but never in circles."""
    real = folder.resolve()
    if real in above:
        return
    for entry in sorted(folder.iterdir()):
        if entry.name in LITTER:
            continue
        if entry.is_dir():
            yield from _files(entry, (*above, real))
        elif entry.is_file() and os.access(entry, os.R_OK):
            yield entry


def _hash(file: Path, before: os.stat_result, progress: Callable[[int], None]) -> str:
    state, done = hashlib.sha256(), 0
    with file.open("rb", buffering=0) as stream:
        while block := stream.read(BLOCK_BYTES):
            state.update(block)
            done += len(block)
            progress(done)
        after = os.fstat(stream.fileno())
    if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        raise DataError(f"{file} changed while it was read; wait until it is complete and run the same command again")
    return state.hexdigest()


def _note(path: Path, notes: Path) -> Path:
    return notes / f"{digest(str(path.resolve()))[:20]}.json"


def _recall(note: Path) -> dict[str, tuple[Any, str]]:
    try:
        return {name: (stamp, str(sha256)) for name, (stamp, sha256) in json.loads(note.read_text()).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _save(note: Path, hashes: dict[str, tuple[Any, str]]) -> None:
    with contextlib.suppress(OSError):  # a saving of time, not a result: without it files are hashed again
        write_text(note, json.dumps(hashes))
