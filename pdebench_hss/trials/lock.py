"""One writer per board."""

from __future__ import annotations

from pathlib import Path

from filelock import FileLock, Timeout

from ..base.errors import StoreError
from ..base.files import check_writable, missing_folders, remove_made


class BoardLock:
    """Held while a run writes to a directory or packs its records. Folders created for it are removed at the end unless
    `keep` was called: a refused run leaves nothing behind."""

    def __init__(self, path: Path) -> None:
        self.path, self._file = path, path / ".lock"
        self._is_kept = False

    def keep(self) -> None:
        """From now on the directory is in use."""
        self._is_kept = True

    def __enter__(self) -> BoardLock:
        self._made = missing_folders(self.path)
        check_writable(self.path)
        self._lock = FileLock(self._file, timeout=0)
        try:
            self._lock.acquire()
        except Timeout:
            raise StoreError(f"another run is writing to {self.path}; wait for it or choose another --out") from None
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        if not self._is_kept and self._made:
            remove_made(self._made, self._file)
