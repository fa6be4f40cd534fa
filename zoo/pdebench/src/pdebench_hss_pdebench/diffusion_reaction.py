"""PDEBench's 2D diffusion-reaction (FitzHugh-Nagumo) on [-1, 1]^2 without flow through the boundary:

    u_t = D_u Lap u + u - u^3 - k - v,    v_t = D_v Lap v + u - v,    D_u = 0.001, D_v = 0.005, k = 0.005

Strang splitting: half a step of reaction (classical Runge-Kutta), a step of diffusion (exact for the discrete
Laplacian, which is diagonal in the cosine basis), half a step of reaction. Starts are white noise,
N(0, 1) in every cell.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.fft import dctn, idctn

from pdebench_hss import Scale

D_U, D_V, K = 1e-3, 5e-3, 5e-3
FIRST, STEP = 0.5, 0.5  # time of the frame that models start from; time between frames
DT = 0.01
FINEST = 128  # points of the files; coarser grids are solved on twice their points


def generate(seeds: Sequence[int], size: Scale) -> tuple[np.ndarray, np.ndarray]:
    """(u, v) at t = 0.5, (n, 2, points, points), and the steps after it, (n, steps, 2, points, points)."""
    points = min(2 * size.grid[0], FINEST)
    stride = points // size.grid[0]
    frames = np.stack([trajectory(start(seed, points), size.steps) for seed in seeds])
    frames = frames[..., ::stride, ::stride]
    return frames[:, 0], frames[:, 1:]


def start(seed: int, points: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((2, points, points))


def trajectory(state: np.ndarray, steps: int, dt: float = DT) -> np.ndarray:
    """Frames at 0.5, 1.0, ..., (steps + 1, 2, points, points)."""
    decay = diffusion_factors(state.shape[-1], dt)
    frames = []
    for length in [FIRST] + [STEP] * steps:
        for _ in range(round(length / dt)):
            state = react(state, dt / 2)
            state = idctn(decay * dctn(state, axes=(1, 2)), axes=(1, 2))
            state = react(state, dt / 2)
        frames.append(state)
    return np.stack(frames)


def diffusion_factors(points: int, dt: float) -> np.ndarray:
    """exp(D lambda dt) for every cosine mode of the five-point Laplacian, (2, points, points)."""
    h = 2 / points
    along = (2 * np.cos(np.pi * np.arange(points) / points) - 2) / h**2
    laplacian = along[:, None] + along
    return np.exp(np.array([D_U, D_V])[:, None, None] * laplacian * dt)


def react(state: np.ndarray, dt: float) -> np.ndarray:
    def slope(y: np.ndarray) -> np.ndarray:
        u, v = y
        return np.stack([u - u**3 - K - v, u - v])

    a = slope(state)
    b = slope(state + dt / 2 * a)
    c = slope(state + dt / 2 * b)
    d = slope(state + dt * c)
    return state + dt / 6 * (a + 2 * b + 2 * c + d)
