"""Advection on a circle, u(x, t) = u_0(x - beta t), with PDEBench's most common starts:

    u_0 = sum of two waves A sin(2 pi n x + phase),   A ~ U(0, 1),  n ~ U{1..8},  phase ~ U(0, 2 pi)

(The files also hold starts under an absolute value or a window, a tenth of them each.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pdebench_hss import Scale

WAVES, LARGEST_NUMBER = 2, 8
FRAME = 0.01  # time between frames of a file


def generate(seeds: Sequence[int], size: Scale, beta: float) -> tuple[np.ndarray, np.ndarray]:
    """u(0), (n, 1, points), and the steps after it, (n, steps, 1, points)."""
    times = FRAME * size.options["stride"] * np.arange(size.steps + 1)
    frames = np.stack([trajectory(seed, size.grid[0], times, beta) for seed in seeds])[:, :, None]
    return frames[:, 0], frames[:, 1:]


def trajectory(seed: int, points: int, times: np.ndarray, beta: float) -> np.ndarray:
    """One solution at cell centres, (times, points)."""
    rng = np.random.default_rng(seed)
    amplitude, phase = rng.uniform(0, 1, WAVES), rng.uniform(0, 2 * np.pi, WAVES)
    number = rng.integers(1, LARGEST_NUMBER + 1, WAVES)
    x = (np.arange(points) + 0.5) / points
    moved = x - beta * times[:, None]  # (times, points)
    return np.einsum("w,wtx->tx", amplitude, np.sin(2 * np.pi * number[:, None, None] * moved + phase[:, None, None]))
