"""Change of grid by Fourier coefficients."""

from __future__ import annotations

import numpy as np


def resample(values: np.ndarray, n: int) -> np.ndarray:
    """Periodic values (..., p, p), p even, as (..., n, n): trigonometric interpolation or truncation."""
    if values.shape[-1] == n:
        return values
    for axis in (-2, -1):
        values = np.moveaxis(_resample_last(np.moveaxis(values, axis, -1), n), -1, axis)
    return values


def _resample_last(values: np.ndarray, n: int) -> np.ndarray:
    points = values.shape[-1]
    spectrum = np.fft.rfft(values)
    if n > points:
        spectrum[..., points // 2] /= 2  # the highest mode of an even grid is a cosine: half at +p/2, half at -p/2
    else:
        spectrum[..., n // 2] = 0  # the coarse grid could only hold its cosine part
    return np.fft.irfft(spectrum, n) * (n / points)
