"""Export in The Well's layout, one HDF5 file per split, readable by ``the_well``'s own ``WellDataset``.

    folder/stats.yaml                              means and deviations of train, for `WellDataset`'s normalisation
    folder/data/{train,valid,test}/{task}.hdf5     ``WellDataset(path=folder, well_split_name="train")``

The Well knows fields that vary in time (what is predicted) and fields that do not (what is given). A task's channels
become:

* rollout task            ``u_c`` varies in time: u(0), u(dt), ..., u(steps dt)
* steady task, evolving   ``u_c`` varies in time: frame 0 is the input, frame 1 the output, for the first
                          ``out_channels`` inputs; further inputs (parameters) are constant fields ``input_c``
* any other steady task   the inputs are constant fields ``input_c``; ``output_c`` varies in time: frame 0 is zero,
                          because a solution has no earlier state and `WellDataset` needs two frames, frame 1 is the
                          output
* a domain with a mask    a further constant field ``mask``, 1 inside, the same for all samples

Limits, which are the layout's: one to three axes, a grid that is a product of axes, float32, and boundaries that are
"periodic" or "wall" (what kind of wall is in the root attribute ``boundary``). Time counts frames.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import yaml

from ..base.errors import DataError, UsageError
from ..base.files import replacing, write_text
from ..contract.task import TaskInfo

AXES = ("x", "y", "z")
SPLITS = ("train", "valid", "test")

Splits = Mapping[str, tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Field:
    """One scalar field: values (n, frames, *grid), (n, *grid) if it does not vary in time, or (*grid) if it varies in
    neither. ``first_known`` is its first frame with meaningful values."""

    name: str
    values: np.ndarray
    time_varying: bool = False
    sample_varying: bool = True
    first_known: int = 0


def export_well(folder: str | Path, task: TaskInfo, splits: Splits) -> list[Path]:
    """Write the splits, ``{"train": (inputs, outputs), "test": ...}``, and return the files written."""
    _check_layout(task)
    for split, (inputs, outputs) in splits.items():
        _check_split(task, split, inputs, outputs)
    folder = Path(folder)
    written = []
    for split, (inputs, outputs) in splits.items():
        path = folder / "data" / split / f"{task.name}.hdf5"
        with replacing(path) as temporary, h5py.File(temporary, "w") as file:
            _write_frame(file, task, len(inputs))
            _write_fields(file, task, inputs, outputs)
        written.append(path)
    if "train" in splits:
        path = folder / "stats.yaml"
        write_text(path, yaml.safe_dump(statistics(task, *splits["train"])))
        written.append(path)
    return written


def well_fields(task: TaskInfo, inputs: np.ndarray, outputs: np.ndarray) -> Iterator[Field]:
    """The task's channels as The Well's fields."""
    if task.rollout:
        for c in range(task.out_channels):
            frames = np.concatenate([inputs[:, None, c], outputs[:, :, c]], axis=1)  # (n, 1 + steps, *grid)
            yield Field(f"u_{c}", frames, time_varying=True)
    elif task.evolves:
        for c in range(task.out_channels):
            yield Field(f"u_{c}", np.stack([inputs[:, c], outputs[:, c]], axis=1), time_varying=True)
    else:
        for c in range(task.out_channels):
            frames = np.stack([np.zeros_like(outputs[:, c]), outputs[:, c]], axis=1)  # (n, 2, *grid)
            yield Field(f"output_{c}", frames, time_varying=True, first_known=1)
    for c in range(task.out_channels if task.evolves else 0, task.in_channels):
        yield Field(f"input_{c}", inputs[:, c])
    if task.mask is not None:
        yield Field("mask", task.mask, sample_varying=False)


def statistics(task: TaskInfo, inputs: np.ndarray, outputs: np.ndarray) -> dict[str, dict[str, float]]:
    """Mean, deviation and root mean square of each field, and of its change from frame to frame."""
    result: dict[str, dict[str, float]] = {
        f"{moment}{suffix}": {} for moment in ("mean", "std", "rms") for suffix in ("", "_delta")
    }
    for field in well_fields(task, inputs, outputs):
        known = field.values[:, field.first_known :] if field.time_varying else field.values
        for moment, value in _moments(known).items():
            result[moment][field.name] = value
        if field.time_varying:
            for moment, value in _moments(np.diff(field.values, axis=1)).items():
                result[f"{moment}_delta"][field.name] = value
    return result


def _moments(values: np.ndarray) -> dict[str, float]:
    values = np.asarray(values, np.float64)
    return {
        "mean": float(values.mean()),
        "std": float(values.std()),
        "rms": float(np.sqrt(np.mean(values**2))),
    }


def _check_layout(task: TaskInfo) -> None:
    if task.dim > len(AXES):
        raise UsageError(f"task {task.name!r} has {task.dim} axes; The Well's layout has at most {len(AXES)}")
    rebuilt = np.stack(np.meshgrid(*_axes(task), indexing="ij"))
    if not np.allclose(rebuilt, task.coords):
        raise UsageError(f"task {task.name!r}: its grid is not a product of axes, which The Well's layout needs")


def _check_split(task: TaskInfo, split: str, inputs: np.ndarray, outputs: np.ndarray) -> None:
    if split not in SPLITS:
        raise UsageError(f"split {split!r}: The Well's splits are {', '.join(SPLITS)}")
    steps = outputs.shape[1:2] if task.rollout else ()
    expected = {
        "inputs": (len(inputs), task.in_channels, *task.grid),
        "outputs": (len(inputs), *steps, task.out_channels, *task.grid),
    }
    for name, array in (("inputs", inputs), ("outputs", outputs)):
        if array.shape != expected[name]:
            raise DataError(f"task {task.name!r}: {split} {name}: expected {expected[name]}, found {array.shape}")


def _axes(task: TaskInfo) -> list[np.ndarray]:
    """The coordinates along each axis, taken along the grid's edges."""
    edges = [(axis, *(slice(None) if a == axis else 0 for a in range(task.dim))) for axis in range(task.dim)]
    return [task.coords[edge] for edge in edges]


def _write_frame(file: h5py.File, task: TaskInfo, trajectories: int) -> None:
    """All that surrounds the fields: attributes, dimensions, boundary conditions, scalars."""
    file.attrs["dataset_name"] = task.name
    file.attrs["grid_type"] = "cartesian"
    file.attrs["n_spatial_dims"] = task.dim
    file.attrs["n_trajectories"] = trajectories
    file.attrs["equation"] = task.spec.equation
    file.attrs["boundary"] = task.boundary
    numbers = {name: value for name, value in task.params.items() if isinstance(value, (int, float))}
    file.attrs["simulation_parameters"] = _names(numbers)
    for name, value in numbers.items():
        file.attrs[name] = value

    scalars = file.create_group("scalars")
    scalars.attrs["field_names"] = _names(numbers)
    for name, value in numbers.items():
        _put(scalars, name, np.float32(value), sample_varying=False, time_varying=False)

    dimensions = file.create_group("dimensions")
    dimensions.attrs["spatial_dims"] = _names(AXES[: task.dim])
    frames = np.arange(task.size.steps + 1, dtype=np.float32)
    _put(dimensions, "time", frames, sample_varying=False)
    conditions = file.create_group("boundary_conditions")
    kind = "periodic" if task.periodic else "wall"
    for name, points in zip(AXES, _axes(task), strict=False):
        _put(dimensions, name, points.astype(np.float32), sample_varying=False, time_varying=False)
        condition = conditions.create_group(f"{name}_{kind}")
        condition.attrs["associated_dims"] = _names([name])
        condition.attrs["associated_fields"] = _names([])
        condition.attrs["bc_type"] = kind.upper()
        condition.attrs["sample_varying"] = False
        condition.attrs["time_varying"] = False
        ends = np.zeros(len(points), bool)
        ends[[0, -1]] = True
        condition["mask"] = ends
        condition["values"] = np.zeros(2, np.float32)


def _write_fields(file: h5py.File, task: TaskInfo, inputs: np.ndarray, outputs: np.ndarray) -> None:
    groups = [file.create_group(f"t{order}_fields") for order in range(3)]  # scalars, vectors, tensors
    names = []
    for field in well_fields(task, inputs, outputs):
        _put(
            groups[0],
            field.name,
            field.values.astype(np.float32),
            dim_varying=np.ones(task.dim, bool),
            sample_varying=field.sample_varying,
            time_varying=field.time_varying,
        )
        names.append(field.name)
    for group, content in zip(groups, (names, [], []), strict=True):
        group.attrs["field_names"] = _names(content)


def _put(group: h5py.Group, name: str, values: Any, **attributes: Any) -> None:
    dataset = group.create_dataset(name, data=values)
    for key, value in attributes.items():
        dataset.attrs[key] = value


def _names(names: Any) -> np.ndarray:
    """A list of names as an HDF5 attribute; an empty list keeps its type."""
    return np.array(list(names), dtype=h5py.string_dtype())
