"""Alternating least squares over the telescopic factors of an HSS matrix: || A F - Y ||_F never rises.

Write A = D + U A' V^T at some level, z for what reaches its nodes, t for what they should return. With all else fixed

    (D, U)   t_tau ~ D_tau z_tau + U_tau w_tau,  w = A' V^T z:      a regression for each node by itself
    V        U^T (t - D z) ~ A' V^T z:                              node after node, V_tau^T = A'_tau^+ R z_tau^+

and U is kept orthonormal (its triangular factor moves into the parents), so that the parents' problem
U^T (t - D z) ~ A' (V^T z) is the same problem one level up.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from ..matrix.factors import Factors, pair_diagonal, to_dense


def pseudo_inverse(x: Tensor, cutoff: float) -> Tensor:
    """x^+ without directions whose singular values are below ``cutoff`` times the largest; a zero x gives zero."""
    u, s, vt = torch.linalg.svd(x, full_matrices=False)
    inverse = torch.where(s > cutoff * s[..., :1], 1 / s, 0.0)
    return vt.mT * inverse.unsqueeze(-2) @ u.mT


def pseudo_solve(x: Tensor, y: Tensor, cutoff: float) -> Tensor:
    """The W of least norm that minimises || W x - y ||: (..., p, samples), (..., q, samples) -> (..., q, p)."""
    return y @ pseudo_inverse(x, cutoff)


def refine(factors: Factors, f: Tensor, y: Tensor, sweeps: int, cutoff: float) -> Factors:
    """``sweeps`` rounds of alternating least squares for A f ~ y, both ``(points, samples)``."""
    nodes = factors.D[0].shape[0]
    f, y = f.unflatten(0, (nodes, -1)), y.unflatten(0, (nodes, -1))
    for _ in range(sweeps):
        factors = _sweep(factors, f, y, cutoff)
    return factors


def _sweep(factors: Factors, z: Tensor, target: Tensor, cutoff: float) -> Factors:
    """Improve all factors of this level and, through recursion, of those above it.

    z, target  (nodes, s, samples)
    """
    d = factors.D[0]
    if factors.levels == 0:
        return Factors((d + pseudo_solve(z, target - d @ z, cutoff),), (), ())
    u, v = factors.U[0], factors.V[0]
    inner = Factors(factors.D[1:], factors.U[1:], factors.V[1:])

    # D and U together, as a correction to the current values, so that unseen directions do not change.
    w = (to_dense(inner) @ (v.mT @ z).flatten(0, 1)).unflatten(0, v.shape[::2])  # (nodes, r, samples)
    known, weights = torch.cat([z, w], 1), torch.cat([d, u], 2)
    weights = weights + pseudo_solve(known, target - weights @ known, cutoff)
    d, (u, r) = weights[..., : d.shape[-1]], orthonormal(weights[..., d.shape[-1] :])
    inner = absorb(inner, rows=r)

    # The levels above see the same kind of problem.
    wanted = u.mT @ (target - d @ z)  # (nodes, r, samples)
    inner = _sweep(inner, join_rows(v.mT @ z), join_rows(wanted), cutoff)

    v = _improve_columns(to_dense(inner), v, z, wanted, cutoff)
    v, r = orthonormal(v)
    inner = absorb(inner, columns=r)
    return Factors((d, *inner.D), (u, *inner.U), (v, *inner.V))


def _improve_columns(core: Tensor, v: Tensor, z: Tensor, wanted: Tensor, cutoff: float) -> Tensor:
    """V of one level, node after node, each seeing what the ones before it left."""
    nodes, _, rank = v.shape
    by_node = core.unflatten(1, (nodes, rank)).movedim(1, 0)  # (nodes, nodes * r, r)
    left, right = pseudo_inverse(by_node, cutoff), pseudo_inverse(z, cutoff)
    residual = wanted.flatten(0, 1) - core @ (v.mT @ z).flatten(0, 1)  # (nodes * r, samples)
    steps = []
    for node in range(nodes):
        steps.append(left[node] @ residual @ right[node])  # (r, s)
        residual = residual - by_node[node] @ (steps[-1] @ z[node])
    return v + torch.stack(steps).mT


def orthonormal(bases: Tensor) -> tuple[Tensor, Tensor]:
    """QR of each basis; if a node has fewer points than the rank, the surplus columns are zero."""
    q, r = torch.linalg.qr(bases)
    missing = bases.shape[-1] - q.shape[-1]
    return F.pad(q, (0, missing)), F.pad(r, (0, 0, 0, missing))


def absorb(inner: Factors, rows: Tensor | None = None, columns: Tensor | None = None) -> Factors:
    """Multiply the matrix of the parents by block-diagonal ``rows`` from the left, ``columns``^T from the right."""
    d, us, vs = inner.D[0], inner.U, inner.V
    if rows is not None:
        rows = pair_diagonal(rows)
        d, us = rows @ d, (*(rows @ u for u in us[:1]), *us[1:])
    if columns is not None:
        columns = pair_diagonal(columns)
        d, vs = d @ columns.mT, (*(columns @ v for v in vs[:1]), *vs[1:])
    return Factors((d, *inner.D[1:]), us, vs)


def join_rows(blocks: Tensor) -> Tensor:
    """Rows of siblings, ``(2p, r, samples)``, as rows of their parents, ``(p, 2r, samples)``."""
    return blocks.unflatten(0, (-1, 2)).flatten(1, 2)
