"""Training pairs of samples that stay in their file: the same pairs, to the bit, in a bounded amount of memory.

    resident = work on a block of them + one batch + as many normalised pairs as there is room for

The pairs that are kept are the first ones: batches are drawn at random, so any choice is found as often. The others are
read, cut into windows and normalised again whenever a batch wants them; what the next batch wants is announced to the
system while this one is computed. The normaliser is fitted in passes over the file, with the sums of the whole
(`block_sums`), so nothing depends on what is kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from ..base.files import human_bytes
from ..contract.task import TaskInfo
from ..data.dataset import Dataset
from ..data.stored import StoredSplit
from .normalization import BlockwiseFit, Normalizer
from .windows import TrainSet, normalised, repeated, trajectories, windows

BLOCK = 4 << 20  # bytes of float64 that are read, or normalised, at a time; at least one sample or pair
TEMPORARIES = 8  # arrays of a block's size while it is read and normalised
WORK_SHARE = 4  # the work on blocks may take this part of the limit
IN_MEMORY = {False: 4, True: 8}  # the same while whole sets are prepared (`windows.prepare`): steady, rollout


def bytes_in_memory(dataset: Dataset, count: int) -> int:
    """What a training set of so many samples takes at most while it is prepared in memory."""
    values = dataset.sample_bytes // np.dtype(dataset.spec.dtype).itemsize
    return IN_MEMORY[dataset.spec.rollout] * 8 * values * count


class StreamedSet:
    """What a `TrainSet` is to the training loop, with at most ``limit`` bytes of it in memory."""

    def __init__(self, split: StoredSplit, dtype: torch.dtype, unroll: int, batch: int, limit: int) -> None:
        self.split, self.dtype, self.unroll = split, dtype, unroll
        self.task: TaskInfo = split.task
        self._windows = self.task.size.steps - unroll + 1 if self.task.rollout else 1  # per sample
        self._block = min(BLOCK, limit // (WORK_SHARE * TEMPORARIES))
        self._last = self.task.size.steps + self.task.history - 1  # frame of a trajectory
        self._resident = self._room(batch, limit)  # pairs
        self.normalizer = self._fit()
        self._kept = tuple(torch.empty((self._resident, *shape), dtype=dtype) for shape in self._shapes)
        self._there = torch.zeros(self._resident, dtype=torch.bool)

    def __len__(self) -> int:
        return len(self.split) * self._windows

    @property
    def _shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Of a pair's input and output."""
        task, steps = self.task, (self.unroll,) if self.unroll > 1 else ()
        return (task.in_channels, *task.grid), (*steps, task.out_channels, *task.grid)

    @property
    def pair_bytes(self) -> int:
        return self.dtype.itemsize * sum(map(math.prod, self._shapes))

    @property
    def nbytes(self) -> int:
        """Of what is kept in memory."""
        return self._resident * self.pair_bytes

    def facts(self) -> dict[str, int]:
        """In the form of a record."""
        return {"pairs": len(self), "resident": self._resident, "stored_bytes": self.split.nbytes}

    def _room(self, batch: int, limit: int) -> int:
        """How many pairs are kept besides what every batch needs."""
        needed = self._work() + min(batch, len(self)) * self.pair_bytes
        if needed > limit:
            raise MemoryError(
                f"a batch of {min(batch, len(self))} and the work on it take {human_bytes(needed)}, and "
                f"--max-resident is {human_bytes(limit)}: raise it"
            )
        return min(len(self), (limit - needed) // self.pair_bytes)

    def _work(self) -> int:
        """Bytes of temporary arrays: of a block, or of the sample or the frames that a pair is made of."""
        values = self.split.sample_bytes // self.split.itemsize
        if self.split.has_frames:
            values = (self.task.history + self.unroll) * math.prod(self.task.grid) * self.task.out_channels
        return TEMPORARIES * max(self._block, 8 * values) + self.split.scratch_bytes

    def pairs(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs and outputs of some pairs: from memory, or from the file."""
        index = index.cpu()
        x, y = (torch.empty((len(index), *shape), dtype=self.dtype) for shape in self._shapes)
        near = index < self._resident
        known = near.clone()
        known[near] = self._there[index[near]]
        for whole, kept in zip((x, y), self._kept, strict=True):
            whole[known] = kept[index[known]]
        self._read(index, torch.nonzero(~known).flatten(), x, y)
        fresh = near & ~known
        for whole, kept in zip((x, y), self._kept, strict=True):
            kept[index[fresh]] = whole[fresh]
        self._there[index[fresh]] = True
        return x, y

    def _read(self, index: Tensor, wanted: Tensor, x: Tensor, y: Tensor) -> None:
        """Fill the places ``wanted`` of a batch, in the order of the file and a block at a time."""
        if not len(wanted):
            return
        wanted = wanted[index[wanted].argsort()]
        values = self.pair_bytes // self.dtype.itemsize
        for places in wanted.split(max(1, self._block // (8 * values))):
            inputs, outputs = self._physical(index[places].numpy())
            x[places], y[places] = normalised(inputs, outputs, self.normalizer, self.dtype, self.unroll)

    def _physical(self, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if not self.task.rollout:
            samples = self.split.take(pairs)
            return samples.inputs, samples.outputs
        inputs, outputs = zip(*(self._window(*divmod(int(pair), self._windows)) for pair in pairs), strict=True)
        return np.concatenate(inputs), np.concatenate(outputs)

    def _window(self, sample: int, start: int) -> tuple[np.ndarray, np.ndarray]:
        frames = self._frames(sample, start, start + self.task.history + self.unroll)[None]
        return windows(frames, np.diff(frames, axis=1), self.task.history, self.unroll)

    def _frames(self, sample: int, start: int, stop: int) -> np.ndarray:
        if self.split.has_frames:
            return self.split.frames(sample, start, stop)
        seen = self.split.take([sample])
        return trajectories(seen.inputs, seen.outputs, self.task)[0, start:stop]

    def soon(self, index: Tensor) -> None:
        """A hint: the pairs of the next batch."""
        for pair in index.tolist():
            if pair < self._resident and self._there[pair]:
                continue
            sample, start = divmod(pair, self._windows)
            if self.split.has_frames:
                self.split.soon(sample, start, start + self.task.history + self.unroll)
            else:
                self.split.soon(sample)

    def _fit(self) -> Normalizer:
        """To all inputs and outputs or, in rollouts, to all frames but the last and all residuals."""
        each, count = (self._steps, len(self.split) * self._last) if self.task.rollout else (self._samples, len(self))
        fits = [BlockwiseFit(self.task.spec.normalization, count) for _ in range(2)]
        for number in range(fits[0].passes):
            for blocks in each():
                for fit, block in zip(fits, blocks, strict=True):
                    fit.see(block, number)
        inputs, outputs = (fit.affine() for fit in fits)
        return Normalizer(repeated(inputs, self.task.history), outputs)

    def _samples(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        step = max(1, self._block * self.split.itemsize // (8 * self.split.sample_bytes))
        for start in range(0, len(self.split), step):
            samples = self.split.take(np.arange(start, min(start + step, len(self.split))))
            yield samples.inputs, samples.outputs

    def _steps(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Frames and what follows from each to the next, both ``(steps, c, *grid)``."""
        last = self._last
        frame = 8 * math.prod(self.task.grid) * self.task.out_channels  # bytes
        step = max(1, self._block // frame) if self.split.has_frames else last
        for sample in range(len(self.split)):
            for start in range(0, last, step):
                frames = self._frames(sample, start, min(start + step, last) + 1)
                yield np.ascontiguousarray(frames[:-1]), np.diff(frames, axis=0)


def why_not_streamed(split: StoredSplit) -> str | None:
    """Why a training set has to be prepared in memory, or None."""
    if split.dataset.spec.view is None or split.task.rollout or split.task.spec.normalization in ("max", "none"):
        return None
    few = split.take(np.arange(min(2, len(split))))
    if all(array.shape[1] > 1 or array.flags.c_contiguous for array in (few.inputs, few.outputs)):
        return None
    return "its view cuts one channel out of an array, and the sums of its normaliser depend on that array as a whole"


Pairs = TrainSet | StreamedSet
