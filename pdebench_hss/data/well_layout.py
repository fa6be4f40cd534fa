"""What a data set of The Well holds: its files, fields, scalars, grid and boundaries, without reading a field.

    folder/data/{train,valid,test}/*.hdf5
        attributes             dataset_name, grid_type, n_spatial_dims, n_trajectories
        dimensions             time, x, y, z                (attribute spatial_dims: which of them, in what order)
        boundary_conditions    groups with bc_type (WALL, OPEN, PERIODIC), associated_dims and a mask
        scalars                numbers that vary by sample or time, or neither
        t0_fields, t1_fields, t2_fields    scalars, vectors, tensors: ([trajectory], [time], *grid, *components)

Channels are numbered as `the_well` numbers them: scalars, then vectors, then tensors, each with its components in
order. All files of a data set must agree; they may differ in how many trajectories and frames they hold.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from ..base.errors import UsageError, did_you_mean

ORDERS = ("t0_fields", "t1_fields", "t2_fields")
SUFFIXES = (".hdf5", ".h5")
CARTESIAN = "cartesian"
UNEVEN = 1e-2  # of the spacing: what coordinates in float32 may be off


@dataclass(frozen=True)
class WellField:
    """A field, or a scalar (``order`` None), and along what it varies."""

    name: str
    order: int | None  # of the tensor
    components: int
    by_sample: bool
    by_time: bool

    @property
    def group(self) -> str:
        return "scalars" if self.order is None else ORDERS[self.order]


@dataclass(frozen=True)
class WellFile:
    path: Path
    trajectories: int
    frames: int


@dataclass(frozen=True)
class WellLayout:
    """One data set of The Well."""

    folder: Path
    name: str
    axes: tuple[str, ...]
    grid: tuple[int, ...]
    domain: tuple[tuple[float, float], ...]  # first and last point
    boundaries: tuple[str, ...]  # of each axis: PERIODIC, WALL, OPEN, or several of them, as in "WALL/OPEN"
    fields: tuple[WellField, ...]
    scalars: tuple[WellField, ...]
    files: dict[str, tuple[WellFile, ...]]  # by split

    @property
    def dim(self) -> int:
        return len(self.grid)

    @property
    def periodic(self) -> bool:
        return all(kind == "PERIODIC" for kind in self.boundaries)

    def frames(self) -> int:
        """That every trajectory has."""
        return min(file.frames for files in self.files.values() for file in files)

    def choose(self, names: Sequence[str], *, varying: bool) -> tuple[WellField, ...]:
        """Fields that vary in time, or what does not have to: by name, in the order of the file; all if none is named.

        Raises `UsageError` with what there is instead.
        """
        known = [f for f in self.fields if f.by_time] if varying else [f for f in self.fields if not f.by_time]
        known += [] if varying else self.scalars
        for name in names:
            if name not in {field.name for field in known}:
                raise UsageError(self._no_field(name, [field.name for field in known], varying))
        return tuple(field for field in known if field.name in names or not names)

    def _no_field(self, name: str, known: list[str], varying: bool) -> str:
        kind = "field that varies in time" if varying else "constant field or scalar"
        there = ", ".join(known) or "none"
        return f"{self.folder}: no {kind} {name!r}.{did_you_mean(name, known)}  It has: {there}"


def look(folder: str | Path, splits: Iterable[str] = ("train", "test")) -> WellLayout:
    """The layout of the data set in a folder; raises a `PdebenchError` of one line if it can't be used."""
    folder = Path(folder)
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such directory")
    paths = {split: _files(folder, split) for split in splits}
    first: WellLayout | None = None
    found: dict[str, list[WellFile]] = {split: [] for split in paths}
    for split, files in paths.items():
        for path in files:
            with opened(path) as file:
                layout, facts = _layout(folder, path, file)
            first = first or layout
            _agree(first, layout, next(iter(paths.values()))[0], path)
            found[split].append(facts)
    assert first is not None
    first.files.update({split: tuple(files) for split, files in found.items()})
    return first


def _files(folder: Path, split: str) -> list[Path]:
    place = folder / "data" / split
    files = sorted(path for path in place.glob("*") if path.suffix in SUFFIXES and path.is_file())
    if not files:
        there = ", ".join(sorted(entry.name for entry in folder.iterdir())[:8]) or "nothing"
        raise UsageError(
            f"{folder}: no data/{split}/*.hdf5 in it, found {there}; name the directory of one data set of The Well"
        )
    return files


@contextlib.contextmanager
def opened(path: Path) -> Iterator[h5py.File]:
    """A file to read from; what is wrong with it is a `UsageError` that names it."""
    try:
        with h5py.File(path, "r") as file:
            yield file
    except (OSError, KeyError, RuntimeError) as error:
        reason = str(error).strip("'\"").splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(f"{path}: damaged, or not a file of The Well ({reason}); download it again") from None


def _layout(folder: Path, path: Path, file: h5py.File) -> tuple[WellLayout, WellFile]:
    kind = str(file.attrs["grid_type"])
    if kind.lower() != CARTESIAN:
        raise UsageError(f"{path}: its grid is {kind!r}; only Cartesian data sets of The Well can be read")
    dimensions = file["dimensions"]
    axes = tuple(map(str, dimensions.attrs["spatial_dims"]))
    points = [_points(path, dimensions[axis]) for axis in axes]
    for axis, along in zip(axes, points, strict=True):
        _check_even(path, axis, along)
    layout = WellLayout(
        folder,
        str(file.attrs["dataset_name"]),
        axes,
        tuple(len(along) for along in points),
        tuple((float(along[0]), float(along[-1])) for along in points),
        _boundaries(file["boundary_conditions"], axes),
        tuple(_fields(file, len(axes))),
        tuple(_scalars(file)),
        {},
    )
    facts = WellFile(path, int(file.attrs["n_trajectories"]), int(dimensions["time"].shape[-1]))
    for field in (*layout.fields, *layout.scalars):
        _check_shape(path, file, field, layout, facts)
    return layout, facts


def _points(path: Path, axis: h5py.Dataset) -> np.ndarray:
    """Along one axis, ``(points,)``; each trajectory may have its own, if they are the same."""
    points = axis[:].reshape(-1, axis.shape[-1])
    if (points != points[0]).any():
        raise UsageError(
            f"{path}: its axis {axis.name.rpartition('/')[2]} differs between trajectories; tasks have one grid"
        )
    return points[0]


def _check_even(path: Path, axis: str, points: np.ndarray) -> None:
    spacing = np.diff(points.astype(np.float64))
    if len(points) < 2 or not np.abs(spacing - spacing.mean()).max() <= UNEVEN * abs(spacing.mean()):
        raise UsageError(f"{path}: the points of its axis {axis} are not equispaced, which tasks need")


def _boundaries(conditions: h5py.Group, axes: tuple[str, ...]) -> tuple[str, ...]:
    kinds: dict[str, dict[str, None]] = {axis: {} for axis in axes}
    for condition in conditions.values():
        for axis in condition.attrs["associated_dims"]:
            kinds[str(axis)][str(condition.attrs["bc_type"]).upper()] = None
    return tuple("/".join(kinds[axis]) or "OPEN" for axis in axes)  # open unless a condition says otherwise


def _fields(file: h5py.File, dim: int) -> Iterator[WellField]:
    for order, group in enumerate(ORDERS):
        for name in map(str, file[group].attrs["field_names"]):
            attributes = file[group][name].attrs
            yield WellField(
                name, order, dim**order, bool(attributes["sample_varying"]), bool(attributes["time_varying"])
            )


def _scalars(file: h5py.File) -> Iterator[WellField]:
    for name in map(str, file["scalars"].attrs["field_names"]):
        attributes = file["scalars"][name].attrs
        yield WellField(name, None, 1, bool(attributes["sample_varying"]), bool(attributes["time_varying"]))


def _check_shape(path: Path, file: h5py.File, field: WellField, layout: WellLayout, facts: WellFile) -> None:
    """Axes along which a field does not vary have one point, or are left out of scalars."""
    leading = [facts.trajectories] * field.by_sample + [facts.frames] * field.by_time
    order = field.order or 0
    stored = file[field.group][field.name]
    grid: list[int] = []
    if field.order is not None:
        varies = stored.attrs["dim_varying"]
        grid = [n if along else 1 for n, along in zip(layout.grid, varies, strict=True)]
    expected = (*leading, *grid, *[layout.dim] * order)
    if stored.shape != expected:
        raise UsageError(f"{path}: {field.name} has shape {stored.shape}, expected {expected}; download it again")


def _agree(first: WellLayout, other: WellLayout, where: Path, path: Path) -> None:
    """Files of one data set hold the same fields on the same grid."""
    if other.grid != first.grid:
        grids = ["x".join(map(str, layout.grid)) for layout in (other, first)]
        raise UsageError(
            f"{path}: its grid is {grids[0]}, and that of {where.name} is {grids[1]}; they don't go together"
        )
    for what in ("fields", "scalars", "axes"):
        ours, theirs = getattr(other, what), getattr(first, what)
        if ours != theirs:
            names = [", ".join(getattr(f, "name", f) for f in found) or "none" for found in (ours, theirs)]
            raise UsageError(f"{path}: its {what} are {names[0]}, and those of {where.name} are {names[1]}")
