"""Navier-Stokes data (Neural-HSS, "Data Specification", Navier-Stokes; DiffusionPDE's recipe), regenerated.

    w(0) ~ N(0, C) on the unit torus, zero mean,   E |w_k|^2 = 2 * 7^3 (4 pi^2 |k|^2 + 49)^(-5/2)   for k != 0

The paper prints the covariance as 7^1.5 (-Lap + 49)^(-2.5), which gives std(w(0)) = 0.043. The released data have
0.262, which is the variance above: 7^1.5 multiplies the field rather than its covariance, and a further sqrt(2) comes
of taking the real part of a complex field.

Inputs are w(0), outputs w(1). The inverse task reads them the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.fft import irfft2, rfft2

from pdebench_hss import Scale

from .solver import backward, forward
from .spectral import resample, squared

TAU = 7
AMPLIFICATION = 1e5  # of the rounding errors of stored fields (float32), going backwards: still below the modes found


def random_vorticity(seed: int, n: int) -> np.ndarray:
    """One start, (n, n): white noise, whose coefficients have E |rfft2|^2 = n^2, coloured by the spectrum."""
    noise = np.random.default_rng(seed).standard_normal((n, n))
    deviation = np.sqrt(2 * TAU**3 * (squared(n) + TAU**2) ** -2.5)
    deviation[0, 0] = 0
    return irfft2(rfft2(noise) * deviation * n, s=(n, n))


def generate(seeds: Sequence[int], size: Scale) -> tuple[np.ndarray, np.ndarray]:
    """w(0) and w(1), both (n, 1, N, N)."""
    starts = np.stack([random_vorticity(seed, size.grid[0]) for seed in seeds])
    return starts[:, None], forward(starts, size.options["steps"])[:, None]


def swap(inputs: np.ndarray, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The inverse task's view of the data: from w(1) to w(0)."""
    return outputs, inputs


def coarse_forward(inputs: np.ndarray, level: int, size: Scale) -> np.ndarray:
    """Solve with half the points along each axis and half the steps per level; (n, 1, N, N) both."""
    fields = _coarsened(inputs, level, size)
    return resample(forward(fields, _steps(level, size)), size.grid[0])[:, None]


def coarse_inverse(inputs: np.ndarray, level: int, size: Scale) -> np.ndarray:
    """Solve backwards in time, coarsened like the forward solver. Modes that rounding has drowned stay zero."""
    fields = _coarsened(inputs, level, size)
    return resample(backward(fields, _steps(level, size), AMPLIFICATION), size.grid[0])[:, None]


def _coarsened(inputs: np.ndarray, level: int, size: Scale) -> np.ndarray:
    # In float64 even where the data are float32: the transforms must not add rounding errors of their own.
    return resample(np.asarray(inputs[:, 0], dtype=np.float64), size.grid[0] >> level)


def _steps(level: int, size: Scale) -> int:
    return -(-size.options["steps"] >> level)  # rounded up
