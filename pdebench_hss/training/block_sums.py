"""Sums over arrays that are seen block by block, with the bits that numpy gives for the whole array.

Floating-point sums depend on their order, so a normaliser that is fitted block by block must add as numpy adds. For an
array ``(n, channels, *grid)``, `np.add.reduce` over samples and grid adds

    several channels          sum_c <- sum_c + P(x[i, c]) for i = 0, 1, ...
    one channel, contiguous   P(x), all samples as one row
    one that is converted     sum <- sum + P(run) for runs of `BUFFER` values, which is what numpy converts at a time

(one channel cut out of several is refused: there numpy's order follows the strides). P is numpy's pairwise sum: of a
row of more than a few values it is P(first half) + P(second half), the first half a multiple of 8. A row can be cut
there without changing a bit, so that no more than `LEAF` values are needed at a time. Tests compare all of this with
numpy itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

BUFFER = 8192  # values: numpy's default buffer size
LEAF = 1 << 16  # values; more than the 128 that numpy adds without halving
MULTIPLE = 8
COMBINE = 0  # in a plan of sums: the last two are added


class BlockSum:
    """``np.add.reduce(whole, axis=(all but channels), dtype=np.float64)`` of ``count`` samples."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._way: _Rows | _Runs | _Pairwise | None = None

    def add(self, block: np.ndarray) -> None:
        """The next samples, ``(some, channels, *grid)``."""
        if self._way is None:
            self._way = self._choose(block)
        self._way.add(block)

    def _choose(self, block: np.ndarray) -> _Rows | _Runs | _Pairwise:
        if block.shape[1] > 1:
            return _Rows(block.shape[1])
        if not block.flags.c_contiguous:
            raise ValueError("the samples of one channel don't follow one another in memory")
        return _Pairwise(self.count * block[0].size) if block.dtype == np.float64 else _Runs()

    @property
    def total(self) -> np.ndarray:
        """Of each channel, after the last block."""
        assert self._way is not None
        return self._way.total()


class _Rows:
    def __init__(self, channels: int) -> None:
        self.sums = np.zeros(channels)

    def add(self, block: np.ndarray) -> None:
        for sample in block:
            for c, row in enumerate(sample):
                self.sums[c] = np.add.reduce(row, axis=None, dtype=np.float64, initial=self.sums[c])

    def total(self) -> np.ndarray:
        return self.sums


class _Runs:
    """A run may begin in one block and end in another."""

    def __init__(self) -> None:
        self.sum, self.rest = 0.0, np.empty(0)

    def add(self, block: np.ndarray) -> None:
        values = _joined(self.rest, block)
        whole = len(values) // BUFFER * BUFFER
        self.sum = np.add.reduce(values[:whole], dtype=np.float64, initial=self.sum) if whole else self.sum
        self.rest = values[whole:].copy()

    def total(self) -> np.ndarray:
        return np.array([np.add.reduce(self.rest, dtype=np.float64, initial=self.sum)])


class _Pairwise:
    def __init__(self, count: int) -> None:
        self.plan, self.rest = _plan(count), np.empty(0)
        self.wanted = next(self.plan)  # values of the next leaf
        self.sums: list[float] = []

    def add(self, block: np.ndarray) -> None:
        values = _joined(self.rest, block)
        while self.wanted and len(values) >= self.wanted:
            self.sums.append(float(np.add.reduce(values[: self.wanted])))
            values = values[self.wanted :]
            while (step := next(self.plan, None)) == COMBINE:
                second = self.sums.pop()
                self.sums.append(self.sums.pop() + second)
            self.wanted = step or 0
        self.rest = values.copy()

    def total(self) -> np.ndarray:
        (total,) = self.sums
        return np.array([total])


def _plan(count: int) -> Iterator[int]:
    """How numpy halves a row: lengths of leaves, and where two sums become one."""
    if count <= LEAF:
        yield count
        return
    half = count // 2
    half -= half % MULTIPLE
    yield from _plan(half)
    yield from _plan(count - half)
    yield COMBINE


def _joined(rest: np.ndarray, block: np.ndarray) -> np.ndarray:
    return np.concatenate([rest, block.reshape(-1)]) if len(rest) else block.reshape(-1)
