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
    # The only spread of a constant channel is rounding, which must not be scaled up to 1.
    noise = 1e-12 * np.abs(x).max(axis=axes)
    return Affine(shift, np.where(scale > noise, scale, 1.0))
