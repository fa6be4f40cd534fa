"""-u'' = f on (0, 1) with u'(0) = u'(1) = 0.

The five-band stencil of the Dirichlet task on the points x_j = j / n, j = 0..n, continued over the ends by symmetry,
u(-x) = u(x). That mirror image is smooth to third order only: u''' jumps by -2 f'(0). Taylor's formula gives the true
values u(-h) = u(h) + h^3/3 f'(0) and u(-2h) = u(2h) + 8 h^3/3 f'(0); brought to the right-hand side they are

    + 2/9 h f'(0) at x_0        - 1/36 h f'(0) at x_1        (and mirrored, with -f'(1), at the other end)

without which the scheme would be of second order. The symmetric stencil is diagonal in the cosine basis
cos(pi k j / n), with the same symbol lam + lam^2 / 12. It is singular: constants solve it, and the right-hand
side must have mean zero in the trapezoidal rule. The paper is silent on both. f = sum c_k sin(2 pi k x) is mean-free
by itself, what rounding leaves is removed, and u is the solution with mean zero.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.fft import dct

from pdebench_hss import Scale

from . import box, forcing
from .grid import coarse_shape, restrict, solve_shape

ONE_SIDED = np.array([-25, 48, -36, 16, -3]) / 12  # h f'(0) from f(0), f(h), .. f(4h), fourth order


def generate(seeds: Sequence[int], size: Scale) -> tuple[np.ndarray, np.ndarray]:
    """f and u, each ``(samples, 1, n)``."""
    coefficients = forcing.full_sum(seeds, dim=1, terms=size.options["modes"], factor=2)
    f = box.synthesize(coefficients, solve_shape(size))
    u = solve(_both_ends(f))[:, :-1]
    return restrict(f, size.grid)[:, None], restrict(u, size.grid)[:, None]


def coarse(inputs: np.ndarray, level: int, size: Scale) -> np.ndarray:
    """The same scheme on a grid 2**level times coarser; f moves as a sine series, u as a cosine series."""
    f = box.resample(inputs[:, 0], coarse_shape(size, level))
    u = solve(_both_ends(f))  # (samples, n + 1)
    if u.shape[1] - 1 < size.grid[0]:
        u = resample(u, size.grid[0])
    return restrict(u[:, :-1], size.grid)[:, None]


def solve(forcing: np.ndarray) -> np.ndarray:
    """Mean-free u from f on all points, both ends among them: ``(samples, n + 1) -> (samples, n + 1)``."""
    n = forcing.shape[1] - 1
    if n < len(ONE_SIDED):
        raise ValueError(f"{n} intervals are too few for the five-point stencil: at least {len(ONE_SIDED)}")
    rhs = forcing.copy()
    for f, side in ((forcing, rhs), (forcing[:, ::-1], rhs[:, ::-1])):  # seen from the left, then from the right end
        step = (f[:, : len(ONE_SIDED)] * ONE_SIDED).sum(axis=1)  # h f'(0), then -h f'(1)
        side[:, 0] += 2 / 9 * step
        side[:, 1] -= 1 / 36 * step
    lam = 2 - 2 * np.cos(np.pi * np.arange(1, n + 1) / n)
    coefficients = dct(rhs, type=1)
    coefficients[:, 0] = 0.0  # the mean: of the right-hand side, which must have none, and of u
    coefficients[:, 1:] /= n**2 * (lam + lam**2 / 12)
    return dct(coefficients, type=1) / (2 * n)


def resample(u: np.ndarray, n: int) -> np.ndarray:
    """Cosine interpolation from ``(samples, m + 1)`` to ``(samples, n + 1)`` points, n > m."""
    m = u.shape[1] - 1
    coefficients = np.zeros((len(u), n + 1))
    coefficients[:, : m + 1] = dct(u, type=1) / (2 * m)
    coefficients[:, m] /= 2  # the highest mode of the coarse grid is counted once, not twice
    return dct(coefficients, type=1)


def _both_ends(f: np.ndarray) -> np.ndarray:
    """Add the right end, where the forcing of this task is zero: ``(samples, n) -> (samples, n + 1)``."""
    return np.pad(f, [(0, 0), (0, 1)])
