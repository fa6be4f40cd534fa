"""A task that is given by arrays (`contract.task_file`): what is in them, how they are split, and their reader.

Axes of a file: samples first, then time (rollouts), then channels before or behind the grid, or none:

    (n, channels, *grid)   (n, *grid, channels)   (n, *grid)   (n, time, channels, *grid)   ...

They are read in blocks and leave here as `contract.task` has them: inputs ``(n, channels, *grid)``, outputs the same,
or ``(n, steps, channels, *grid)`` for a rollout.

The split keeps the order of the file: the first samples are train, the last are test. Neighbours in a file are often
neighbours in time or in a parameter, and a shuffled split would score a model on what lies between its samples. With
labels, all samples of one label are on one side.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import UsageError
from ..contract.task import Scale
from ..contract.task_file import TaskFile, files_of
from .array_files import demand_numbers, labels, one_line, opened

BLOCK_BYTES = 4 << 20  # what is looked at while it is in the processor's cache
FEW, MANY = 4, 16  # a last axis this short, or a channel axis this long, is suspected to be another

Pair = tuple[np.ndarray, np.ndarray]


# --- axes ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Axes:
    """The axes of one array of a file."""

    count: int
    frames: int  # 0 without time
    channels: int
    grid: tuple[int, ...]
    order: str  # first, last or none

    def arranged(self, block: np.ndarray) -> np.ndarray:
        """``(n, [time], channels, *grid)``, as a view."""
        place = 2 if self.frames else 1
        if self.order == "none":
            return np.expand_dims(block, place)
        return np.moveaxis(block, -1, place) if self.order == "last" else block


def axes_of(shape: tuple[int, ...], order: str, rollout: bool, what: str) -> Axes:
    lead = 2 if rollout else 1
    rest = shape[lead:]
    if len(rest) == 1:
        order = "none"  # (n, x): one field along a line
    if len(rest) < (1 if order == "none" else 2):
        needed = "samples, time and a grid" if rollout else "samples and a grid"
        raise UsageError(f"{what}: shape {shape} has too few axes for {needed}")
    channels = 1 if order == "none" else rest[-1] if order == "last" else rest[0]
    grid = rest if order == "none" else rest[:-1] if order == "last" else rest[1:]
    if rollout and shape[1] < 2:
        raise UsageError(f"{what}: shape {shape}: a rollout has at least 2 frames along its second axis")
    if shape[0] < 1:
        raise UsageError(f"{what}: shape {shape} has no samples")
    if min(grid) < 2 or channels < 1:
        raise UsageError(f"{what}: shape {shape} is {_spell(channels, grid)}; a grid has at least 2 points per axis")
    return Axes(shape[0], shape[1] if rollout else 0, channels, tuple(grid), order)


def arrange(shapes: Mapping[str, tuple[int, ...]], task: TaskFile) -> dict[str, Axes]:
    """The axes of each array by role. An order that was not said is refused where it looks like another."""
    found = {role: axes_of(shape, task.channels or "first", task.rollout, role) for role, shape in shapes.items()}
    if len(found) == 2:
        found = _agreeing(found, shapes)
    if not task.channels:
        for role, axes in found.items():
            _suspect(role, shapes[role], axes)
    if len({axes.grid for axes in found.values()}) > 1:
        said = "; ".join(f"{role} {shapes[role]} is {_spell(a.channels, a.grid)}" for role, a in found.items())
        hint = "" if task.channels else ". Say --channels-last or --no-channels?"
        raise UsageError(f"inputs and outputs are on different grids: {said}{hint}")
    if len({axes.count for axes in found.values()}) > 1:
        counts = " and ".join(f"{axes.count} {role}" for role, axes in found.items())
        raise UsageError(f"{counts}: there must be as many of one as of the other")
    return found


def _agreeing(found: dict[str, Axes], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Axes]:
    """One of two arrays may have no axis for its only channel: its shape is then the other's grid."""
    for role, other in (("inputs", "outputs"), ("outputs", "inputs")):
        if found[role].grid != found[other].grid and shapes[role][1:] == found[other].grid:
            found = {**found, role: axes_of(shapes[role], "none", False, role)}
    return found


def _suspect(role: str, shape: tuple[int, ...], axes: Axes) -> None:
    if axes.order != "first":
        return
    said = f"{role}: shape {shape} would be {_spell(axes.channels, axes.grid)}"
    if axes.grid[-1] <= FEW < axes.channels:
        raise UsageError(f"{said}; are channels last? Say --channels-last, or --channels-first if it is right")
    if axes.channels > MANY:
        raise UsageError(f"{said}; no axis for channels? Say --no-channels, or --channels-first if it is right")


def _spell(channels: int, grid: tuple[int, ...]) -> str:
    return f"{channels} channel{'s' * (channels != 1)} on {' x '.join(map(str, grid))}"


# --- split -----------------------------------------------------------------------------------------------------------


def split_of(count: int, split: str, by: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the train and of the test samples, each in the order of the file."""
    if by is not None and by.shape != (count,):
        raise UsageError(f"split_by has shape {by.shape}; it needs one label for each of {count} samples")
    if by is not None and set(map(str, np.unique(by))) == {"train", "test"}:
        return np.flatnonzero(by == "train"), np.flatnonzero(by == "test")
    train, test = _shares(count, split)
    if by is None:
        return np.arange(train), np.arange(count - test, count)
    _, first, group = np.unique(by, return_index=True, return_inverse=True)
    if len(first) < 2:
        raise UsageError(f"split_by has one label for all samples ({by[0]!r}); at least 2 are needed to split by them")
    groups = np.argsort(first)  # in the order of their first samples
    ends = np.cumsum(np.bincount(group)[groups])
    groups_in_train = int(np.clip(np.argmin(np.abs(ends - train)) + 1, 1, len(groups) - 1))  # as near as can be
    is_train = np.isin(group, groups[:groups_in_train])
    return np.flatnonzero(is_train), np.flatnonzero(~is_train)


def _shares(count: int, split: str) -> tuple[int, int]:
    """``80/20`` as shares in per cent, any other numbers as counts."""
    try:
        first, second = (int(word) for word in split.split("/"))
    except ValueError:
        raise UsageError(f"split {split!r}: write train/test as shares (80/20) or as counts (50/14)") from None
    if first < 1 or second < 1 or (first + second != 100 and first + second > count):
        limit = f"shares that add up to 100, or counts of at most {count} samples together"
        raise UsageError(f"split {split!r}: {limit}")
    if first + second != 100:
        return first, second
    if count < 2:
        raise UsageError(f"{count} sample can't be split into train and test")
    train = min(max(1, (count * first + 50) // 100), count - 1)
    return train, count - train


# --- what is found, and the reader -----------------------------------------------------------------------------------


def find(task: TaskFile) -> dict[str, Any]:
    """What the arrays of a task file hold, by their headers alone: plain values, as ``found`` has them."""
    base, places = files_of(task)
    shapes, dtypes = {}, []
    for role in task.places:
        with opened(base, places[role], role) as array:
            demand_numbers(array, places[role], role)
            shapes[role], dtype = tuple(map(int, array.shape)), np.dtype(array.dtype)
        if len(shapes[role]) < 2:
            raise UsageError(f"{role} {places[role]}: shape {shapes[role]} has too few axes for samples and a grid")
        dtypes.append(dtype)
    axes = arrange(shapes, task)
    count, frames = axes["inputs"].count, axes["inputs"].frames
    if task.rollout and task.history >= frames:
        left = f"trajectories have {frames} frames, and one is left to predict"
        raise UsageError(f"history {task.history}: {left}: at most {frames - 1}")
    train, test = split_of(count, task.split, labels(base, places["split_by"]) if task.split_by else None)
    both = [axes["inputs"], axes.get("outputs", axes["inputs"])]
    return {
        "samples": count,
        "train": len(train),
        "test": len(test),
        "inputs": [both[0].channels, *both[0].grid],
        "outputs": [both[1].channels, *both[1].grid],
        "axes": {role: found.order for role, found in axes.items()},
        "steps": max(1, frames - 1),
        "dtype": "float64" if any(np.promote_types(d, np.float32) == np.float64 for d in dtypes) else "float32",
    }


class Arrays:
    """The arrays of a task, opened: whatever their files are, blocks of samples come out arranged."""

    def __init__(self, folder: str | Path, options: Mapping[str, Any], stack: contextlib.ExitStack) -> None:
        self.folder, self.options, self.rollout = folder, options, bool(options["rollout"])
        self.stored: dict[str, Any] = {}
        self.axes: dict[str, Axes] = {}
        for role, order in options["axes"].items():
            place = options["places"][role]
            self.stored[role] = array = stack.enter_context(opened(folder, place, role))
            demand_numbers(array, place, role)
            self.axes[role] = axes_of(tuple(array.shape), order, self.rollout, f"{role} {place}")

    def split(self) -> tuple[np.ndarray, np.ndarray]:
        place = self.options["places"].get("split_by")
        by = labels(self.folder, place) if place else None
        return split_of(self.axes["inputs"].count, self.options["split"], by)

    def block(self, role: str, chosen: np.ndarray) -> np.ndarray:
        """Samples by increasing number: ``(n, [time], channels, *grid)``."""
        start, stop = int(chosen[0]), int(chosen[-1]) + 1
        rows = slice(start, stop) if stop - start == len(chosen) else chosen
        array = self.stored[role]
        fancy = not isinstance(rows, slice) and hasattr(array, "oindex")  # zarr
        with one_line(Path(self.folder) / self.options["places"][role], role):  # compressed blocks may be damaged
            return self.axes[role].arranged(np.asarray(array.oindex[rows] if fancy else array[rows]))

    def bytes_of(self, role: str) -> int:
        """Of one sample."""
        array = self.stored[role]
        return int(np.prod(array.shape[1:], dtype=np.int64)) * np.dtype(array.dtype).itemsize

    def blocks(self, chosen: np.ndarray, limit: int = BLOCK_BYTES) -> Iterator[np.ndarray]:
        """The numbers of samples, as many at a time as have about so many bytes."""
        step = max(1, limit // max(1, *map(self.bytes_of, self.stored)))
        return (chosen[start : start + step] for start in range(0, len(chosen), step))


def spread(chosen: np.ndarray, count: int) -> np.ndarray:
    """So many of them, spread evenly."""
    return chosen[np.arange(count) * len(chosen) // count]


def read(directory: str | Path, size: Scale) -> dict[str, Iterator[Pair]]:
    """`TaskSpec.read`: the samples of a scale, in blocks."""
    return {split: _read(directory, size, split) for split in ("train", "test")}


def _read(directory: str | Path, size: Scale, split: str) -> Iterator[Pair]:
    with contextlib.ExitStack() as stack:
        arrays = Arrays(directory, size.options, stack)
        train, test = arrays.split()
        chosen, count = (train, size.train) if split == "train" else (test, size.test)
        if len(chosen) < count:
            raise UsageError(f"{directory}: {len(chosen)} {split} samples, expected {count}")
        points: tuple[Any, ...] = (..., *(slice(None, None, stride) for stride in size.options["strides"]))
        for numbers in arrays.blocks(spread(chosen, count)):
            fields = {role: arrays.block(role, numbers)[points] for role in arrays.stored}
            if arrays.rollout:
                frames = fields["inputs"][:, : size.steps + 1]
                fields = {"inputs": frames[:, 0], "outputs": frames[:, 1:]}
            yield fields["inputs"], fields["outputs"]
