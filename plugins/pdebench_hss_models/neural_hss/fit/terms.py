"""Alternating least squares over the factors of several HSS matrices at once: || sum_k A_k F_k - Y ||_F never rises.

The matrices A_1 .. A_K add to each other, so they are improved together. What the data say about them is a quadratic
form: a change by Delta_1 .. Delta_K lowers the square of the residual by

    2 sum_k <slope_k, Delta_k> - sum_kl <rows_kl Delta_l columns_lk, Delta_k>

    rows_kl = I        columns_lk = F_l F_k^T        slope_k = (Y - sum_l A_l F_l) F_k^T.

With A_k = D_k + U_k A'_k V_k^T at some level, the matrices A' of the parents see a form of the same kind,

    rows'_kl = U_k^T rows_kl U_l        columns'_lk = V_l^T columns_lk V_k        slope'_k = U_k^T slope_k V_k,

so going up the tree is a recursion. At every level (D, U) of a node, for all k together, is a linear least-squares
problem, and so is V: both ask for small matrices X_k with sum_l R_kl X_l C_lk = S_k (`solve`). They are asked for as
changes, so that directions which the data do not show keep their values.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..matrix.factors import Factors, pair_diagonal, to_dense
from .refine import absorb, orthonormal

STEADY = (1e-13, 1e-10, 1e-7)  # added to the diagonal, in its largest entry: the first with which Cholesky succeeds


class Form(NamedTuple):
    """The quadratic form on matrices whose rows and columns belong to nodes of size s; N = nodes * s."""

    rows: Tensor | None  # (terms, terms, nodes, s, s); None at the leaves: the identity for every pair of terms
    columns: Tensor  # (terms, N, terms, N)
    slope: Tensor  # (terms, N, N)

    def after(self, change: Tensor) -> Form:
        """The form as it is seen after a ``change (terms, N, N)`` of the matrices."""
        if self.rows is None:
            return self._replace(slope=self.slope - torch.einsum("lij,ljkm->kim", change, self.columns))
        moved = torch.einsum("lij,ljkm->klim", change, self.columns).unflatten(2, self.rows.shape[2:4])
        return self._replace(slope=self.slope - torch.einsum("klnab,klnbm->knam", self.rows, moved).flatten(1, 2))

    def of_parents(self, u: Tensor, v: Tensor) -> Form:
        """The form on the parents' matrices, whose nodes have size 2r; ``u``, ``v`` are (terms, nodes, s, r)."""
        sizes = u.shape[1:3]
        rows = weigh(u, self.rows).movedim(0, 2)  # (terms, terms, nodes, r, r)
        columns = self.columns.unflatten(3, sizes).unflatten(1, sizes)  # (terms, nodes, s, terms, nodes, s)
        columns = torch.einsum("knia,knilmj->knalmj", v, columns)
        columns = torch.einsum("knalmj,lmjb->knalmb", columns, v)
        slope = self.slope.unflatten(2, sizes).unflatten(1, sizes)  # (terms, nodes, s, nodes, s)
        slope = torch.einsum("knia,knimj,kmjb->knamb", u, slope, v)
        return Form(pair_diagonal(rows), columns.flatten(4).flatten(1, 2), slope.flatten(3).flatten(1, 2))


def weigh(p: Tensor, rows: Tensor | None) -> Tensor:
    """P_k^T rows_kl P_l of each node: ``(terms, nodes, s, r)`` -> ``(nodes, terms, terms, r, r)``."""
    if rows is None:
        return torch.einsum("knia,lnib->nklab", p, p)
    return torch.einsum("knia,klnij,lnjb->nklab", p, rows, p)


def improve(a: Factors, form: Form) -> Factors:
    """One round over all factors of this level and, through recursion, of those above it; all terms together."""
    if a.levels == 0:
        rows = None if form.rows is None else form.rows.movedim(2, 0)
        return Factors((a.D[0] + solve(rows, form.columns[None], form.slope[None]).movedim(0, 1),), (), ())
    d, u, v = a.D[0], a.U[0], a.V[0]
    inner = Factors(a.D[1:], a.U[1:], a.V[1:])

    d, u, form = improve_rows(d, u, times_columns(to_dense(inner), v), form)
    u, r = orthonormal(u)
    inner = absorb(inner, rows=r)

    # The levels above see the same kind of problem.
    before = to_dense(inner)
    inner = improve(inner, form.of_parents(u, v))
    core = to_dense(inner)
    form = form.after(times_rows(u, times_columns(core - before, v)))

    v, r = orthonormal(improve_columns(v, times_rows(u, core), form))
    inner = absorb(inner, columns=r)
    return Factors((d, *inner.D), (u, *inner.U), (v, *inner.V))


def improve_rows(d: Tensor, u: Tensor, above: Tensor, form: Form) -> tuple[Tensor, Tensor, Form]:
    """D and U of all nodes: a node answers z by D z + U w, w = ``above`` z with ``above (terms, nodes * r, N)``."""
    terms, nodes, s, r = u.shape
    own = torch.eye(nodes * s, dtype=d.dtype).unflatten(0, (nodes, s)).expand(terms, -1, -1, -1)
    seen = torch.cat([own, above.unflatten(1, (nodes, r))], 2)  # (terms, nodes, s + r, N): z and w of each node
    weighed = torch.einsum("lncj,ljki->nlcki", seen, form.columns)
    columns = torch.einsum("nlcki,kndi->nlckd", weighed, seen)  # (nodes, terms, s + r, terms, s + r)
    slope = torch.einsum("knai,knci->nkac", form.slope.unflatten(1, (nodes, s)), seen)
    x = solve(None if form.rows is None else form.rows.movedim(2, 0), columns, slope).movedim(0, 1)
    return d + x[..., :s], u + x[..., s:], form.after((x @ seen).flatten(1, 2))


def improve_columns(v: Tensor, core: Tensor, form: Form) -> Tensor:
    """V, node after node, each seeing what the ones before it left; ``core`` = U A', (terms, N, nodes * r)."""
    nodes, s, r = v.shape[1:]
    changes = []
    for node in range(nodes):
        mine, own = core[:, :, node * r : (node + 1) * r], slice(node * s, (node + 1) * s)  # (terms, N, r)
        by_node = mine.unsqueeze(1) if form.rows is None else mine.unflatten(1, form.rows.shape[2:4])
        rows = weigh(by_node, form.rows).sum(0, keepdim=True)
        slope = mine.mT @ form.slope[:, :, own]  # (terms, r, s)
        changes.append(solve(rows, form.columns[None, :, own, :, own], slope[None])[0])
        moved = torch.zeros_like(form.slope)
        moved[:, :, own] = mine @ changes[-1]
        form = form.after(moved)
    return v + torch.stack(changes, 1).mT


def solve(rows: Tensor | None, columns: Tensor, slope: Tensor) -> Tensor:
    """X with sum_l rows_kl X_l columns_lk = slope_k, for each node by itself.

    rows (nodes, terms, terms, p, p), columns (nodes, terms, q, terms, q), slope (nodes, terms, p, q), X alike
    """
    nodes, terms, p, q = slope.shape
    if rows is None:  # every row of X by itself
        normal = columns.reshape(nodes, terms * q, terms * q)
        right = slope.movedim(2, 3).reshape(nodes, terms * q, p)
    else:
        size = terms * p * q
        normal = torch.einsum("nklab,nkcld->nkaclbd", rows, columns).reshape(nodes, size, size)
        right = slope.reshape(nodes, size, 1)
    x = torch.cholesky_solve(right, cholesky(normal))
    return x.unflatten(1, (terms, q)).movedim(2, 3) if rows is None else x.reshape(nodes, terms, p, q)


def cholesky(normal: Tensor) -> Tensor:
    """The triangular factors, of matrices with just enough on their diagonals to have them."""
    largest = normal.diagonal(dim1=-2, dim2=-1).amax(-1).clamp(min=torch.finfo(normal.dtype).tiny)
    for share in STEADY:
        added = torch.diag_embed((share * largest)[:, None].expand(normal.shape[:-1]))
        lower, failed = torch.linalg.cholesky_ex(normal + added)
        if not failed.any():
            return lower
    raise ValueError("hss_fit: the training samples are too large or not finite: no least-squares solution")


def times_columns(a: Tensor, v: Tensor) -> Tensor:
    """A V^T: ``(terms, rows, nodes * r)`` and ``v (terms, nodes, s, r)`` -> ``(terms, rows, nodes * s)``."""
    return torch.einsum("kinr,knjr->kinj", a.unflatten(2, v.shape[1::2]), v).flatten(2)


def times_rows(u: Tensor, a: Tensor) -> Tensor:
    """U A: ``u (terms, nodes, s, r)`` and ``(terms, nodes * r, columns)`` -> ``(terms, nodes * s, columns)``."""
    return (u @ a.unflatten(1, u.shape[1::2])).flatten(1, 2)
