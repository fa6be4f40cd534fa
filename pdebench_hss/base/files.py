"""Files that are either whole or absent: write beside, flush to disk, rename. Also safe reading of untrusted files."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from .errors import StoreError

LINK, NOT_REGULAR = "it is a symbolic link", "it is not a regular file"


class BadFile(ValueError):
    """A file that is not what it should be; the message says why and is printed after the file's name."""


def files_below(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """All that is in a folder and in its folders, but for the folders themselves. No link is followed."""
    with os.scandir(folder) as entries:
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                yield from files_below(Path(entry.path))
            else:
                yield Path(entry.path), status


def not_plain(status: os.stat_result) -> str:
    """Why something is no plain file: a link, or a pipe or device, say; empty if it is one."""
    if stat.S_ISLNK(status.st_mode):
        return LINK
    return "" if stat.S_ISREG(status.st_mode) else NOT_REGULAR


def read_plain(path: str | Path, limit: int) -> bytes:
    """The content of a regular file of at most ``limit`` bytes.

    Links, pipes and devices are refused: a directory from elsewhere must not make us read what lies outside of it, or
    wait for ever.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(path, flags)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise BadFile(LINK if error.errno == errno.ELOOP else str(error.strerror)) from None
    try:
        status = os.fstat(handle)
        if wrong := not_plain(status):
            raise BadFile(wrong)
        if status.st_size > limit:
            raise BadFile(f"it has {status.st_size} bytes; at most {limit} are read")
        return _read_all(handle, status.st_size)
    except OSError as error:
        raise BadFile(str(error.strerror)) from None
    finally:
        os.close(handle)


def _read_all(handle: int, size: int) -> bytes:
    """As many bytes as the file had, or fewer. No more are allocated: a board has ten thousand small files."""
    content = os.read(handle, size)
    while len(content) < size and (more := os.read(handle, size - len(content))):
        content += more
    return content


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path in the same folder that takes ``path``'s place when the block ends well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    write_files({path: text.encode()})


def write_files(contents: Mapping[Path, bytes | memoryview]) -> None:
    """Write files, each whole or not at all. They reach the disk together, which takes hardly longer than for one, and
    then take their places in this order."""
    handles: list[int] = []
    waiting: dict[Path, Path] = {}  # by temporary name
    try:
        for path, content in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
            handles.append(handle)
            waiting[Path(temporary)] = path
            _write_all(handle, content)
            os.chmod(temporary, 0o666 & ~_umask())
        _flush(handles)
        for beside, path in list(waiting.items()):
            os.replace(beside, path)
            del waiting[beside]
    finally:
        for handle in handles:
            os.close(handle)
        for beside in waiting:
            beside.unlink(missing_ok=True)


def _write_all(handle: int, content: bytes | memoryview) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(handle, rest) :]


def _flush(handles: Sequence[int]) -> None:
    """To the disk, at the same time: the file system then writes its journal once."""
    failed: list[OSError] = []

    def flush(handle: int) -> None:
        try:
            os.fsync(handle)
        except OSError as error:
            failed.append(error)

    others = [threading.Thread(target=flush, args=(handle,)) for handle in handles[1:]]
    for other in others:
        other.start()
    try:
        for handle in handles[:1]:
            flush(handle)
    finally:  # an interrupt: nobody may use a handle after it is closed
        for other in others:
            other.join()
    if failed:
        raise failed[0]


def check_writable(folder: Path, advice: str = "Choose another --out.") -> None:
    """Make the folder and prove that a file can be written there, before anything is trained."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"x" * 4096)
            probe.flush()
    except OSError as error:
        raise StoreError(f"can't write to {folder}: {error.strerror or error}. {advice}") from None


def missing_folders(folder: Path) -> list[Path]:
    """The folders that would have to be created for this one, innermost first."""
    return [place for place in (folder, *folder.parents) if not place.exists()]


def remove_made(folders: list[Path], *leftovers: Path) -> None:
    """Remove the folders again, unless something else was put there."""
    for path in leftovers:
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        for folder in folders:
            folder.rmdir()


def remove_stale_temporaries(folder: Path) -> None:
    """Remove temporary files that killed writers left behind."""
    for leftover in folder.glob(".*.tmp"):
        leftover.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def folder_size(folder: Path) -> int:
    return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) if folder.exists() else 0


def human_bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def file_state(path: str | Path) -> tuple[int, ...] | None:
    """What changes when a file is replaced or written to."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_mode


def set_aside(path: Path, folder: Path) -> Path | None:
    """Move a file, or a link, into a folder, under a name that is free there; None if there is nothing to move."""
    if not os.path.lexists(path):
        return None
    folder.mkdir(parents=True, exist_ok=True)
    number, target = 1, folder / path.name
    while os.path.lexists(target):
        number += 1
        target = folder / f"{path.stem}.{number}{path.suffix}"
    os.rename(path, target)
    return target
