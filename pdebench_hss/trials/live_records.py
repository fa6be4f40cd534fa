"""Records as a run writes them: two files per trial, each written atomically.

<key>.json    the record
<key>.npz     its arrays: per-sample test errors, the learning curve, three pictures
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.files import BadFile, file_state, read_plain, set_aside, write_files
from . import validation
from .array_files import LARGEST, read_arrays
from .array_writer import npz
from .validation import KEY, Invalid

if TYPE_CHECKING:
    import numpy as np

    from .record import Record

SUFFIXES = (".json", ".npz")
PENDING = ".new.npz"  # arrays whose record may not be written yet


class LiveRecords:
    """The files of records in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def keys(self) -> set[str]:
        """The names of all files that claim to be records."""
        try:
            return {name[: -len(".json")] for name in os.listdir(self.folder) if name.endswith(".json")}
        except (FileNotFoundError, NotADirectoryError):
            return set()

    def has(self, key: str) -> bool:
        return os.path.lexists(self.folder / f"{key}.json")

    def has_arrays(self, key: str) -> bool:
        return any(os.path.lexists(self.folder / f"{key}{suffix}") for suffix in (".npz", PENDING))

    def left_out(self, key: str) -> Collection[str]:
        """Live records have all their arrays."""
        return ()

    def state(self, key: str) -> Any:
        """A value that changes when the record does."""
        return [file_state(f"{self.folder}{os.sep}{key}{suffix}") for suffix in SUFFIXES]

    def content(self, key: str) -> dict[str, Any]:
        """The JSON object of a record, not validated yet."""
        return validation.parse_json(read_plain(f"{self.folder}{os.sep}{key}.json", validation.LARGEST_RECORD))

    def arrays(self, key: str, sha256: str | None, names: Collection[str]) -> dict[str, np.ndarray]:
        """The named arrays of a record, all if none is named. For records of schema 1 the ``sha256`` of their file is
        not known (None)."""
        found = False
        for name in (f"{key}.npz", f"{key}{PENDING}"):
            try:
                content = read_plain(f"{self.folder}{os.sep}{name}", LARGEST)
            except FileNotFoundError:
                continue
            if sha256 is None or hashlib.sha256(content).hexdigest() == sha256:
                return read_arrays(content, names)
            found = True
        raise Invalid(f"its arrays are {'not those that were written (sha256 differs)' if found else 'missing'}")

    # --- writing -----------------------------------------------------------------------------------------------------

    def write(self, record: Record) -> None:
        """Three steps, so that a kill between any two leaves the old record or the new one, whole: the arrays get a
        temporary name; the JSON file takes its place, which holds their hash and so decides which arrays count; the
        arrays get their name. Both are on the disk before the first step."""
        text, arrays = self.folder / f"{record.key}.json", self.folder / f"{record.key}.npz"
        if not record.samples:
            write_files({text: record.to_json().encode()})
            arrays.unlink(missing_ok=True)  # those of an earlier record under this key
            return
        pending, content = self.folder / f"{record.key}{PENDING}", npz(record.samples)
        write_files({pending: content, text: record.to_json(hashlib.sha256(content).hexdigest()).encode()})
        os.replace(pending, arrays)

    def finish_writes(self) -> None:
        """Do the last step of a writer that was killed, or remove arrays whose record was never written."""
        for pending in self.folder.glob(f"*{PENDING}"):
            key = pending.name.removesuffix(PENDING)
            try:
                counts = hashlib.sha256(read_plain(pending, LARGEST)).hexdigest() == self.content(key).get("arrays")
            except (FileNotFoundError, BadFile):
                counts = False
            if counts:
                os.replace(pending, self.folder / f"{key}.npz")
            else:
                pending.unlink(missing_ok=True)

    def remove(self, key: str) -> None:
        """Remove the JSON file first: a kill then leaves arrays without a record, which are never read."""
        for suffix in SUFFIXES:
            (self.folder / f"{key}{suffix}").unlink(missing_ok=True)

    def remove_arrays_without_record(self) -> None:
        for path in self.folder.glob("*.npz"):
            if KEY.fullmatch(path.stem) and not self.has(path.stem):
                path.unlink()

    def set_aside(self, key: str, folder: Path) -> list[Path]:
        """Move the files of an invalid record into a folder; returns where they are now."""
        moved = [set_aside(self.folder / f"{key}{suffix}", folder) for suffix in SUFFIXES]
        return [path for path in moved if path]
