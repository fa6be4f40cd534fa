"""-u'' + c u' = f on (0, 1), u(0) = u(1) = 0, by compact differences of fourth order.

With D2 and D1 the central differences of three points, D2 u = u'' + h^2/12 u'''' and D1 u = u' + h^2/6 u''' up to
O(h^4). The equation itself gives the higher derivatives, u''' = c u'' - f' and u'''' = c u''' - f'', so that

    -(1 + c^2 h^2 / 12) D2 u + c D1 u = (1 + h^2/12 (D2 - c D1)) f + O(h^4).

Three diagonals only, so that no row reaches over an end. Both neighbours of a point have negative coefficients,
-(1 + c^2 h^2 / 12) / h^2 +- c / 2h < 0 for every c and h: the matrix is monotone, and a grid that does not resolve the
layer of width 1 / c at the outflow is inaccurate but does not oscillate.

The Green's function is

    G(x, y) = (e^(c x) - 1) (e^(c (1 - y)) - 1) / (c (e^c - 1))         x <= y
              (e^c - e^(c x)) (1 - e^(-c y)) / (c (e^c - 1))            x >= y

so G(x, y) = e^(c (x - y)) G(y, x): not symmetric unless c = 0, and of rank one on either side of the diagonal, which
makes it an HSS matrix of rank 2 for every c.

f is a Gaussian random field in sines, as in poisson_1d_grf; grids are those of `poisson.grid`: x_j = j / n.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.linalg import solve_banded

from pdebench_hss import Scale

from ..poisson import box, forcing
from ..poisson.grid import coarse_shape, restrict, solve_shape


def generate(seeds: Sequence[int], size: Scale, c: float, length: float) -> tuple[np.ndarray, np.ndarray]:
    """f and u, each ``(samples, 1, n)``."""
    f = box.synthesize(forcing.gaussian_field(seeds, size.grid, length), solve_shape(size))
    return restrict(f, size.grid)[:, None], restrict(solve(f, c), size.grid)[:, None]


def coarse(inputs: np.ndarray, level: int, size: Scale, c: float, **_of_the_forcing: object) -> np.ndarray:
    """The same scheme on a grid 2**level times coarser; f moves as a sine series, u by cubic splines."""
    u = solve(box.resample(inputs[:, 0], coarse_shape(size, level)), c)
    return (restrict(u, size.grid) if u.shape[1] >= size.grid[0] else refine(u, size.grid[0]))[:, None]


def solve(f: np.ndarray, c: float) -> np.ndarray:
    """u on the forcing's own grid, ``(samples, n) -> (samples, n)``; f vanishes at both ends.

    One sample at a time: LAPACK solves several right-hand sides in another way, and a sample must not depend on others.
    """
    n = f.shape[1]
    diffusion, drift = 1 + (c / n) ** 2 / 12, c / (2 * n)  # times h^2: of D2, of D1
    bands = np.empty((3, n - 1))
    bands[0], bands[1], bands[2] = -diffusion + drift, 2 * diffusion, -diffusion - drift
    f = np.pad(f, ((0, 0), (0, 1)))  # (samples, n + 1): the end x = 1
    left, middle, right = f[:, :-2], f[:, 1:-1], f[:, 2:]  # (samples, n - 1) each
    smooth = (left - 2 * middle + right) - drift * (right - left)  # h^2 (D2 - c D1) f
    rhs = (middle + smooth / 12) / n**2
    u = np.zeros((len(f), n))
    for row, values in zip(u, rhs, strict=True):
        row[1:] = solve_banded((1, 1), bands, values)
    return u


def refine(u: np.ndarray, n: int) -> np.ndarray:
    """Cubic splines through all points and the zero at x = 1: ``(samples, m) -> (samples, n)``."""
    m = u.shape[1]
    return CubicSpline(np.arange(m + 1) / m, np.pad(u, ((0, 0), (0, 1))), axis=1)(np.arange(n) / n)
