"""Write a pack (`packed_records`) and replace the previous one, if any.

The files are written under temporary names, so the existing pack stays valid until all of them are complete and have
been read back. `install` then replaces the list of records, which holds the hashes of the other files and so decides
which of them count. A kill at any moment leaves the old pack or the new one, whole; `finish_install` cleans up.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import StoreError
from ..base.files import BadFile, read_plain, replacing
from .array_files import write_arrays
from .packed_records import DTYPES, INDEX, LARGEST, PENDING, PICTURES, SAMPLES, VERSION, PackedRecords, seal
from .small_pictures import PlaneWriter, SmallPictures


class PackWriter:
    """Collects records, then writes them. The same records in the same order give the same bytes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lines: list[bytes] = []
        self._values = {dtype: _Values(dtype) for dtype in DTYPES}
        self._planes = PlaneWriter()

    def add(
        self,
        key: str,
        content: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray],
        pictures: SmallPictures | None,
        left_out: Collection[str] = (),
    ) -> None:
        """Add a record with the content of its file, and its arrays without pictures and those ``left_out``."""
        line = {
            "key": key,
            "record": content,
            "samples": {name: self._place(arrays[name]) for name in sorted(arrays)},
            **({"pictures": self._planes.add(pictures)} if pictures else {}),
            **({"left_out": sorted(left_out)} if left_out else {}),
        }
        self._lines.append(seal(_compact(line)))

    def _place(self, array: np.ndarray) -> list[Any]:
        dtype = array.dtype.newbyteorder("=").name
        return [dtype, list(array.shape), self._values[dtype].start_of(array)]

    def write(self) -> PackedRecords:
        """Write the pack under temporary names; returns it, to be compared before it is installed."""
        values = {dtype: found.planes() for dtype, found in self._values.items() if found.used}
        samples = self._write(SAMPLES, values)
        pictures = self._write(PICTURES, self._planes.arrays())
        head = {"pack": VERSION, "records": len(self._lines), "samples": samples, "pictures": pictures}
        text = b"".join([seal(_compact(head)), *self._lines])
        _check_size(INDEX, len(text))
        with replacing(self.folder / f"{INDEX}{PENDING}") as temporary:
            temporary.write_bytes(gzip.compress(text, mtime=0))
        return PackedRecords(self.folder, f"{INDEX}{PENDING}")

    def _write(self, name: str, arrays: Mapping[str, np.ndarray]) -> str:
        """The hash of the file; empty if there is nothing to write."""
        _check_size(name, sum(array.nbytes + 128 for array in arrays.values()))
        return write_arrays(self.folder / f"{name}{PENDING}", arrays) if arrays else ""


class _Values:
    """All values of one dtype; each distinct array is stored once."""

    def __init__(self, dtype: str) -> None:
        self.dtype = np.dtype(dtype).newbyteorder("<")
        self.used = False
        self._starts: dict[bytes, int] = {}
        self._parts: list[bytes] = []
        self._count = 0

    def start_of(self, array: np.ndarray) -> int:
        content = np.ascontiguousarray(array, self.dtype).tobytes()
        start = self._starts.setdefault(hashlib.sha256(content).digest(), self._count)
        if start == self._count:
            self._parts.append(content)
            self._count += array.size
        self.used = True
        return start

    def planes(self) -> np.ndarray:
        """(bytes of a value, values)."""
        whole = np.frombuffer(b"".join(self._parts), np.uint8)
        return np.ascontiguousarray(whole.reshape(self._count, self.dtype.itemsize).T)


def install(folder: Path) -> None:
    """Make the new pack the current one."""
    os.replace(folder / f"{INDEX}{PENDING}", folder / INDEX)
    finish_install(folder)
    _flush(folder)


def finish_install(folder: Path) -> None:
    """Do the last steps of a writer that was killed, or remove files that never became a pack."""
    (folder / f"{INDEX}{PENDING}").unlink(missing_ok=True)
    pack = PackedRecords(folder)
    if pack.damage:
        return  # which files it needs is not known
    for name, wanted in zip((SAMPLES, PICTURES), pack.hashes() or ("", ""), strict=True):
        pending = folder / f"{name}{PENDING}"
        if wanted and _sha256(pending) == wanted:
            os.replace(pending, folder / name)
        for path in (pending, *(() if wanted else (folder / name,))):
            path.unlink(missing_ok=True)


def _sha256(path: Path) -> str:
    try:
        return hashlib.sha256(read_plain(path, LARGEST)).hexdigest()
    except (FileNotFoundError, BadFile):
        return ""


def _flush(folder: Path) -> None:
    """Flush the new names to disk before old files are removed; not every system supports it."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _compact(value: Mapping[str, Any]) -> str:
    """A JSON object without its braces."""
    return json.dumps(value, separators=(",", ":"))[1:-1]


def _check_size(name: str, size: int) -> None:
    if size > LARGEST:
        raise StoreError(f"{name} would hold {size} bytes; at most {LARGEST} are read. Pack parts of the board apart.")
