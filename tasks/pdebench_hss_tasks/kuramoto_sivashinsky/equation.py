"""u_t + u u_x + u_xx + u_xxxx = 0 on a circle of length 48: Fourier in space, ETDRK4 in time.

With q = 2 pi k / 48 a Fourier coefficient obeys

    v_t = (q^2 - q^4) v - (i q / 2) F(u^2),

so waves longer than 2 pi grow, shorter ones decay, and the quadratic term carries energy from the ones to the others:
after a transient u is of order one and chaotic. The linear part is stiff and diagonal, which is what the scheme of Cox
and Matthews is for (`gray_scott.etdrk4` has it with its coefficients). The product is free of aliases by the 2/3 rule,
also for the state: modes with |k| >= n / 3 are zero.

Starts: ten sines with amplitudes U(-1/2, 1/2), one to six waves around the circle and random phases, marched for
``warm_up`` frames to the attractor. What is stored is solved on the models' own grid. 128 points resolve the solution:
the greatest kept mode is 1e-7 of the greatest one, see docs/tasks.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.fft import irfft, rfft

from pdebench_hss import Scale

from ..advection.fourier import resample
from ..gray_scott.etdrk4 import scheme

LENGTH = 48.0
TERMS, WAVES = 10, 6


def generate(seeds: Sequence[int], size: Scale) -> tuple[np.ndarray, np.ndarray]:
    """States on the attractor (n, 1, grid) and the frames after them (n, steps, 1, grid)."""
    points, options = size.grid[0], size.options
    starts = np.stack([initial(seed, points) for seed in seeds])
    frames = march(starts, options["warm_up"] + size.steps, options["frame"], options["substeps"])
    seen = frames[:, options["warm_up"] - 1 :, None]  # (n, 1 + steps, 1, grid)
    return seen[:, 0], seen[:, 1:]


def coarse(inputs: np.ndarray, level: int, size: Scale) -> np.ndarray:
    """Half of the points and half of the steps per level: (n, 1, grid) -> (n, steps, 1, grid)."""
    points = size.grid[0]
    starts = resample(np.asarray(inputs, dtype=np.float64)[:, 0], points >> level)
    substeps = max(1, size.options["substeps"] >> level)
    return resample(march(starts, size.steps, size.options["frame"], substeps), points)[:, :, None]


def initial(seed: int, points: int) -> np.ndarray:
    """Ten sines, (points,)."""
    generator = np.random.default_rng(seed)
    amplitude = generator.uniform(-0.5, 0.5, TERMS)
    waves = generator.integers(1, WAVES + 1, TERMS)
    phase = generator.uniform(0, 2 * np.pi, TERMS)
    x = 2 * np.pi * np.arange(points) / points
    return amplitude @ np.sin(waves[:, None] * x + phase[:, None])


def march(starts: np.ndarray, frames: int, frame: float, substeps: int) -> np.ndarray:
    """The frames after the starts, (n, points) -> (n, frames, points)."""
    points = starts.shape[1]
    half, full, q, f1, f2, f3 = coefficients(points, frame / substeps)
    factor = _nonlinear(points)

    def change(v: np.ndarray) -> np.ndarray:
        u = irfft(v, n=points)
        u *= u
        return factor * rfft(u)

    v = rfft(starts) * kept(points)
    seen = np.empty((len(starts), frames, points))
    for index in range(frames):
        for _ in range(substeps):
            now = change(v)
            decayed = half * v
            a = decayed + q * now
            at_a = change(a)
            at_b = change(decayed + q * at_a)
            at_c = change(half * a + q * (2 * at_b - now))
            v = full * v + f1 * now + f2 * (at_a + at_b) + f3 * at_c
        seen[:, index] = irfft(v, n=points)
    return seen


@lru_cache(maxsize=8)
def coefficients(points: int, dt: float) -> tuple[np.ndarray, ...]:
    """E', E, Q, F1, 2 F2 and F3 of the scheme, (points // 2 + 1,) each."""
    q = wave_numbers(points)
    return tuple(scheme(q**2 - q**4, dt))


def wave_numbers(points: int) -> np.ndarray:
    return 2 * np.pi / LENGTH * np.arange(points // 2 + 1)


def kept(points: int) -> np.ndarray:
    """Which modes the 2/3 rule keeps."""
    return np.arange(points // 2 + 1) < points / 3


def _nonlinear(points: int) -> np.ndarray:
    """-i q / 2 of the modes that are kept."""
    return -0.5j * wave_numbers(points) * kept(points)
