"""Files in The Well's layout with random content, in the shapes that its data sets have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

AXES = ("x", "y", "z")


def write_well(
    folder: Path,
    grid: Sequence[int],
    *,
    fields: Mapping[str, int] | None = None,
    constant_fields: Mapping[str, bool] | None = None,
    scalars: Mapping[str, tuple[bool, bool]] | None = None,
    trajectories: Sequence[int] = (3, 2),
    frames: int = 7,
    boundary: str = "PERIODIC",
    grid_type: str = "cartesian",
    splits: Sequence[str] = ("train", "valid", "test"),
) -> Path:
    """A data set: ``fields`` with their tensor orders; ``constant_fields`` and whether samples differ in them;
    ``scalars`` and whether they vary by sample and in time; a file for each number of trajectories."""
    rng = np.random.default_rng(len(grid))
    for split in splits:
        for number, count in enumerate(trajectories):
            path = folder / "data" / split / f"part_{number}.hdf5"
            path.parent.mkdir(parents=True, exist_ok=True)
            with h5py.File(path, "w") as file:
                _frame(file, grid, count, frames, boundary, grid_type)
                groups = [file.create_group(f"t{order}_fields") for order in range(3)]
                for name, order in (fields or {"density": 0}).items():
                    shape = (count, frames, *grid, *[len(grid)] * order)
                    _put(groups[order], name, rng.normal(size=shape), True, True, dim_varying=[True] * len(grid))
                for name, varies in (constant_fields or {}).items():
                    shape = (*([count] if varies else []), *grid)
                    _put(groups[0], name, rng.normal(size=shape), varies, False, dim_varying=[True] * len(grid))
                for name, (by_sample, by_time) in (scalars or {}).items():
                    shape = (*([count] if by_sample else []), *([frames] if by_time else []))
                    _put(file["scalars"], name, rng.normal(size=shape), by_sample, by_time)
                for group in (*groups, file["scalars"]):
                    group.attrs["field_names"] = _names(sorted(group))
    return folder


def _frame(file: h5py.File, grid: Sequence[int], count: int, frames: int, boundary: str, grid_type: str) -> None:
    file.attrs.update({"dataset_name": "made_up", "grid_type": grid_type})
    file.attrs.update({"n_spatial_dims": len(grid), "n_trajectories": count, "simulation_parameters": _names([])})
    axes = AXES[: len(grid)]
    file.create_group("scalars")
    dimensions = file.create_group("dimensions")
    dimensions.attrs["spatial_dims"] = _names(axes)
    _put(dimensions, "time", np.arange(frames), False, True)
    conditions = file.create_group("boundary_conditions")
    for axis, points in zip(axes, grid):
        _put(dimensions, axis, np.arange(points) / points, False, False)
        condition = conditions.create_group(f"{axis}_{boundary.lower()}")
        condition.attrs.update({"associated_dims": _names([axis]), "associated_fields": _names([])})
        condition.attrs.update({"bc_type": boundary, "sample_varying": False, "time_varying": False})
        condition["mask"] = np.isin(np.arange(points), [0, points - 1])


def _put(group: h5py.Group, name: str, values: Any, by_sample: bool, by_time: bool, **more: Any) -> None:
    stored = group.create_dataset(name, data=np.asarray(values, np.float32))
    stored.attrs.update({"sample_varying": by_sample, "time_varying": by_time, **more})


def _names(names: Sequence[str]) -> np.ndarray:
    return np.array(list(names), dtype=h5py.string_dtype())
