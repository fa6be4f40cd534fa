"""-Lap u - kappa^2 u = f on the periodic unit square, in Fourier space.

The paper gives the forcing (that of the 2D Poisson task), the grid and kappa = 70, not the scheme. Every operator
here is diagonal in the Fourier basis exp(2 pi i k.x):

    spectral (the data)       4 pi^2 (kx^2 + ky^2) - kappa^2,   exact for a forcing with wave numbers below n / 2
    nine points (`coarse`)    n^2 (lx + ly - lx ly / 6) - kappa^2 R,   R = 1 - (lx + ly) / 12,   on R f,
                              with lam_k = 2 - 2 cos(2 pi k / n): the Poisson tasks' fourth-order stencil

kappa^2 = 4900 = 4 pi^2 * 124.1 lies just below the eigenvalue 4 pi^2 * 125 of the modes (10, 5) and (5, 10). They are
divided by 34.8, every other mode of the forcing by 153 or more, so these two dominate u; and a coarse grid that moves
this one eigenvalue a little gets u wrong by a lot. That is the problem, not a mistake.

The grid is that of the Poisson tasks, x_j = j / n, j = 0..n-1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.fft import fft2, fftfreq, ifft2

from pdebench_hss import Scale

from ..poisson import box, forcing
from ..poisson.grid import coarse_shape, restrict, solve_shape


def generate(
    seeds: Sequence[int], size: Scale, kappa: float = 70.0, drawn: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """f and u, each ``(samples, 1, n, n)``."""
    f = box.synthesize(forcing.square(seeds, size.options["modes"], drawn), solve_shape(size))
    u = apply(inverse_spectral(f.shape[1], kappa), f)
    return restrict(f, size.grid)[:, None], restrict(u, size.grid)[:, None]


def coarse(inputs: np.ndarray, level: int, size: Scale, kappa: float = 70.0, drawn: bool = False) -> np.ndarray:
    """Level 0 is the spectral solve; level 1 the nine-point stencil at the same resolution, then half of it, ..."""
    f = resample(inputs[:, 0], coarse_shape(size, max(level - 1, 0)))
    inverse = inverse_nine_point if level else inverse_spectral
    u = apply(inverse(f.shape[1], kappa), f)
    return (restrict(u, size.grid) if u.shape[1] >= size.grid[0] else resample(u, size.grid))[:, None]


def residual(
    inputs: np.ndarray, outputs: np.ndarray, size: Scale, kappa: float = 70.0, drawn: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """-Lap u - kappa^2 u - f on the models' grid, exact for what it can hold; and f, each ``(n, *grid)``."""
    f, u = inputs[:, 0], outputs[:, 0]
    return apply(spectral_symbol(size.grid[0], kappa), u) - f, f


def apply(multiplier: np.ndarray, fields: np.ndarray) -> np.ndarray:
    """Multiply each Fourier mode: ``(samples, n, n) -> (samples, n, n)``."""
    return ifft2(multiplier * fft2(fields)).real


def inverse_spectral(n: int, kappa: float) -> np.ndarray:
    """1 / (4 pi^2 |k|^2 - kappa^2), shape ``(n, n)``."""
    return _inverse(spectral_symbol(n, kappa), n, kappa)


def spectral_symbol(n: int, kappa: float) -> np.ndarray:
    """4 pi^2 |k|^2 - kappa^2, shape ``(n, n)``."""
    eigenvalue = (2 * np.pi * n * fftfreq(n)) ** 2
    return eigenvalue[:, None] + eigenvalue[None, :] - kappa**2


def inverse_nine_point(n: int, kappa: float) -> np.ndarray:
    """R / (n^2 L - kappa^2 R), shape ``(n, n)``."""
    lam = 2 - 2 * np.cos(2 * np.pi * fftfreq(n))
    lx, ly = lam[:, None], lam[None, :]
    right = 1 - (lx + ly) / 12
    return right * _inverse(n**2 * (lx + ly - lx * ly / 6) - kappa**2 * right, n, kappa)


def resample(fields: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Fourier interpolation to a finer grid or truncation to a coarser one: wave numbers below half the smaller n."""
    old, new = fields.shape[1], shape[0]
    highest = (min(old, new) - 1) // 2
    kept = np.arange(-highest, highest + 1)  # negative indices are negative wave numbers in the order of fft
    spectrum = np.zeros((len(fields), *shape), complex)
    spectrum[:, kept[:, None], kept] = fft2(fields)[:, kept[:, None], kept]
    return ifft2(spectrum).real * (new / old) ** 2


def _inverse(symbol: np.ndarray, n: int, kappa: float) -> np.ndarray:
    """1 / symbol, refusing a resonance."""
    if np.abs(symbol).min() < 1e-6:
        raise ValueError(f"kappa={kappa} is an eigenvalue on {n} x {n} points: no solution. Choose another kappa")
    return 1 / symbol
