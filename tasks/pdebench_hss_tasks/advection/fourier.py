"""Periodic fields on another grid, by their Fourier series."""

from __future__ import annotations

import numpy as np
from scipy.fft import irfft, rfft


def resample(fields: np.ndarray, points: int) -> np.ndarray:
    """The same Fourier series on another grid, cut where that one ends: (..., m) -> (..., points)."""
    if fields.shape[-1] == points:
        return fields
    spectrum = rfft(fields)[..., : min(points, fields.shape[-1]) // 2]  # without the mode of half a wave per point
    return irfft(spectrum, n=points) * (points / fields.shape[-1])
