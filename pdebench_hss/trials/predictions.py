"""Predictions that trials keep on request, in a board's folder ``predictions/``.

    predictions/<key>.h5    HDF5 with one array, ``prediction`` (test samples, ...), as it was scored: physical units,
                            in the precision that errors were computed from; deflated, chunks with a Fletcher-32
        attributes          format, key, data (hash of the data that hold the answers), sha256 (of type, shape and
                            values), trial (JSON)

The scorer's process writes the file, block by block, from the array that it scored: no code of the model runs there. It
does so under a pending name before there is a record; the runner gives it its final name after it has written the
record, which holds the same hash. So a kill at any moment leaves both the new record and its predictions, or neither.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.files import BadFile, replacing
from .array_files import EXPANSION

if TYPE_CHECKING:
    import numpy as np

    from .record import Record
    from .trial import Trial

FORMAT = 1
KIND = "predictions"  # of artefacts of a record
SUFFIX, PENDING = ".h5", ".new.h5"
BLOCK_BYTES = 16 << 20
DEFLATE = 1  # a higher level hardly makes a network's floats smaller


class NoPredictions(BadFile):
    """There are no predictions; the message says why."""


class PredictionFiles:
    """The files of predictions in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def pending(self, key: str) -> Path:
        return self.folder / f"{key}{PENDING}"

    def path(self, record: Record) -> Path:
        """The path of a record's file, found by name and not checked against its hash; raises `NoPredictions`."""
        named = record.artefacts.get(KIND, {})
        if not named.get("sha256"):
            raise NoPredictions(named.get("reason") or "they were not kept (run --keep-predictions)")
        for suffix in (SUFFIX, PENDING):
            path = self.folder / f"{record.key}{suffix}"
            if path.is_file() and not path.is_symlink():
                return path
        raise NoPredictions(f"predictions/{record.key}{SUFFIX} is not there any more")

    def settle(self, record: Record) -> None:
        """To be called after the record is written: give the file its final name, or remove an earlier record's."""
        final, pending = self.folder / f"{record.key}{SUFFIX}", self.pending(record.key)
        named = record.artefacts.get(KIND, {}).get("sha256")
        if named and pending.exists() and stated_hash(pending) == named:
            os.replace(pending, final)
        pending.unlink(missing_ok=True)
        if not named:
            final.unlink(missing_ok=True)

    def copy(self, record: Record, source: PredictionFiles) -> bool:
        """Copy the predictions that a record names from another folder; False if they are not there."""
        try:
            path = source.path(record)
        except NoPredictions:
            return False
        if stated_hash(path) != record.artefacts[KIND]["sha256"]:
            return False
        with replacing(self.folder / f"{record.key}{SUFFIX}") as temporary:
            shutil.copyfile(path, temporary)
        return True

    def drop(self, key: str) -> None:
        """Remove what an attempt left that does not count."""
        self.pending(key).unlink(missing_ok=True)

    def finish_writes(self, record_of: Callable[[str], Record | None]) -> None:
        """Do the last step of writers that were killed before it. The caller must hold the lock."""
        for pending in self.folder.glob(f"*{PENDING}"):
            key = pending.name.removesuffix(PENDING)
            if (record := record_of(key)) is not None:
                self.settle(record)
            pending.unlink(missing_ok=True)


def write(path: Path, trial: Trial, prediction: np.ndarray, data_sha256: str) -> dict[str, Any]:
    """Write a file of predictions, whole or not at all; returns what a record says of it."""
    import h5py

    from ..data.hdf5 import chunk_shape

    with replacing(path) as temporary:
        with h5py.File(temporary, "w") as file:
            array = file.create_dataset(
                "prediction",
                shape=prediction.shape,
                dtype=prediction.dtype,
                chunks=chunk_shape(prediction.shape, prediction.dtype.itemsize),
                compression="gzip",
                compression_opts=DEFLATE,
                shuffle=True,
                fletcher32=True,
            )
            state = _hasher(prediction)
            for start, block in _blocks(prediction):
                array[start : start + len(block)] = block
                state.update(block.data)
            told = {"key": trial.key, "data": data_sha256, "trial": json.dumps(trial.to_dict(), sort_keys=True)}
            file.attrs.update({"format": FORMAT, "sha256": state.hexdigest(), **told})
        size = temporary.stat().st_size
    return {"sha256": state.hexdigest(), "bytes": size}


def read(path: Path, record: Record, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """The predictions of a record, in the shape given by its task if that is known; raises `BadFile` if they are not
    what it names."""
    import h5py
    import numpy as np

    try:
        with h5py.File(path, "r", rdcc_nbytes=0) as file:
            array = file["prediction"]
            if array.dtype.kind != "f" or (shape is not None and array.shape != shape):
                raise BadFile(f"{path.name} holds {array.dtype} of shape {array.shape}, not {shape or 'floats'}")
            if array.nbytes > EXPANSION * path.stat().st_size:
                raise BadFile(f"{path.name} claims {array.nbytes} bytes, more than its file can hold")
            values = np.empty(array.shape, array.dtype)
            array.read_direct(values)
    except BadFile:
        raise
    except (OSError, KeyError, ValueError, RuntimeError, TypeError, AttributeError) as error:
        raise BadFile(f"{path.name} can't be read ({str(error).splitlines()[0][:200]})") from None
    state = _hasher(values)
    for _, block in _blocks(values):
        state.update(block.data)
    if state.hexdigest() != record.artefacts[KIND]["sha256"]:
        raise BadFile(f"{path.name} is not what was scored (sha256 differs)")
    return values


def claimed_bytes(path: Path) -> int:
    """What reading a file would allocate, by what it says of itself; nothing is unpacked. Raises `BadFile`."""
    import h5py
    import numpy as np

    try:
        with h5py.File(path, "r") as file:
            array = file["prediction"]
            return max(int(array.nbytes), array.dtype.itemsize * int(np.prod(array.chunks or (0,), dtype=object)))
    except (OSError, KeyError, ValueError, RuntimeError, TypeError, AttributeError) as error:
        raise BadFile(f"it can't be read ({str(error).splitlines()[0][:200]})") from None


def stated_hash(path: Path) -> str:
    """The attributes of a file; empty if it can't be read."""
    import h5py

    try:
        with h5py.File(path, "r") as file:
            return str(file.attrs.get("sha256", ""))
    except OSError:
        return ""


def _hasher(values: np.ndarray) -> Any:
    return hashlib.sha256(f"{values.dtype.str} {values.shape}".encode())


def _blocks(values: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Some samples at a time, in C order: data from the model's process stay in their file until they are read."""
    import numpy as np

    step = max(1, BLOCK_BYTES * len(values) // max(1, values.nbytes))
    for start in range(0, len(values), step):
        yield start, np.ascontiguousarray(values[start : start + step])
