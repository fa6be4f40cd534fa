"""Poisson's equation -Lap u = f on the unit interval, square and cube with u = 0 on the boundary.

The paper ("Data Specification", Poisson) discretises with a fourth-order stencil and hands the sparse system to a
direct solver. With zero boundary values each of these stencils is diagonal in the sine basis sin(pi k j / n), so one
sine transform, a division and one transform back solve the very same system. With lam_k = 2 - 2 cos(pi k / n):

    1D  five diagonals   h^2 L = lam + lam^2 / 12                                   L u = f
    2D  nine points      h^2 L = lx + ly - lx ly / 6                                L u = (1 - (lx + ly) / 12) f
    3D  nineteen points  h^2 L = lx + ly + lz - (lx ly + ly lz + lx lz) / 6         L u = (1 - (lx + ly + lz) / 12) f

The right-hand factor 1 + h^2/12 Lap_h ("Mehrstellen") is what makes the compact stencils fourth order. The 1D stencil
reaches one point over the edge; there u continues as an odd function, u(-h) = -u(h).
f must vanish on the boundary, as every forcing of the paper does.

Fields are ``(samples, *shape)`` on the grid of `grid.py`: index 0 of an axis is the boundary.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from scipy.fft import dst


def synthesize(coefficients: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Sum of a_k sin(k pi x) over all modes: ``(samples, *modes) -> (samples, *shape)``; a[0] belongs to k = 1.

    Modes that the grid can't hold (k >= n) are left out. Going axis by axis, most lines of a short series are never
    transformed: only the last axis costs a whole transform.
    """
    values = coefficients
    for axis, n in enumerate(shape, start=1):
        kept = min(values.shape[axis], n - 1)
        values = _sines(np.take(values, range(kept), axis), axis, length=n - 1)
    return np.pad(values, [(0, 0)] + [(1, 0)] * len(shape))  # the zero boundary values at index 0


def analyze(fields: np.ndarray) -> np.ndarray:
    """The sine coefficients of fields that vanish on the boundary: ``(samples, *shape) -> (samples, *(shape - 1))``."""
    shape = fields.shape[1:]
    interior = (slice(None), *(slice(1, None) for _ in shape))
    values = fields[interior]
    for axis, n in enumerate(shape, start=1):
        values = _sines(values, axis, length=n - 1)
    return values * (2.0 ** len(shape) / np.prod(shape))


def resample(fields: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Sine interpolation to a finer grid, or truncation to a coarser one."""
    return synthesize(analyze(fields), shape)


def solve(forcing: np.ndarray) -> np.ndarray:
    """u with L u = R f on the forcing's own grid."""
    return solve_series(analyze(forcing), forcing.shape[1:])


def solve_series(coefficients: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """The same u, from the sine coefficients of f: ``(samples, *modes) -> (samples, *shape)``."""
    kept = (slice(None), *(slice(n - 1) for n in shape))
    coefficients = coefficients[kept]
    return synthesize(coefficients * inverse_symbol(coefficients.shape[1:], shape), shape)


def inverse_symbol(modes: Sequence[int], shape: Sequence[int]) -> np.ndarray:
    """R / L of the first modes: what the discrete solution operator on the grid ``shape`` multiplies them with."""
    n, dim = shape[0], len(shape)
    if any(m != n for m in shape):
        raise ValueError(f"the stencils need one spacing: grid {tuple(shape)} must have as many points on each axis")
    if dim not in (1, 2, 3):
        raise ValueError(f"there are stencils in 1, 2 and 3 dimensions, not in {dim}")
    along = [2 - 2 * np.cos(np.pi * np.arange(1, m + 1) / n) for m in modes]
    lams = np.meshgrid(*along, indexing="ij", sparse=True)
    total = np.asarray(sum(lams))
    if dim == 1:
        return 1 / (n**2 * (total + total**2 / 12))
    cross = np.asarray(sum(a * b for a, b in combinations(lams, 2)))
    return (1 - total / 12) / (n**2 * (total - cross / 6))


def _sines(values: np.ndarray, axis: int, length: int) -> np.ndarray:
    """sum_k a_k sin(pi j k / n) along one axis for j = 1..n-1, n = length + 1; missing coefficients are zero."""
    return dst(values, type=1, n=length, axis=axis) / 2
