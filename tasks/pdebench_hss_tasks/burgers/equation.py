"""Burgers' equation (Neural-HSS, "Data Specification", Burgers Equation; beta: "Additional Experiments on Burgers'").

    u_t + beta u u_x = nu u_xx on (0, 1),   u(0, t) = u(1, t) = 0,   nu = 0.001
    u(x, 0) = sum_{k=1}^{10} c_k sin(2 pi (k + 1) x),   c_k ~ U(-1, 1),   scaled so that max |u(x, 0)| = 1

Grid: x_i = i / n, i = 0 ... n - 1, "[0, 1) with Dirichlet conditions": the left end is the first point, the right end
(i = n) is known to be zero and is not stored. Solved on `points` such points and taken at every (points / n)-th.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pdebench_hss import Scale

from ..heat.sine import amplitudes, values
from .solver import march

MODES = 10
BLOCK = 16  # trajectories marched together: their work arrays fit in a core's cache


def coords(grid: tuple[int, ...]) -> np.ndarray:
    """x_i = i / n, (1, n): without the right end."""
    return np.arange(grid[0])[None] / grid[0]


def initial_modes(seed: int, points: int) -> np.ndarray:
    """Amplitudes of sin(k pi x), k = 1 ... 22, of one start with maximum modulus 1 on the grid of the solve."""
    modes = np.zeros(2 * (MODES + 1))
    modes[3::2] = np.random.default_rng(seed).uniform(-1, 1, MODES)  # k = 4, 6, ... 22
    return modes / np.abs(values(modes, points)).max()


def generate(seeds: Sequence[int], size: Scale, beta: float) -> tuple[np.ndarray, np.ndarray]:
    """Starts (n, 1, grid) and the frames after them (n, steps, 1, grid)."""
    points = size.options["points"]
    modes = np.stack([initial_modes(seed, points) for seed in seeds])  # (n, 22)
    inputs = _with_left_end(values(modes, size.grid[0]))[:, None]
    return inputs, solve(modes, points, size, beta)


def coarse(inputs: np.ndarray, level: int, size: Scale, beta: float) -> np.ndarray:
    """The same scheme with half the points, and so half the steps, per level: (n, 1, grid) -> (n, steps, 1, grid)."""
    modes = amplitudes(np.asarray(inputs, dtype=np.float64)[:, 0, 1:])
    return solve(modes, size.options["points"] >> level, size, beta)


def solve(modes: np.ndarray, points: int, size: Scale, beta: float) -> np.ndarray:
    """March starts given by their amplitudes on a grid of `points`; frames on the task's, (n, steps, 1, grid)."""
    frame = size.options["frame"] * size.options["stride"]
    outputs = np.empty((len(modes), size.steps, 1, size.grid[0]))
    for first in range(0, len(modes), BLOCK):
        block = slice(first, first + BLOCK)
        starts = values(modes[block], points)  # (block, points - 1)
        for index, frame_values in enumerate(march(starts, size.steps, frame, beta)):
            outputs[block, index, 0] = _with_left_end(_regrid(frame_values, size.grid[0]))
    return outputs


def _regrid(interior: np.ndarray, intervals: int) -> np.ndarray:
    """Interior values on a coarser grid that is part of this one, or on a finer one by the sine series."""
    if (interior.shape[-1] + 1) % intervals == 0:
        stride = (interior.shape[-1] + 1) // intervals
        return interior[..., stride - 1 :: stride]
    return values(amplitudes(interior), intervals)


def _with_left_end(interior: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros_like(interior[..., :1]), interior], axis=-1)
