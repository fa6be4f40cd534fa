"""The random permeability of Li et al. (2021, "Darcy flow"), constant on each cell of a grid.

A Gaussian field g ~ N(0, (-Lap + 9)^-2) on the unit square, Lap with zero Neumann conditions, in its eigenfunctions

    g(x) = sum_{k != 0} 3 / (pi^2 |k|^2 + 9) xi_k phi_k(x),   xi_k ~ N(0, 1),
    phi_k(x) = c_k cos(k_1 pi x_1) cos(k_2 pi x_2)   with mean square 1,

the factor 3 = tau^(alpha - 1) being that of the published generator (alpha = 2, tau = 3). Then a = 12 where g > 0 and 3
elsewhere, or a = exp(g).

A sample draws `MODES`^2 numbers whatever the grid is, so that a seed is one field, seen at any resolution; a grid of
n x n cells holds the modes below n.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.fft import idctn

MODES = 128
HIGH, LOW = 12.0, 3.0


def permeability(seeds: Sequence[int], cells: int, lognormal: bool) -> np.ndarray:
    """a at the centres of the cells, ``(samples, cells, cells)``."""
    field = gaussian_field(seeds, cells)
    return np.exp(field) if lognormal else np.where(field > 0, HIGH, LOW)


def gaussian_field(seeds: Sequence[int], cells: int) -> np.ndarray:
    """g at the centres of the cells, ``(samples, cells, cells)``."""
    kept = min(MODES, cells)
    k = np.arange(kept)
    deviation = 3 / (np.pi**2 * (k[:, None] ** 2 + k**2) + 9)  # (kept, kept)
    deviation[0, 0] = 0  # zero mean
    spectrum = np.zeros((len(seeds), cells, cells))
    for sample, seed in zip(spectrum, seeds, strict=True):
        noise = np.random.default_rng(seed).standard_normal((MODES, MODES))
        sample[:kept, :kept] = deviation * noise[:kept, :kept]
    # An orthonormal transform gives phi_k / cells in each mode.
    return cells * idctn(spectrum, type=2, axes=(1, 2), norm="ortho")
