"""-Lap u = f on the L-shape, the unit square without its top-right quarter, u = 0 on the boundary.

The paper: the square's recipe on another domain. The nine-point stencil and its Mehrstellen right-hand side (see
`box.py`) as sparse matrices, with the rows and columns of the open L-shape kept; u = 0 everywhere else. The matrix
is factorised once per process and grid.

A consequence of the recipe: each sin(2 pi k x) is odd about x = 1/2, so the square's own solution vanishes on
both new edges, and on the L-shape it is the solution there. The corner is never felt. With ``factor=1`` the sum is over
sin(pi k x), as in the paper's 3D formula: u then behaves like r^(2/3) at the re-entrant corner.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import scipy.sparse as sparse
from scipy.sparse.linalg import SuperLU, splu

from pdebench_hss import Scale

from . import box, forcing
from .grid import coarse_shape, interpolate, restrict, solve_shape


def mask(grid: Sequence[int]) -> np.ndarray:
    """The closed L-shape: its edges are in, like the edges of the square."""
    across, up = (np.arange(n) > n / 2 for n in grid)
    return ~(across[:, None] & up[None, :])


def generate(seeds: Sequence[int], size: Scale, drawn: bool = False, factor: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """f and u, each ``(samples, 1, n, n)``, zero outside the domain."""
    f = box.synthesize(forcing.square(seeds, size.options["modes"], drawn, factor), solve_shape(size))
    inside = mask(size.grid)
    return (restrict(f, size.grid) * inside)[:, None], restrict(solve(f), size.grid)[:, None]


def coarse(inputs: np.ndarray, level: int, size: Scale, factor: int = 2, drawn: bool = False) -> np.ndarray:
    """The same scheme on a grid 2**level times coarser; where that is below the models' grid, u is interpolated."""
    coefficients = forcing.fit(inputs[:, 0], mask(size.grid), size.options["modes"], factor)
    u = solve(box.synthesize(coefficients, coarse_shape(size, level)))
    if u.shape[1] < size.grid[0]:
        u = interpolate(u, size.grid, periodic=False)
    return restrict(u, size.grid)[:, None]


def interior(n: int) -> np.ndarray:
    """The open L-shape on n x n points: where u is unknown."""
    if n % 2:
        raise ValueError(f"the edge x = 1/2 must be on the grid: {n} points must be an even number")
    j = np.arange(n)
    quarter = (j >= n // 2)[:, None] & (j >= n // 2)[None, :]
    return (j > 0)[:, None] & (j > 0)[None, :] & ~quarter


def solve(forcing: np.ndarray) -> np.ndarray:
    """u from f, which is zero on the edges of the square: ``(samples, n, n) -> (samples, n, n)``."""
    factors, right = _factorised(forcing.shape[1])
    inside = np.flatnonzero(interior(forcing.shape[1]))
    u = np.zeros(forcing.shape)
    for field, f in zip(
        u, forcing, strict=True
    ):  # one by one: SuperLU rounds a block differently, and sample i must not depend on j
        field.flat[inside] = factors.solve(right @ f.ravel())
    return u


@lru_cache(maxsize=8)
def _factorised(n: int) -> tuple[SuperLU, sparse.csr_array]:
    """Factors of the stencil on the interior points; the matrix ``(interior, n^2)`` from f to the right-hand side."""
    one = sparse.eye_array(n)
    second = sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))  # lam as a matrix
    across, up = sparse.kron(second, one), sparse.kron(one, second)
    stencil = sparse.csr_array(n**2 * (across + up - sparse.kron(second, second) / 6))
    right = sparse.csr_array(sparse.eye_array(n * n) - (across + up) / 12)
    inside = np.flatnonzero(interior(n))
    return splu(sparse.csc_array(stencil[inside][:, inside]), permc_spec="MMD_AT_PLUS_A"), right[inside]
