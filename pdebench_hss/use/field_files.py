"""Users' arrays: ``.npy``, ``.npz`` and ``.h5``; ``file.h5:name`` names an array within a file.

Any fault of a file is reported in one line that names it. Nothing is unpickled; files are written whole or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..base.errors import UsageError
from ..base.files import replacing

HDF5 = (".h5", ".hdf5")
SUFFIXES = (".npy", ".npz", *HDF5)


@dataclass(frozen=True)
class Place:
    """A file, and the name of an array in it."""

    path: Path
    name: str

    def __str__(self) -> str:
        return f"{self.path}:{self.name}" if self.name else str(self.path)


def parse_place(text: str, option: str) -> Place:
    """``x.npy``, ``x.npz:u``, ``x.h5:group/u``."""
    path, _, name = text.rpartition(":") if _has_suffix(text.rpartition(":")[0]) else (text, "", "")
    if not _has_suffix(path):
        raise UsageError(f"{option} {text}: write a file ending in {', '.join(SUFFIXES)}, or file.h5:name")
    if name and path.lower().endswith(".npy"):
        raise UsageError(f"{option} {text}: a .npy file holds one array and no names")
    return Place(Path(path), name)


def _has_suffix(path: str) -> bool:
    return path.lower().endswith(SUFFIXES)


def read_fields(text: str, option: str = "--input") -> np.ndarray:
    """The array at a place; for a file with one array the name may be left out."""
    place = parse_place(text, option)
    if not place.path.is_file():
        what = "it is a directory" if place.path.is_dir() else "no such file"
        raise UsageError(f"{option} {place.path}: {what}")
    read = _read_hdf5 if place.path.suffix.lower() in HDF5 else _read_numpy
    try:
        found = read(place, option)
    except UsageError:
        raise
    except Exception as error:  # numpy, zipfile and h5py each have their own
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise UsageError(f"{option} {place.path} can't be read: {reason}") from None
    if found.dtype.kind not in "fiub":
        raise UsageError(f"{option} {place}: an array of {found.dtype}; real numbers are needed")
    return found


def _read_numpy(place: Place, option: str) -> np.ndarray:
    loaded = np.load(place.path, allow_pickle=False)
    if isinstance(loaded, np.ndarray):
        return loaded
    with loaded:
        return loaded[_named(place, loaded.files, option)]


def _read_hdf5(place: Place, option: str) -> np.ndarray:
    import h5py

    with h5py.File(place.path, "r") as file:
        names: list[str] = []
        file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        return np.asarray(file[_named(place, names, option)][()])


def _named(place: Place, names: Sequence[str], option: str) -> str:
    wanted = place.name.strip("/")
    if wanted in names:
        return wanted
    there = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    if wanted:
        raise UsageError(f"{option} {place}: no such array; {place.path} holds {there or 'none'}")
    if len(names) != 1:
        raise UsageError(f"{option} {place.path} holds {there or 'no array'}; write {place.path}:NAME")
    return names[0]


def check_output(text: str, force: bool, option: str = "--out") -> Place:
    """Check before anything is computed that the file can be written."""
    place = parse_place(text, option)
    check_new_file(place.path, force, option)
    return place


def check_new_file(path: Path, force: bool, option: str = "--out") -> None:
    if path.is_dir():
        raise UsageError(f"{option} {path}: it is a directory; name a file")
    if not path.parent.is_dir():
        raise UsageError(f"{option} {path}: no directory {path.parent}")
    if path.exists() and not force:
        raise UsageError(f"{option} {path} exists; add --force to write over it")


def write_fields(place: Place, values: np.ndarray) -> None:
    name = place.name or "outputs"
    suffix = place.path.suffix.lower()
    try:
        with replacing(place.path) as temporary:
            if suffix in HDF5:
                import h5py

                with h5py.File(temporary, "w") as file:
                    file.create_dataset(name, data=values)
                return
            with temporary.open("wb") as out:
                if suffix == ".npz":
                    np.savez(out, **{name: values})  # type: ignore[arg-type]
                else:
                    np.save(out, values)
    except OSError as error:
        raise UsageError(f"--out {place.path} can't be written: {error.strerror or error}") from None
