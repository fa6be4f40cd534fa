"""Two-dimensional incompressible flow in vorticity form on the unit torus, pseudo-spectral.

    w_t + v . grad w = nu Lap w + q,   v = (psi_y, -psi_x),   -Lap psi = w
    nu = 0.001,   q = 0.1 (sin 2 pi (x + y) + cos 2 pi (x + y))

Space: Fourier. The curl of div (v v) needs two transforms each way, where v . grad w needs four and one,

    v . grad w = (d_xx - d_yy)(v1 v2) + d_xy (v2^2 - v1^2),

and the 2/3 rule (|k_x|, |k_y| < n / 3 in the velocities and in the result) keeps the products free of aliases.
Modes of the start beyond it only diffuse.

Time: diffusion is integrated exactly, the rest by the classical Runge-Kutta method (see `burgers.integrating_factor`).
DiffusionPDE's own scheme, Crank-Nicolson with explicit Euler at dt = 1e-4, is in benchmarks/navier_stokes.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.fft import irfft2, rfft2

from ..burgers.integrating_factor import step
from .spectral import squared, wave_numbers

VISCOSITY = 1e-3
FORCING = 0.1
DURATION = 1.0
BLOCK = 8  # fields marched together: enough to keep numpy busy, few enough to stay in the cache


def forward(fields: np.ndarray, steps: int) -> np.ndarray:
    """Vorticity one unit of time later, (n, N, N) -> (n, N, N)."""
    n = fields.shape[-1]
    return _march(fields, DURATION / steps, steps, modes=np.ones_like(resolved(n)))


def backward(fields: np.ndarray, steps: int, amplification: float) -> np.ndarray:
    """Vorticity one unit of time earlier, of the modes that come back amplified by at most so much.

    Backwards in time diffusion multiplies mode k, and any error in it, by exp(nu |2 pi k|^2). Modes for which that
    exceeds `amplification`, and those outside the 2/3 rule, are set to zero.
    """
    n = fields.shape[-1]
    recoverable = squared(n) * VISCOSITY * DURATION <= math.log(amplification)
    return _march(fields, -DURATION / steps, steps, modes=recoverable & resolved(n))


def resolved(n: int) -> np.ndarray:
    """The modes that the 2/3 rule keeps, (n, n/2 + 1)."""
    kx, ky = wave_numbers(n)
    limit = 2 * np.pi * n / 3
    return (np.abs(kx) < limit) & (np.abs(ky) < limit)


def tendency(n: int, modes: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """N: coefficients of w -> coefficients of q - v . grad w, velocities and result restricted to `modes`."""
    kx, ky = wave_numbers(n)
    inverse = np.zeros((n, n // 2 + 1))
    np.divide(1, squared(n), out=inverse, where=modes & (squared(n) > 0))
    to_v1, to_v2 = 1j * ky * inverse, -1j * kx * inverse
    of_v1v2 = (kx**2 - ky**2) * modes  # -(d_xx - d_yy)
    of_squares = kx * ky * modes  # -d_xy
    forcing = rfft2(_forcing(n)) * modes

    def apply(w: np.ndarray) -> np.ndarray:
        v1 = irfft2(to_v1 * w, s=(n, n), overwrite_x=True)
        v2 = irfft2(to_v2 * w, s=(n, n), overwrite_x=True)
        change = rfft2(v1 * v2)
        change *= of_v1v2
        v1 *= v1
        v2 *= v2
        v2 -= v1
        squares = rfft2(v2)
        squares *= of_squares
        change += squares
        change += forcing
        return change

    return apply


def _forcing(n: int) -> np.ndarray:
    x = np.arange(n) / n
    phase = 2 * np.pi * (x[:, None] + x)
    return FORCING * (np.sin(phase) + np.cos(phase))


def _march(fields: np.ndarray, dt: float, steps: int, modes: np.ndarray) -> np.ndarray:
    """Take all fields `steps` steps on, block by block; only `modes` of them are kept."""
    n = fields.shape[-1]
    change = tendency(n, modes & resolved(n))
    half = np.exp(-VISCOSITY * squared(n) * modes * dt / 2)
    marched = np.empty(fields.shape)
    for first in range(0, len(fields), BLOCK):
        block = slice(first, first + BLOCK)
        w = rfft2(np.asarray(fields[block], dtype=np.float64)) * modes
        for _ in range(steps):
            w = step(w, change, half, dt)
        marched[block] = irfft2(w, s=(n, n))
    return marched
