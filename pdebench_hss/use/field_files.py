"""Users' fields: read like any of their arrays (`data.array_files`); written whole or not at all, as ``.npy``, ``.npz``
and ``.h5``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..base.errors import UsageError
from ..base.files import replacing
from ..contract.task_file import split_place
from ..data.array_files import demand_numbers, one_line, opened

HDF5 = (".h5", ".hdf5")
WRITTEN = (".npy", ".npz", *HDF5)


@dataclass(frozen=True)
class Place:
    """A file, and the name of an array in it."""

    path: Path
    name: str

    def __str__(self) -> str:
        return f"{self.path}:{self.name}" if self.name else str(self.path)


def read_fields(place: str, option: str = "--input") -> np.ndarray:
    """The array at ``FILE`` or ``FILE:NAME``; for a file with one array the name may be left out."""
    with opened(".", place, option) as array:
        demand_numbers(array, place, option)
        with one_line(Path(place), option):
            return np.array(array[()])


def check_output(text: str, force: bool, option: str = "--out") -> Place:
    """Check before anything is computed that the file can be written."""
    path, name = split_place(text, option)
    if not path.lower().endswith(WRITTEN):
        raise UsageError(f"{option} {text}: write a file that ends in {', '.join(WRITTEN)}, or file.h5:name")
    check_new_file(Path(path), force, option)
    return Place(Path(path), name)


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
