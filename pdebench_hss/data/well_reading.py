"""Samples of a task from the files of The Well: a reader (`TaskSpec.read`) for every Cartesian data set of it.

A sample is a window of one trajectory, of whose frames every ``stride``-th is used:

    rollout    u(0) -> u(1), ..., u(steps)                         the fields that are predicted, nothing else
    pairs      u(h - 1), ..., u(0), given -> u(h)                  h ``frames``, newest first; then the constant fields
                                                                   and scalars that are given, a scalar as a constant

Windows of rollouts share no step; those of pairs start at every frame. A scale with fewer samples than there are
windows takes them evenly from all trajectories of all files, in an order that is shuffled once and for all, so that the
first n of them are like the rest. Only the frames and fields that are needed are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from ..base.errors import DataError
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
            raise DataError(f"{count} samples were asked for, and the files hold {len(self)} windows")
        chosen = np.arange(count) * len(self) // count
        return np.random.default_rng(seed_from("well", name)).permutation(chosen)


def windows_of(files: tuple[WellFile, ...], *, stride: int, steps: int, frames: int, rollout: bool) -> Windows:
    span = (steps if rollout else frames) * stride + 1
    return Windows(files, span, span - 1 if rollout else 1)


def read(
    folder: Path,
    size: Scale,
    *,
    fields: Sequence[str],
    given: Sequence[str] = (),
    stride: int = 1,
    frames: int = 1,
    rollout: bool = True,
) -> dict[str, Iterator[Pair]]:
    """Blocks of inputs and outputs of both splits; ``size`` says how many samples and how many steps."""
    layout = look(folder)
    if layout.grid != size.grid:
        raise DataError(f"{folder} has a grid of {layout.grid}, and the task one of {size.grid}")
    predicted = layout.choose(fields, varying=True)
    extra = layout.choose(given, varying=False) if given else ()
    shape = {"stride": stride, "steps": size.steps, "frames": frames, "rollout": rollout}

    def blocks(split: str, count: int) -> Iterator[Pair]:
        windows = windows_of(layout.files[split], **shape)
        reader = _Reader(layout, predicted, extra, windows.span, stride)
        sample_bytes = 4 * len(range(0, windows.span, stride)) * sum(f.components for f in predicted)
        step = max(1, BLOCK_BYTES // (sample_bytes * int(np.prod(layout.grid))))
        chosen = windows.spread(count, split)
        for start in range(0, count, step):
            samples = [reader.sample(*windows[int(i)], rollout) for i in chosen[start : start + step]]
            inputs, outputs = zip(*samples, strict=True)
            yield np.stack(inputs), np.stack(outputs)

    return {"train": blocks("train", size.train), "test": blocks("test", size.test)}


@dataclass(frozen=True)
class _Reader:
    layout: WellLayout
    predicted: tuple[WellField, ...]
    given: tuple[WellField, ...]
    span: int
    stride: int

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
            raise DataError(f"{file.path}: {field.name} is not finite in trajectory {trajectory}{frame}")


def _over_space(values: np.ndarray, dim: int) -> np.ndarray:
    """A scalar's value at each time, ``(times, 1, 1, ...)``."""
    return values.reshape(-1, 1, *[1] * dim)
