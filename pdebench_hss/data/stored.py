"""Samples of a split that stay in their file until they are asked for.

A `StoredSplit` is what a `Split` is, without its arrays: as the task sees them (`view`, history), the same bits, a few
at a time. A view is a function of each sample by itself, so a part of a split has the view's part. Where there is
none, single frames of a trajectory can be read.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from . import hdf5
from .cache import Dataset, Split, as_seen, naming
from .generation import check_shapes


class StoredSplit:
    """The samples ``chosen`` of one split, by their number in the file."""

    def __init__(self, dataset: Dataset, path: Path, split: str, chosen: np.ndarray) -> None:
        self.dataset, self.path, self.chosen = dataset, path, chosen
        self.task = dataset.spec.info(dataset.scale, dataset.params)
        with naming(path):
            self._file = hdf5.OpenSplit(path, split)

    def __len__(self) -> int:
        return len(self.chosen)

    @property
    def sample_bytes(self) -> int:
        """Of one sample as it is stored."""
        return self.dataset.sample_bytes

    @property
    def itemsize(self) -> int:
        return self._file.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return len(self) * self.sample_bytes

    @property
    def scratch_bytes(self) -> int:
        """Of the memory that reading needs."""
        return self._file.scratch_bytes

    @property
    def has_frames(self) -> bool:
        """Whether single frames can be read."""
        return self.task.rollout and self.dataset.spec.view is None

    def take(self, positions: Sequence[int] | np.ndarray) -> Split:
        """The samples at these places among the chosen ones."""
        inputs, outputs = (self._stored(name, self.chosen[positions]) for name in hdf5.ARRAYS)
        inputs, outputs = as_seen(self.dataset.spec, inputs, outputs)
        check_shapes(self.task, inputs, outputs)
        return Split(inputs, outputs)

    def blocks(self, at_once: int) -> Iterator[Split]:
        """All of them in their order, so many at a time."""
        for start in range(0, len(self), at_once):
            yield self.take(np.arange(start, min(start + at_once, len(self))))

    def blocks_of_inputs(self, at_once: int) -> Iterator[np.ndarray]:
        """The same of the inputs as they are stored: outputs are not read."""
        for start in range(0, len(self), at_once):
            yield self._stored("inputs", self.chosen[start : start + at_once])

    def _stored(self, name: str, samples: np.ndarray) -> np.ndarray:
        """Of one array, neighbours in one go."""
        array = np.empty((len(samples), *self._file.shapes[name][1:]), self._file.dtype)
        with naming(self.path):
            for start, stop in _runs(samples):
                first = int(samples[start])
                array[start:stop] = self._file.read(name, slice(first, first + stop - start))
        return array

    def frames(self, position: int, start: int, stop: int) -> np.ndarray:
        """The frames u_start, ..., u_(stop - 1) of one trajectory, ``(stop - start, c, *grid)``."""
        sample = int(self.chosen[position])
        with naming(self.path):
            first = [self._file.read("inputs", slice(sample, sample + 1))] if start == 0 else []
            later = self._file.read("outputs", sample, slice(max(start - 1, 0), stop - 1))
        return np.concatenate([*first, later]) if first else later

    def soon(self, position: int, start: int = 0, stop: int | None = None) -> None:
        """A hint that a sample, or these frames of it, are read next."""
        sample = int(self.chosen[position])
        if start == 0:
            self._file.soon("inputs", slice(sample, sample + 1))
        if stop is None:
            self._file.soon("outputs", slice(sample, sample + 1))
        else:
            self._file.soon("outputs", sample, slice(max(start - 1, 0), stop - 1))


def _runs(samples: np.ndarray) -> Iterator[tuple[int, int]]:
    """Where samples follow one another: (start, stop) of each run."""
    cuts = np.flatnonzero(np.diff(samples) != 1) + 1
    edges = [0, *cuts.tolist(), len(samples)]
    return itertools.pairwise(edges)
