"""Darcy flow -div(a grad u) = beta, u = 0 on the boundary, by finite volumes on n x n cells.

The flux through a face is the difference of the two cells times the harmonic mean of their permeabilities; the
boundary is half a cell away. The permeability takes PDEBench's two values, by the sign of a smooth random field.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse
from scipy.fft import idctn
from scipy.sparse.linalg import spsolve

from pdebench_hss import Scale

LOW, HIGH = 0.1, 1.0
MODES = 8


def generate(seeds: Sequence[int], size: Scale, beta: float) -> tuple[np.ndarray, np.ndarray]:
    """Permeabilities and pressures, each (n, 1, points, points)."""
    a = np.stack([permeability(seed, size.grid[0]) for seed in seeds])
    u = np.stack([solve(one, beta) for one in a])
    return a[:, None], u[:, None]


def permeability(seed: int, points: int) -> np.ndarray:
    """A random field of the lowest cosines, cut at zero."""
    k = np.arange(MODES)
    spectrum = np.zeros((points, points))
    noise = np.random.default_rng(seed).standard_normal((MODES, MODES))
    spectrum[:MODES, :MODES] = noise / (1 + k[:, None] ** 2 + k**2)
    return np.where(idctn(spectrum) > 0, HIGH, LOW)


def solve(a: np.ndarray, beta: float) -> np.ndarray:
    """The pressure in every cell, (points, points)."""
    n = len(a)
    number = np.arange(n * n).reshape(n, n)
    diagonal = np.zeros((n, n))
    rows, columns, values = [], [], []
    for axis in (0, 1):
        first, second = (np.take(number, np.arange(n - 1) + shift, axis) for shift in (0, 1))
        flux = 2 / (1 / a.ravel()[first] + 1 / a.ravel()[second])  # harmonic mean, faces inside
        np.add.at(diagonal.ravel(), first.ravel(), flux.ravel())
        np.add.at(diagonal.ravel(), second.ravel(), flux.ravel())
        rows += [first.ravel(), second.ravel()]
        columns += [second.ravel(), first.ravel()]
        values += [-flux.ravel()] * 2
        edges = [slice(None)] * 2
        for end in (0, -1):
            edges[axis] = end
            diagonal[tuple(edges)] += 2 * a[tuple(edges)]  # the boundary is half a cell away
    off = sparse.csc_matrix((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), (n * n, n * n))
    matrix = off + sparse.diags(diagonal.ravel(), format="csc")
    return spsolve(matrix, np.full(n * n, beta / n**2)).reshape(n, n)
