"""Directories in the temporary folder that never outlive their run for long.

A driver that is killed can't clean up. So every directory holds a file that its owner keeps locked while it lives: the
kernel drops the lock with the process, and whoever makes the next directory removes those that nobody holds. A lock
tells more than a process id, which another process may have got since, or which belongs to another container.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: nothing is locked there, and nothing of others removed
    fcntl = None  # type: ignore[assignment]

PREFIX = "pdebench-hss-"
OWNER = ".owner"


class Scratch:
    """A new directory; ``with`` or `cleanup` removes it."""

    def __init__(self, kind: str = "") -> None:
        remove_abandoned()
        self.name = tempfile.mkdtemp(prefix=f"{PREFIX}{kind}-" if kind else PREFIX)
        self._lock = -1
        if fcntl is not None:
            # Locked before it gets its name: a file of that name without a lock has no living owner.
            unnamed = os.path.join(self.name, f"{OWNER}.new")
            self._lock = os.open(unnamed, os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.rename(unnamed, os.path.join(self.name, OWNER))

    def __enter__(self) -> str:
        return self.name

    def __exit__(self, *_: object) -> None:
        self.cleanup()

    def cleanup(self) -> None:
        shutil.rmtree(self.name, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def remove_abandoned() -> None:
    """Remove directories of this user whose owner is gone; one without the file may be in the making and is left."""
    if fcntl is None:
        return
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # held by its owner, of another user, or already gone
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            lock = os.open(folder / OWNER, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
