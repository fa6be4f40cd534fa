"""u_t + c u_x = 0 on a circle of length 1: u(x, t) = u(x - c t, 0).

The start is a Gaussian field with covariance (1 - length^2 d^2/dx^2)^-2, mean square 1 and zero mean. It has every
Fourier mode that the grid can hold but the one of half a wave per point. A shift turns each mode by exp(-2 pi i k c t),
so it is exact, also where c t is no multiple of the spacing.

The classical solver of level 1 and more is Lax and Wendroff's,

    u_i <- u_i - s/2 (u_{i+1} - u_{i-1}) + s^2/2 (u_{i+1} - 2 u_i + u_{i-1}),   s = c dt / h, |s| <= 0.8,

of second order: on the models' grid, then on grids of half as many points per level.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.fft import irfft, rfft

from pdebench_hss import Scale

from .fourier import resample

COURANT = 0.8  # at 1 the scheme would be exact by accident


def generate(seeds: Sequence[int], size: Scale, c: float, length: float) -> tuple[np.ndarray, np.ndarray]:
    """Starts (n, 1, grid) and the frames after them (n, steps, 1, grid)."""
    start = np.stack([random_field(seed, size.grid[0], length) for seed in seeds])
    return start[:, None], shifted(start, c * _times(size))[:, :, None]


def coarse(inputs: np.ndarray, level: int, size: Scale, c: float, length: float) -> np.ndarray:
    """Level 0 is exact; then Lax-Wendroff on the models' grid, on one of half as many points, ..."""
    start = np.asarray(inputs, dtype=np.float64)[:, 0]
    if level == 0:
        return shifted(start, c * _times(size))[:, :, None]
    points = size.grid[0] >> (level - 1)
    frames = lax_wendroff(resample(start, points), size.steps, size.options["frame"], c)
    return resample(frames, size.grid[0])[:, :, None]


def random_field(seed: int, points: int, length: float) -> np.ndarray:
    """One start, (points,)."""
    k = np.arange(1, points // 2)
    deviation = 1 / (1 + (2 * np.pi * length * k) ** 2)
    deviation *= points / (2 * np.sqrt(np.sum(deviation**2)))  # mean square 1 on average
    real, imaginary = np.random.default_rng(seed).standard_normal((2, len(k)))
    spectrum = np.zeros(points // 2 + 1, complex)
    spectrum[1:-1] = deviation * (real + 1j * imaginary)
    return irfft(spectrum, n=points)


def shifted(start: np.ndarray, distances: np.ndarray) -> np.ndarray:
    """Moved to the right by each distance, (n, points) -> (n, distances, points)."""
    points = start.shape[-1]
    turn = np.exp(-2j * np.pi * np.multiply.outer(distances, np.arange(points // 2 + 1)))
    return irfft(rfft(start)[:, None] * turn, n=points)


def lax_wendroff(start: np.ndarray, frames: int, frame: float, c: float) -> np.ndarray:
    """(n, points) -> (n, frames, points)."""
    points = start.shape[-1]
    steps = max(1, math.ceil(abs(c) * frame * points / COURANT))
    s = c * frame * points / steps
    seen, u = np.empty((len(start), frames, points)), start
    for index in range(frames):
        for _ in range(steps):
            right, left = np.roll(u, -1, axis=-1), np.roll(u, 1, axis=-1)
            u = u - s / 2 * (right - left) + s**2 / 2 * (right - 2 * u + left)
        seen[:, index] = u
    return seen


def _times(size: Scale) -> np.ndarray:
    return size.options["frame"] * np.arange(1, size.steps + 1)
