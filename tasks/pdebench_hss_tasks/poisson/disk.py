"""-Lap u = f on the periodic unit square without a disk of radius 0.2 in its centre, du/dn = 0 on the circle.

The paper names the domain and the boundary conditions, not the scheme. Here: finite volumes, one cell of side h around
each grid point, cut by the circle. Nothing flows through the circle, so in each cell

    sum over its four faces of  (open fraction) x (flux, u_here - u_there)  =  integral of f over the open part.

* Away from the circle the flux is averaged with the two neighbouring faces by 1/12, 10/12, 1/12, which is 1 - lam/12
  across: (1 - ly/12) lx + (1 - lx/12) ly = lx + ly - lx ly / 6 is the nine-point stencil of `box.py` in flux form. Of
  its Mehrstellen right-hand side (1 - (lx + ly)/12) f one half is the average of f over the cell and stays with the
  cell, the other half belongs to the faces.
* A face that the circle cuts has its flux interpolated to the middle of its open part, and f is taken at the
  centroid of the open part of a cut cell.

The error is of third order (measured), from the ring of cut cells. The flux form keeps the balance exact, as a singular
problem needs: u is determined up to a constant, and f must have mean zero over the domain. The paper's forcing has,
being odd about the centre; u is the solution with mean zero. Means are over the open cells, by their area.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy.sparse as sparse
from scipy.sparse.linalg import SuperLU, splu

from pdebench_hss import Scale

from . import box, forcing
from .disk_cells import CutCells, cut_by_disk
from .grid import coarse_shape, interpolate, points, restrict, solve_shape

RADIUS = 0.2


def mask(grid: Sequence[int]) -> np.ndarray:
    """The grid points outside the disk."""
    return np.hypot(*(points(grid) - 0.5)) >= RADIUS


def generate(seeds: Sequence[int], size: Scale, drawn: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """f and u, each ``(samples, 1, n, n)``, zero inside the disk."""
    f = box.synthesize(forcing.square(seeds, size.options["modes"], drawn), solve_shape(size))
    outside = mask(size.grid)
    return (restrict(f, size.grid) * outside)[:, None], (restrict(solve(f), size.grid) * outside)[:, None]


def coarse(inputs: np.ndarray, level: int, size: Scale, **_of_the_forcing: object) -> np.ndarray:
    """The same scheme on a grid 2**level times coarser; where that is below the models' grid, u is interpolated."""
    outside = mask(size.grid)
    coefficients = forcing.fit(inputs[:, 0], outside, size.options["modes"], factor=2)
    u = solve(box.synthesize(coefficients, coarse_shape(size, level)))
    if u.shape[1] < size.grid[0]:
        known = (discretise(u.shape[1]).cells.area > 0).astype(float)  # only these take part in the interpolation
        u = interpolate(u, size.grid, periodic=True) / np.maximum(interpolate(known, size.grid, periodic=True), 1e-9)
    return (restrict(u, size.grid) * outside)[:, None]


def solve(forcing: np.ndarray) -> np.ndarray:
    """u, mean-free and zero in closed cells: ``(samples, n, n) -> (samples, n, n)``.

    f must be continued smoothly into the disk by a cell or two: cut cells may have their centre there.
    """
    problem = discretise(forcing.shape[1])
    area = problem.cells.area
    cells = np.flatnonzero(area)
    u = np.zeros(forcing.shape)
    for field, f in zip(
        u, forcing, strict=True
    ):  # one by one: SuperLU rounds a block differently, and sample i must not depend on j
        rhs = (problem.right @ f.ravel())[cells]
        rhs -= rhs.sum() * area.flat[cells] / area.sum()
        field.flat[cells[1:]] = problem.factors.solve(rhs[1:])  # the first cell is zero, its equation follows
        field.flat[cells] -= (field * area).sum() / area.sum()
    return u


@dataclass(frozen=True)
class Discretisation:
    cells: CutCells
    factors: SuperLU  # of the stencil on all open cells but the first
    right: sparse.csr_array  # (n^2, n^2): f at the grid points to the right-hand side


@lru_cache(maxsize=8)
def discretise(n: int) -> Discretisation:
    """Assemble and factorise, once per process and grid."""
    cells = cut_by_disk(n, RADIUS)
    one = sparse.eye_array(n)
    ahead = sparse.csr_array((np.ones(n), (np.arange(n), (np.arange(n) + 1) % n)))  # (ahead u)_j = u_{j+1}
    stencil, faces_share = _fluxes(cells, one, ahead)

    shift = (sparse.kron(ahead, one), sparse.kron(one, ahead))
    at_centroid = sparse.eye_array(n * n) + sum(
        sparse.diags_array(offset.ravel()) @ (s - s.T) / 2 for offset, s in zip(cells.centroid, shift, strict=True)
    )
    laplacian = sum(s + s.T for s in shift) - 4 * sparse.eye_array(n * n)
    whole = sparse.diags_array((cells.area == 1).ravel().astype(float))
    source = sparse.diags_array(cells.area.ravel()) @ at_centroid + whole @ laplacian / 24
    right = sparse.csr_array((source - faces_share) / n**2)

    free = np.flatnonzero(cells.area)[1:]
    return Discretisation(cells, splu(sparse.csc_array(stencil[free][:, free]), permc_spec="MMD_AT_PLUS_A"), right)


def _fluxes(cells: CutCells, one: sparse.sparray, ahead: sparse.sparray) -> tuple[sparse.csr_array, sparse.csr_array]:
    """The stencil that acts on u, and the faces' half of the Mehrstellen correction, that acts on f."""
    identity = sparse.kron(one, one)
    stencil, correction = 0, 0
    for axis in (0, 1):
        along = sparse.kron(ahead, one) if axis == 0 else sparse.kron(one, ahead)
        across = sparse.kron(one, ahead) if axis == 0 else sparse.kron(ahead, one)
        face, offset = cells.faces[axis], cells.face_centroid[axis].ravel()
        whole = face == 1
        regular = whole & np.roll(whole, 1, axis=1 - axis) & np.roll(whole, -1, axis=1 - axis)
        to_next = sparse.diags_array(np.maximum(offset, 0) + regular.ravel() / 12)
        to_last = sparse.diags_array(np.maximum(-offset, 0) + regular.ravel() / 12)
        flux = identity - along  # u_here - u_there, one row per face
        average = identity + to_next @ (across - identity) + to_last @ (across.T - identity)
        stencil += flux.T @ sparse.diags_array(face.ravel()) @ average @ flux
        correction += flux.T @ sparse.diags_array(regular.ravel() / 24) @ flux
    return sparse.csr_array(stencil), sparse.csr_array(correction)
