"""Reader for The Well's Gray-Scott files, the data the paper uses.

    data/{train,valid,test}/gray_scott_reaction_diffusion_{pattern}_F_{f}_k_{k}.hdf5
        scalars/{F,k}      t0_fields/{A,B}: float32 (trajectories, snapshots, n, n), a snapshot every 10 time units

Only the first and the last snapshot are read: 0.3 of 150 GB.
"""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np

from pdebench_hss import Scale

from .samples import PATTERNS

DATASET = "gray_scott_reaction_diffusion"
SNAPSHOT_EVERY = 10
SPECIES = ("A", "B")

Pair = tuple[np.ndarray, np.ndarray]


def read(directory: str | Path, size: Scale) -> dict[str, Pair]:
    """Train and test of The Well's own split; ``directory`` is the dataset's folder or one above it."""
    data = _data_folder(Path(directory))
    return {
        split: _read_split(data / split, count, size) for split, count in (("train", size.train), ("test", size.test))
    }


def _data_folder(directory: Path) -> Path:
    places = [directory, directory / "data", directory / DATASET / "data", directory / "datasets" / DATASET / "data"]
    for place in places:
        if (place / "train").is_dir():
            return place
    looked = ", ".join(str(place / "train") for place in places)
    raise ValueError(f"{directory}: no folder of {DATASET} found; looked for {looked}")


def _read_split(folder: Path, count: int, size: Scale) -> Pair:
    """``count`` samples: the first starts of each file, the six patterns of one start side by side."""
    starts = count // len(PATTERNS)
    n = size.grid[0]
    inputs = np.empty((starts, len(PATTERNS), 4, n, n), np.float32)
    outputs = np.empty((starts, len(PATTERNS), 2, n, n), np.float32)
    for case, (pattern, pair) in enumerate(PATTERNS.items()):
        path = folder / "{}_{}_F_{:g}_k_{:g}.hdf5".format(DATASET, pattern, *pair)
        first, last = _read_file(path, pair, starts, size)
        inputs[:, case, :2], outputs[:, case] = first, last
        inputs[:, case, 2:] = np.array(pair)[:, None, None]
    return inputs.reshape(count, 4, n, n), outputs.reshape(count, 2, n, n)


def _read_file(path: Path, pair: tuple[float, float], starts: int, size: Scale) -> Pair:
    """(A, B) at time 0 and at the end, each (starts, 2, n, n)."""
    if not path.is_file():
        raise ValueError(f"{path}: expected this file, found none")
    try:
        with h5py.File(path, "r") as file:
            for name, expected in zip(("F", "k"), pair):
                _check_scalar(path, file, name, expected)
            fields = [_field(path, file, name, starts, size) for name in SPECIES]
            first, last = (np.stack([f[:starts, i] for f in fields], axis=1) for i in (0, fields[0].shape[1] - 1))
            return first, last
    except OSError as error:  # what h5py raises for a file that is cut short or not HDF5
        raise ValueError(f"{path}: expected a whole HDF5 file, found one that can't be read ({error})") from error


def _dataset(path: Path, file: h5py.File, name: str) -> h5py.Dataset:
    group = name.split("/")[0]
    found = ", ".join(file[group]) if group in file else f"no group {group!r}"
    item = file.get(name)
    if not isinstance(item, h5py.Dataset):
        raise ValueError(f"{path}: field {name!r} expected, found {found or 'an empty group'}")
    return item


def _check_scalar(path: Path, file: h5py.File, name: str, expected: float) -> None:
    found = np.unique(_dataset(path, file, f"scalars/{name}")[()])
    if not np.allclose(found, expected, rtol=1e-5):
        raise ValueError(f"{path}: field 'scalars/{name}': expected {expected:g}, found {found}")


def _field(path: Path, file: h5py.File, name: str, starts: int, size: Scale) -> h5py.Dataset:
    field = _dataset(path, file, f"t0_fields/{name}")
    snapshots = size.options["horizon"] // SNAPSHOT_EVERY + 1
    expected = (starts, snapshots, *size.grid)
    if field.ndim != 4 or field.shape[0] < starts or field.shape[1:] != expected[1:]:
        wanted = f"at least {starts} trajectories: ({starts}+, {', '.join(map(str, expected[1:]))})"
        hint = "The public files fit scale 'paper'."
        raise ValueError(f"{path}: field 't0_fields/{name}': expected {wanted}, found {field.shape}. {hint}")
    return field
