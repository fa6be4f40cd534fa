"""Normalisation: per channel, fitted on train alone, ``normalised = (physical - shift) / scale``.

``max``     scale is the largest absolute value (what most tasks choose)
``std``     scale is the standard deviation about zero (a Z-score of data whose mean is zero)
``zscore``  shift is the mean, scale the standard deviation about it
``none``    nothing

For rollout tasks the outputs' normaliser is fitted on the residuals u(t + dt) - u(t).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .block_sums import BlockSum


@dataclass(frozen=True)
class Affine:
    """Per-channel shift and scale, arrays of shape ``(channels,)``."""

    shift: np.ndarray
    scale: np.ndarray

    def normalise(self, x: np.ndarray) -> np.ndarray:
        return (x - self._along(self.shift, x)) / self._along(self.scale, x)

    def restore(self, x: np.ndarray) -> np.ndarray:
        return x * self._along(self.scale, x) + self._along(self.shift, x)

    @staticmethod
    def _along(values: np.ndarray, x: np.ndarray) -> np.ndarray:
        return values.reshape((1, -1) + (1,) * (x.ndim - 2))  # (1, channels, 1, ...)


@dataclass(frozen=True)
class Normalizer:
    inputs: Affine
    outputs: Affine


def fit_affine(x: np.ndarray, kind: str) -> Affine:
    """Fit to ``x`` of shape ``(n, channels, *grid)``; a channel without spread is not scaled."""
    axes = (0, *range(2, x.ndim))
    shift = np.zeros(x.shape[1])
    if kind == "max":
        scale = np.abs(x).max(axis=axes).astype(np.float64)
    elif kind == "std":
        scale = np.sqrt(np.mean(np.square(x, dtype=np.float64), axis=axes))
    elif kind == "zscore":
        shift = x.mean(axis=axes, dtype=np.float64)
        scale = x.std(axis=axes, dtype=np.float64)
    elif kind == "none":
        scale = np.ones(x.shape[1])
    else:
        raise ValueError(f"unknown normalisation {kind!r}")
    return _spread(shift, scale, np.abs(x).max(axis=axes))


class BlockwiseFit:
    """`fit_affine` of ``count`` samples that are seen block by block, to the bit, in as many passes as it takes."""

    def __init__(self, kind: str, count: int) -> None:
        self.kind, self.count = kind, count
        self.passes = {"max": 1, "none": 1, "std": 1, "zscore": 2}[kind]
        self._sums = [BlockSum(count) for _ in range(self.passes)]
        self._largest: np.ndarray | None = None
        self._points = 0

    def see(self, block: np.ndarray, number: int = 0) -> None:
        """The next samples ``(some, channels, *grid)`` of a pass."""
        if number == 0:
            here = np.abs(block).max(axis=(0, *range(2, block.ndim)))
            self._largest = here if self._largest is None else np.maximum(self._largest, here)
            self._points = block[0, 0].size
        if self.kind == "std":
            self._sums[0].add(np.square(block, dtype=np.float64))
        elif self.kind == "zscore" and number == 0:
            self._sums[0].add(block)
        elif self.kind == "zscore":
            deviation = block - Affine._along(self._mean(0), block)
            self._sums[1].add(np.multiply(deviation, deviation, out=deviation))

    def _mean(self, number: int) -> np.ndarray:
        return np.true_divide(self._sums[number].total, self.count * self._points)

    def affine(self) -> Affine:
        """After the last pass."""
        assert self._largest is not None
        shift = np.zeros(len(self._largest))
        if self.kind == "max":
            scale = self._largest.astype(np.float64)
        elif self.kind == "std":
            scale = np.sqrt(self._mean(0))
        elif self.kind == "zscore":
            shift, scale = self._mean(0), np.sqrt(self._mean(1))
        else:
            scale = np.ones(len(self._largest))
        return _spread(shift, scale, self._largest)


def _spread(shift: np.ndarray, scale: np.ndarray, largest: np.ndarray) -> Affine:
    """The only spread of a constant channel is rounding, which must not be scaled up to 1."""
    return Affine(shift, np.where(scale > 1e-12 * largest, scale, 1.0))
