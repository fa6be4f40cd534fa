"""Samples of a task from the files of The Well: a reader (`TaskSpec.read`) for every Cartesian data set of it.

A sample is a window of one trajectory, of whose frames every ``stride``-th is used:

    rollout    u(0) -> u(1), ..., u(steps)                         the fields that are predicted, nothing else
    pairs      u(h - 1), ..., u(0), given -> u(h)                  h ``frames``, newest first; then the constant fields
                                                                   and scalars that are given, a scalar as a constant

Windows of rollouts share no step; those of pairs start at every frame. A scale with fewer samples than there are
windows takes them evenly from all trajectories of all files, in an order that is shuffled once and for all, so that the
first n of them are like the rest. Only the frames and fields that are needed are read; a scale's ``strides`` then thin
out the grid.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from ..base.errors import UsageError
from ..base.hashing import seed_from
from ..contract.task import Scale
from .well_layout import WellField, WellFile, WellLayout, look, opened

BLOCK_BYTES = 32 << 20
Pair = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Windows:
    """Of the trajectories of a split: ``span`` frames long, a new one every ``hop`` frames."""

    files: tuple[WellFile, ...]
    span: int
    hop: int

    def _each(self, file: WellFile) -> int:
        """Windows of one trajectory."""
        return max(0, (file.frames - self.span) // self.hop + 1)

    def __len__(self) -> int:
        return sum(file.trajectories * self._each(file) for file in self.files)

    def __getitem__(self, index: int) -> tuple[WellFile, int, int]:
        """File, trajectory and first frame."""
        for file in self.files:
            count = file.trajectories * self._each(file)
            if index < count:
                trajectory, window = divmod(index, self._each(file))
                return file, trajectory, window * self.hop
            index -= count
        raise IndexError(index)

    def spread(self, count: int, name: str) -> np.ndarray:
        """Which windows ``count`` samples are, in a shuffled order."""
        if count > len(self):
            raise UsageError(f"{count} samples were asked for, and the files hold {len(self)} windows")
        chosen = np.arange(count) * len(self) // count
        return np.random.default_rng(seed_from("well", name)).permutation(chosen)


def windows_of(files: tuple[WellFile, ...], *, stride: int, steps: int, rollout: bool) -> Windows:
    """Of ``steps`` steps: those of a rollout, or from the oldest frame of a pair to its output."""
    span = steps * stride + 1
    return Windows(files, span, span - 1 if rollout else 1)


def read(folder: Path, size: Scale) -> dict[str, Iterator[Pair]]:
    """Blocks of inputs and outputs of both splits, as the scale's options say what they are made of."""
    layout, options = look(folder), size.options
    predicted = layout.choose(options["fields"], varying=True)
    given = layout.choose(options["given"], varying=False) if options["given"] else ()
    stride, frames, rollout = options["stride"], options["frames"], not given
    thinned = (..., *(slice(None, None, each) for each in options["strides"]))

    def blocks(split: str, count: int) -> Iterator[Pair]:
        windows = windows_of(
            layout.files[split], stride=stride, steps=size.steps if rollout else frames, rollout=rollout
        )
        reader = _Reader(layout, predicted, given, windows.span, stride)
        chosen = windows.spread(count, split)
        for start, stop in _ranges(count, reader.sample_bytes):
            inputs, outputs = zip(*(reader.sample(*windows[int(i)], rollout) for i in chosen[start:stop]), strict=True)
            yield np.stack([x[thinned] for x in inputs]), np.stack([y[thinned] for y in outputs])

    return {"train": blocks("train", size.train), "test": blocks("test", size.test)}


def _ranges(count: int, each: int) -> Iterator[tuple[int, int]]:
    """Of samples of so many bytes, a block at a time."""
    step = max(1, BLOCK_BYTES // each)
    return ((start, min(start + step, count)) for start in range(0, count, step))


@dataclass(frozen=True)
class _Reader:
    layout: WellLayout
    predicted: tuple[WellField, ...]
    given: tuple[WellField, ...]
    span: int
    stride: int

    @property
    def sample_bytes(self) -> int:
        frames = len(range(0, self.span, self.stride))
        return 4 * frames * sum(field.components for field in self.predicted) * math.prod(self.layout.grid)

    def sample(self, file: WellFile, trajectory: int, start: int, rollout: bool) -> Pair:
        times = slice(start, start + self.span, self.stride)
        with opened(file.path) as content:
            frames = self._channels(content, file, self.predicted, trajectory, times)  # (t, c, *grid)
            if rollout:
                return frames[0], frames[1:]
            newest = start + self.span - 1 - self.stride
            extra = [
                self._channels(content, file, [field], trajectory, slice(newest, newest + 1))[0] for field in self.given
            ]
        seen = frames[-2::-1].reshape(-1, *self.layout.grid)  # (h c, *grid), newest first
        return np.concatenate([seen, *extra]), frames[-1]

    def _channels(
        self, content: h5py.File, file: WellFile, fields: Sequence[WellField], trajectory: int, times: slice
    ) -> np.ndarray:
        """Of some frames, ``(times, channels, *grid)``."""
        count = len(range(*times.indices(file.frames)))
        found = []
        for field in fields:
            place = ((trajectory,) if field.by_sample else ()) + ((times,) if field.by_time else ())
            values = np.asarray(content[field.group][field.name][place], np.float32)
            if not field.by_time:
                values = values[None]
            self._check_finite(values, file, field, trajectory, times)
            values = values.reshape(len(values), *values.shape[1 : 1 + self.layout.dim], -1)  # components last
            values = np.moveaxis(values, -1, 1) if field.order is not None else _over_space(values, self.layout.dim)
            found.append(np.broadcast_to(values, (count, field.components, *self.layout.grid)))
        return np.concatenate(found, axis=1)

    def _check_finite(
        self, values: np.ndarray, file: WellFile, field: WellField, trajectory: int, times: slice
    ) -> None:
        bad = ~np.isfinite(values).reshape(len(values), -1).all(axis=1)
        if bad.any():
            frame = f", frame {times.start + int(np.argmax(bad)) * (times.step or 1)}" if field.by_time else ""
            raise UsageError(f"{file.path}: {field.name} is not finite in trajectory {trajectory}{frame}")


def _over_space(values: np.ndarray, dim: int) -> np.ndarray:
    """A scalar's value at each time, ``(times, 1, 1, ...)``."""
    return values.reshape(-1, 1, *[1] * dim)
