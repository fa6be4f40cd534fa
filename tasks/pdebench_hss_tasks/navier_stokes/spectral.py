"""Real fields on the unit torus and their Fourier coefficients, w(x) = sum_k w_k exp(2 pi i k . x).

Coefficients are kept as `rfft2` gives them (n^2 times w_k, second frequency not negative): shape (..., n, n/2 + 1).
Grids are square with an even number of points.
"""

from __future__ import annotations

import numpy as np
from scipy.fft import irfft2, rfft2


def wave_numbers(n: int) -> tuple[np.ndarray, np.ndarray]:
    """2 pi k along each axis, shapes (n, 1) and (1, n/2 + 1)."""
    return 2 * np.pi * np.fft.fftfreq(n, 1 / n)[:, None], 2 * np.pi * np.fft.rfftfreq(n, 1 / n)[None]


def squared(n: int) -> np.ndarray:
    """(2 pi |k|)^2, the eigenvalues of minus the Laplacian, (n, n/2 + 1)."""
    kx, ky = wave_numbers(n)
    return kx**2 + ky**2


def resample(field: np.ndarray, n: int) -> np.ndarray:
    """The field on a grid of n x n points by its Fourier series; modes that either grid can't hold are dropped."""
    old = field.shape[-1]
    if old == n:
        return field
    half = min(old, n) // 2  # |k| < half is kept: the Nyquist mode of the coarser grid has no partner
    coefficients = rfft2(field)
    moved = np.zeros((*field.shape[:-2], n, n // 2 + 1), dtype=complex)
    moved[..., :half, :half] = coefficients[..., :half, :half]
    if half > 1:
        moved[..., 1 - half :, :half] = coefficients[..., 1 - half :, :half]
    return irfft2(moved * (n / old) ** 2, s=(n, n))
