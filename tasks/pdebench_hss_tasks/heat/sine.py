"""The sine basis on [0, 1]: where functions that vanish at both ends, and second differences, are simple.

On the grid x_i = i / m, i = 0 ... m, a function with u_0 = u_m = 0 is one sum of m - 1 sines,

    u_i = sum_{k=1}^{m-1} b_k sin(k pi x_i),

and each sine is an eigenvector of the second difference (u_{i-1} - 2 u_i + u_{i+1}) / h^2, h = 1 / m, with
eigenvalue -lam_k, lam_k = (2 - 2 cos(k pi / m)) / h^2. The amplitudes b_k do not depend on the grid, so they
also carry a function from one grid to another.
"""

from __future__ import annotations

import numpy as np
from scipy.fft import dst


def amplitudes(interior: np.ndarray) -> np.ndarray:
    """b_1 ... b_{m-1} of the values at x_1 ... x_{m-1} (last axis)."""
    return dst(interior, type=1) / (interior.shape[-1] + 1)


def values(modes: np.ndarray, intervals: int) -> np.ndarray:
    """The sine series at the interior points of a grid of so many intervals; modes it can't hold are dropped."""
    fitted = np.zeros((*modes.shape[:-1], intervals - 1))
    kept = min(modes.shape[-1], intervals - 1)
    fitted[..., :kept] = modes[..., :kept]
    return dst(fitted, type=1, overwrite_x=True) / 2


def second_difference(intervals: int, count: int) -> np.ndarray:
    """lam_1 ... lam_count of minus the second difference on a grid of so many intervals."""
    k = np.arange(1, count + 1)
    return (2 - 2 * np.cos(np.pi * k / intervals)) * intervals**2
