"""Plain algebra of HSS matrices in telescopic storage (Definition 2.1): compress, transpose, add, multiply, invert.

Everything here is exact except `from_dense`, which truncates. Matrices are `Factors` with square blocks and no
terms axis; `to_dense` and `apply_tree` are the matrix and the matrix-vector product.

The structure is closed under all of them: transposes and inverses keep the rank, sums and products add the
ranks, and all cost O(d r^2) for fixed leaves. That is the paper's reason for HSS layers: solving an elliptic
equation means multiplying by the inverse of an HSS matrix.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .factors import Factors, pair_diagonal, to_dense, transpose
from .sweep import apply_tree
from .tree import check_tree

__all__ = ["Factors", "add", "apply_tree", "from_dense", "inverse", "multiply", "to_dense", "transpose"]


def from_dense(a: Tensor, levels: int, rank: int | None = None, tolerance: float | None = None) -> Factors:
    """Compress a square matrix to HSS form, by ``rank`` or to a relative ``tolerance`` (exactly one of them).

    At each level the basis U_tau holds the leading left singular vectors of the block row A(tau, all but tau), V_tau
    the right ones of the block column; D_tau is the diagonal block, and U^T (A - D) V goes up to the parents.
    The error is within a factor sqrt(levels) or so of the best possible at that rank.
    """
    if (rank is None) == (tolerance is None):
        raise ValueError("from_dense needs either rank or tolerance")
    points = a.shape[-1]
    if a.shape != (points, points):
        raise ValueError(f"from_dense needs a square matrix, not {tuple(a.shape)}")
    check_tree(points, levels, 1 if rank is None else rank)
    if points % 2**levels:
        raise ValueError(f"{points} points can't be shared evenly by {2**levels} leaves; pad them or change levels")

    threshold = 0.0 if tolerance is None else tolerance * torch.linalg.matrix_norm(a, ord=2).item()
    ds, us, vs = [], [], []
    for level in range(levels, 0, -1):
        nodes = 2**level
        blocks = a.unflatten(1, (nodes, -1)).unflatten(0, (nodes, -1)).clone()  # (nodes, m, nodes, m)
        diagonal = blocks.diagonal(dim1=0, dim2=2)  # (m, m, nodes), a view
        ds.append(diagonal.movedim(-1, 0).clone())
        diagonal.zero_()
        rows, columns = blocks.flatten(2), blocks.permute(2, 3, 0, 1).flatten(2)  # A(tau, :) and A(:, tau)^T
        u, su, _ = torch.linalg.svd(rows, full_matrices=False)
        v, sv, _ = torch.linalg.svd(columns, full_matrices=False)
        kept = rank if rank is not None else max(_numerical_rank(su, threshold), _numerical_rank(sv, threshold))
        us.append(_pad_columns(u, kept))
        vs.append(_pad_columns(v, kept))
        a = torch.einsum("pir,piqj,qjs->prqs", us[-1], blocks, vs[-1]).flatten(2).flatten(0, 1)
    return Factors((*ds, a.unsqueeze(0)), tuple(us), tuple(vs))


def _numerical_rank(singular_values: Tensor, threshold: float) -> int:
    """The largest rank among the nodes of a level, at least 1 so that the tree keeps its shape."""
    return max(1, int((singular_values > threshold).sum(-1).max()))


def _pad_columns(basis: Tensor, rank: int) -> Tensor:
    """The first ``rank`` columns; zeros where a small block has fewer."""
    missing = rank - basis.shape[-1]
    return basis[..., :rank] if missing <= 0 else torch.nn.functional.pad(basis, (0, missing))


def add(a: Factors, b: Factors) -> Factors:
    """A + B: bases side by side, cores block diagonal."""
    _check_same_tree(a, b)
    if a.levels == 0:
        return Factors((a.D[0] + b.D[0],), (), ())
    ds = [a.D[0] + b.D[0]]
    us = [torch.cat([a.U[0], b.U[0]], -1)]
    vs = [torch.cat([a.V[0], b.V[0]], -1)]
    for i in range(1, a.levels + 1):
        ds.append(_core(a.D[i], None, b.D[i]))
        if i < a.levels:
            us.append(_bases(a.U[i], None, None, b.U[i]))
            vs.append(_bases(a.V[i], None, None, b.V[i]))
    return Factors(tuple(ds), tuple(us), tuple(vs))


def multiply(a: Factors, b: Factors) -> Factors:
    """A B exactly, of rank r_A + r_B.

    With A = D + U A' V^T and B = E + W B' X^T (primes: the matrices of the parents) and S = V^T W:

        A B = D E + [U, D W] M [E^T V, X]^T,        M = [[A', A' S B'], [0, B']]

    and M is again telescopic: its diagonal blocks, bases and core have the same triangular form with
    S' = V'^T S W', so that at every level the ranks just add.
    """
    _check_same_tree(a, b)
    if a.levels == 0:
        return Factors((a.D[0] @ b.D[0],), (), ())
    ds = [a.D[0] @ b.D[0]]
    us = [torch.cat([a.U[0], a.D[0] @ b.U[0]], -1)]
    vs = [torch.cat([b.D[0].mT @ a.V[0], b.V[0]], -1)]
    s = a.V[0].mT @ b.U[0]  # (nodes, r_A, r_B)
    for i in range(1, a.levels + 1):
        s = pair_diagonal(s)  # (nodes / 2, 2 r_A, 2 r_B)
        ds.append(_core(a.D[i], a.D[i] @ s @ b.D[i], b.D[i]))
        if i < a.levels:
            us.append(_bases(a.U[i], a.D[i] @ s @ b.U[i], None, b.U[i]))
            vs.append(_bases(a.V[i], None, b.D[i].mT @ s.mT @ a.V[i], b.V[i]))
            s = a.V[i].mT @ s @ b.U[i]
    return Factors(tuple(ds), tuple(us), tuple(vs))


def inverse(a: Factors) -> Factors:
    """A^-1 exactly, of the same rank. Every cluster's principal block must be invertible (true if A is definite).

    With A = D + U A' V^T and S = V^T D^-1 U (Woodbury, without inverting A' or S):

        A^-1 = D^-1 - D^-1 U X V^T D^-1,      X = A' (I + S A')^-1

    and where A' = D' + U' A'' V'^T, X is telescopic too:

        X = D' (I + S D')^-1 + (I + D' S)^-1 U' X' V'^T (I + S D')^-1,    S' = V'^T (I + S D')^-1 S U'.
    """
    if a.levels == 0:
        return Factors((torch.linalg.inv(a.D[0]),), (), ())
    inner = torch.linalg.inv(a.D[0])
    u, vt = inner @ a.U[0], a.V[0].mT @ inner
    ds, us, vs = [inner], [-u], [vt.mT]
    s = a.V[0].mT @ u  # (nodes, r, r)
    for i in range(1, a.levels + 1):
        s = pair_diagonal(s)
        loop = torch.linalg.inv(torch.eye(s.shape[-1], dtype=s.dtype, device=s.device) + s @ a.D[i])
        ds.append(a.D[i] @ loop)
        if i < a.levels:
            # (I + D S)^-1 U = U - D (I + S D)^-1 S U
            us.append(a.U[i] - ds[-1] @ s @ a.U[i])
            vs.append(loop.mT @ a.V[i])
            s = a.V[i].mT @ loop @ s @ a.U[i]
    return Factors(tuple(ds), tuple(us), tuple(vs))


def _check_same_tree(a: Factors, b: Factors) -> None:
    if a.levels != b.levels or a.shape != b.shape:
        raise ValueError(
            f"HSS matrices of shape {a.shape} with {a.levels} levels and {b.shape} with {b.levels} don't share a tree"
        )


def _by_child(top: Tensor, bottom: Tensor) -> Tensor:
    """Stack rows so that parents see (A-part, B-part) of child 1, then of child 2."""
    top, bottom = top.unflatten(-2, (2, -1)), bottom.unflatten(-2, (2, -1))  # (p, 2, r, columns)
    return torch.cat([top, bottom], -2).flatten(-3, -2)


def _bases(top: Tensor, right: Tensor | None, below: Tensor | None, bottom: Tensor) -> Tensor:
    """[[top, right], [below, bottom]] with rows ordered by child; None is a zero block."""
    right = top.new_zeros(*top.shape[:-1], bottom.shape[-1]) if right is None else right
    below = top.new_zeros(*bottom.shape[:-1], top.shape[-1]) if below is None else below
    return torch.cat([_by_child(top, below), _by_child(right, bottom)], -1)


def _core(top: Tensor, right: Tensor | None, bottom: Tensor) -> Tensor:
    """[[top, right], [0, bottom]] with rows and columns ordered by child."""
    columns = _bases(top, right, None, bottom).mT
    return _by_child(columns[..., : top.shape[-1], :], columns[..., top.shape[-1] :, :]).mT
