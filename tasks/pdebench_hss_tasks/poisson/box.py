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
from scipy.fft import dstn


def synthesize(coefficients: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Sum of a_k sin(k pi x) over all modes: ``(samples, *modes) -> (samples, *shape)``; a[0] belongs to k = 1.

    Modes that the grid can't hold (k >= n) are left out.
    """
    padded = np.zeros((len(coefficients), *(n - 1 for n in shape)))
    kept = tuple(slice(min(m, n - 1)) for m, n in zip(coefficients.shape[1:], shape))
    padded[(slice(None), *kept)] = coefficients[(slice(None), *kept)]
    return _with_boundary(_sine_transform(padded))


def analyze(fields: np.ndarray) -> np.ndarray:
    """The sine coefficients of fields that vanish on the boundary: ``(samples, *shape) -> (samples, *(shape - 1))``."""
    shape = fields.shape[1:]
    interior = fields[(slice(None), *(slice(1, None),) * len(shape))]
    return _sine_transform(interior) * (2.0 ** len(shape) / np.prod(shape))


def resample(fields: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Sine interpolation to a finer grid, or truncation to a coarser one."""
    return synthesize(analyze(fields), shape)


def solve(forcing: np.ndarray) -> np.ndarray:
    """u with L u = R f on the forcing's own grid."""
    shape = forcing.shape[1:]
    return synthesize(analyze(forcing) * inverse_symbol(shape), shape)


def inverse_symbol(shape: Sequence[int]) -> np.ndarray:
    """R / L for every sine mode: what the discrete solution operator multiplies it with."""
    n, dim = shape[0], len(shape)
    if any(m != n for m in shape):
        raise ValueError(f"the stencils need one spacing: grid {tuple(shape)} must have as many points on each axis")
    if dim not in (1, 2, 3):
        raise ValueError(f"there are stencils in 1, 2 and 3 dimensions, not in {dim}")
    lam = 2 - 2 * np.cos(np.pi * np.arange(1, n) / n)
    if dim == 1:
        return 1 / (n**2 * (lam + lam**2 / 12))
    lams = np.meshgrid(*(lam,) * dim, indexing="ij", sparse=True)
    total = sum(lams)
    cross = sum(a * b for a, b in combinations(lams, 2))
    return (1 - total / 12) / (n**2 * (total - cross / 6))


def _sine_transform(values: np.ndarray) -> np.ndarray:
    """sum_k a_k sin(pi j k / n) along every axis but the first."""
    axes = tuple(range(1, values.ndim))
    return dstn(values, type=1, axes=axes) / 2.0 ** len(axes)


def _with_boundary(interior: np.ndarray) -> np.ndarray:
    """Put the zero values at index 0 of each axis back: ``(samples, *(shape - 1)) -> (samples, *shape)``."""
    full = np.zeros((len(interior), *(m + 1 for m in interior.shape[1:])))
    full[(slice(None), *(slice(1, None),) * (interior.ndim - 1))] = interior
    return full
