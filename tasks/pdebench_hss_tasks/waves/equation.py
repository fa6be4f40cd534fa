"""u_tt = c^2 Lap u on the unit square, u = 0 on its boundary: exact in sines, or by the leapfrog scheme.

Each sine mode is an oscillator with frequency w = pi c |k|, k = 1, 2, ... along each axis:

    b_k(t) = b_k(0) cos(w t) + b_k'(0) sin(w t) / w,        b_k'(t) = b_k'(0) cos(w t) - b_k(0) w sin(w t)

The state is (u, u_t). It starts at rest from a Gaussian field with covariance (1 - length^2 Lap)^-4, mean square 1 and
every mode that the grid can hold. The energy, the sum of b'^2 + w^2 b^2, does not change.

The classical solver of level 1 and more is Verlet's: second differences on the models' grid, or one 2^(level - 1) times
coarser, and steps of h / 2c. It is of second order and gets the speed of short waves wrong.

Grids are those of `poisson.grid`: x_j = j / n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pdebench_hss import Scale

from ..poisson import box

COURANT = 0.5  # c dt / h of the leapfrog scheme, which is stable up to 0.707 in two dimensions


def generate(seeds: Sequence[int], size: Scale, c: float, length: float) -> tuple[np.ndarray, np.ndarray]:
    """States at rest (n, 2, m, m) and the frames after them (n, steps, 2, m, m)."""
    field = random_modes(seeds, size.grid[0], length)
    start = np.stack([field, np.zeros_like(field)], axis=1)  # amplitudes of u and u_t, (n, 2, m - 1, m - 1)
    return _values(start, size.grid), _values(oscillate(start, _times(size), c), size.grid)


def coarse(inputs: np.ndarray, level: int, size: Scale, c: float, length: float) -> np.ndarray:
    """Level 0 is exact; then second differences on the models' grid, on one of half as many points, ..."""
    start = _amplitudes(np.asarray(inputs, dtype=np.float64))
    if level == 0:
        return _values(oscillate(start, _times(size), c), size.grid)
    grid = tuple(n >> (level - 1) for n in size.grid)
    frames = leapfrog(_values(start, grid), size.steps, size.options["frame"], c)
    return _values(_amplitudes(frames), size.grid)


def random_modes(seeds: Sequence[int], n: int, length: float) -> np.ndarray:
    """Amplitudes of starts, ``(samples, n - 1, n - 1)``."""
    k = np.arange(1, n)
    deviation = (1 + (np.pi * length) ** 2 * (k[:, None] ** 2 + k**2)) ** -2.0
    deviation *= 2 / np.sqrt(np.sum(deviation**2))  # mean square 1 on average: that of a sine is 1/2 along each axis
    return deviation * np.stack([np.random.default_rng(seed).standard_normal((n - 1, n - 1)) for seed in seeds])


def oscillate(start: np.ndarray, times: np.ndarray, c: float) -> np.ndarray:
    """Amplitudes of (u, u_t) at the times, ``(n, 2, m, m) -> (n, times, 2, m, m)``."""
    k = np.pi * c * np.arange(1, start.shape[-1] + 1)
    w = np.hypot(k[:, None], k)  # (m, m)
    cosine, sine = (turn(np.multiply.outer(times, w)) for turn in (np.cos, np.sin))  # (times, m, m)
    u, velocity = start[:, None, 0], start[:, None, 1]
    return np.stack([u * cosine + velocity * sine / w, velocity * cosine - u * w * sine], axis=2)


def leapfrog(state: np.ndarray, frames: int, frame: float, c: float) -> np.ndarray:
    """Verlet's scheme on the grid of the state, ``(n, 2, m, m) -> (n, frames, 2, m, m)``."""
    intervals = state.shape[-1]
    steps = max(1, math.ceil(abs(c) * frame * intervals / COURANT))
    dt = frame / steps
    u, velocity = state[:, 0].copy(), state[:, 1].copy()
    seen = np.empty((len(state), frames, *state.shape[1:]))
    for index in range(frames):
        for _ in range(steps):
            velocity += dt / 2 * c**2 * second_difference(u)
            u += dt * velocity
            velocity += dt / 2 * c**2 * second_difference(u)
        seen[:, index, 0], seen[:, index, 1] = u, velocity
    return seen


def second_difference(u: np.ndarray) -> np.ndarray:
    """The five-point Laplacian with u = 0 on all sides, ``(n, m, m)``; zero where the boundary is on the grid."""
    padded = np.pad(u, ((0, 0), (0, 1), (0, 1)))  # x = 1 and y = 1 are one spacing beyond the grid
    inner = padded[:, 1:-1, 1:-1]
    sides = padded[:, 2:, 1:-1] + padded[:, :-2, 1:-1] + padded[:, 1:-1, 2:] + padded[:, 1:-1, :-2]
    result = np.zeros_like(u)
    result[:, 1:, 1:] = (sides - 4 * inner) * u.shape[-1] ** 2
    return result


def _times(size: Scale) -> np.ndarray:
    return size.options["frame"] * np.arange(1, size.steps + 1)


def _values(amplitudes: np.ndarray, grid: Sequence[int]) -> np.ndarray:
    """Fields of sine series, ``(..., m, m) -> (..., *grid)``."""
    leading = amplitudes.shape[:-2]
    return box.synthesize(amplitudes.reshape(-1, *amplitudes.shape[-2:]), grid).reshape(*leading, *grid)


def _amplitudes(fields: np.ndarray) -> np.ndarray:
    """Sine series of fields, ``(..., n, n) -> (..., n - 1, n - 1)``."""
    leading = fields.shape[:-2]
    found = box.analyze(fields.reshape(-1, *fields.shape[-2:]))
    return found.reshape(*leading, *found.shape[1:])
