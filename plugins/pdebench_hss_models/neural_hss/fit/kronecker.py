"""A sum of Kronecker products of HSS matrices fitted to fields, by alternating least squares from axis to axis.

    y_i ~ sum_{k=1}^{K} x_i x_1 W_1^(k) x_2 ... x_m W_m^(k),        W_j^(k) in HSS(r),        samples i = 1 .. n

With all axes but j fixed this is a regression on columns of fields: unfold everything along axis j and write F_k for
the inputs after the other axes' matrices, then Y ~ sum_k W_j^(k) F_k. Each field brings as many columns as it has
points on the other axes: so few fields determine the matrices. `terms` improves the W_j^(k) within HSS(r).

Start. Full matrices in place of HSS matrices, grown term by term: a product is fitted to what the others left, from
identities, and then all are improved together. (From a random start of all terms the sweeps end in poor local minima
where samples are few.) In 2D the sum is a matrix of rank K between entries of W_1 and W_2 (Van Loan and Pitsianis), so
that the terms can be mixed at will: the singular vectors are taken, because then a few terms carry all but a rest of
the map, and are cut to HSS form. The sweeps with HSS factors repair what the cut broke.

Ridge. ridge * sum_k ||W_j^(k)||^2 is added to the squared residual, ridge falling with the residual itself: as long as
much is left over, faint directions of the inputs must not be used to explain it.

Stop. Every fourth sample is kept back. Terms are added and sweeps made as long as the error on these falls; the best
factors go on for as many sweeps with all samples. Nothing is random.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..matrix.algebra import from_dense
from ..matrix.factors import Factors, to_dense
from .terms import Form, improve

Axes = list[Factors]  # one entry per axis, each with a leading axis of terms
Step = Callable[[Axes, int], Axes]
Judge = Callable[[Axes], float]

TERM_SWEEPS = 3  # for a new term by itself
JOINT_SWEEPS = 2  # for all terms, after a new one
LESS = 0.95  # of the best held-out error so far: a sweep that ends above this did not help
PATIENCE = 2  # sweeps, or terms, that may not help
RIDGE, LEAST_RIDGE = 1e-3, 1e-14  # relative to the squared relative residual; to the largest entry
WINDOW = 2**22  # values of the samples that a least-squares problem looks at; the next one looks at the next samples
CHUNK = 2**22  # values of F worked on at a time


def contract(x: Tensor, matrices: Sequence[Tensor], skip: int = -1) -> Tensor:
    """x x_1 W_1 .. x_m W_m without axis ``skip``: ``(samples, *grid)`` -> ``(samples, *grid)``."""
    for axis, w in enumerate(matrices):
        if axis != skip:
            x = (x.movedim(axis + 1, -1) @ w.mT).movedim(-1, axis + 1)
    return x


def apply_sum(x: Tensor, axes: Sequence[Tensor]) -> Tensor:
    """The map itself, from the matrices ``(terms, points, points)`` of each axis."""
    y = contract(x, [w[0] for w in axes])
    for k in range(1, len(axes[0])):
        y = y + contract(x, [w[k] for w in axes])
    return y


def form_of_axis(axes: Sequence[Tensor], j: int, x: Tensor, y: Tensor) -> Form:
    """The least-squares problem for the matrices of axis ``j``, in pieces of samples."""
    terms, n = axes[j].shape[:2]
    wide = axes[j].movedim(0, 1).flatten(1)  # [W^(1) .. W^(K)], (n, terms * n)
    columns, slope, left = x.new_zeros(terms * n, terms * n), x.new_zeros(n, terms * n), 0.0
    piece = max(1, CHUNK // (terms * math.prod(x.shape[1:])))
    for some, wanted in zip(x.split(piece), y.split(piece), strict=True):
        fields = [contract(some, [w[k] for w in axes], skip=j).movedim(j + 1, 0).flatten(1) for k in range(terms)]
        f = torch.cat(fields)  # (terms * n, columns)
        rest = wanted.movedim(j + 1, 0).flatten(1) - wide @ f
        columns.addmm_(f, f.mT)
        slope.addmm_(rest, f.mT)
        left += rest.square().sum().item()
    whole = y.square().sum().item()
    ridge = max(LEAST_RIDGE, RIDGE * left / whole if whole else 0.0) * columns.diagonal().max()
    columns.diagonal().add_(ridge)
    return Form(None, columns.view(terms, n, terms, n), (slope - ridge * wide).unflatten(1, (terms, n)).movedim(1, 0))


def sweep(axes: Axes, x: Tensor, y: Tensor, turn: int) -> Axes:
    """Improve every axis once."""
    axes = balance(axes)
    dense = [to_dense(a) for a in axes]
    for j in range(len(axes)):
        axes[j] = improve(axes[j], form_of_axis(dense, j, *window(x, y, turn * len(axes) + j)))
        dense[j] = to_dense(axes[j])
    return axes


def window(x: Tensor, y: Tensor, turn: int) -> tuple[Tensor, Tensor]:
    """The samples that this least-squares problem looks at: all, or where they are very many the next ones in turn."""
    count = max(1, WINDOW // math.prod(x.shape[1:]))
    if count >= len(x):
        return x, y
    some = (torch.arange(count) + count * turn) % len(x)
    return x[some], y[some]


def balance(axes: Axes) -> Axes:
    """Give the factors of a term the same norm on every axis; their product stays."""
    norms = torch.stack([torch.linalg.matrix_norm(to_dense(a)) for a in axes])  # (axes, terms)
    if not (norms > 0).all():
        return list(axes)
    scales = norms.log().mean(0).exp() / norms
    return [scaled(a, scale.view(-1, 1, 1, 1)) for a, scale in zip(axes, scales, strict=True)]


def scaled(a: Factors, scale: Tensor) -> Factors:
    return Factors((a.D[0] * scale, *a.D[1:]), tuple(u * scale if i == 0 else u for i, u in enumerate(a.U)), a.V)


def grow(x: Tensor, y: Tensor, terms: int, error: Judge) -> Axes:
    """Full matrices, term by term; of the sums of 1, 2 .. ``terms`` products the one that has the least error."""
    axes, rest = one_term(x, y), y
    best, least, idle = axes, error(axes), 0
    for _ in range(terms - 1):
        rest = y - apply_sum(x, [to_dense(a) for a in axes])
        axes = [full(torch.cat([a.D[0], b.D[0]])) for a, b in zip(axes, one_term(x, rest), strict=True)]
        for turn in range(JOINT_SWEEPS):
            axes = sweep(axes, x, y, turn)
        now = error(axes)
        best, least, idle = (axes, now, 0) if now < least else (best, least, idle + 1)
        if idle == PATIENCE:
            break
    return best


def one_term(x: Tensor, y: Tensor) -> Axes:
    """One product: from identities, each axis solved for from zero and then improved."""
    axes = [full(torch.eye(n, dtype=x.dtype)[None, None]) for n in x.shape[1:]]
    for j in range(len(axes)):
        axes[j] = full(torch.zeros_like(axes[j].D[0]))  # what the data say nothing about stays zero
        axes[j] = improve(axes[j], form_of_axis([to_dense(a) for a in axes], j, *window(x, y, j)))
    for turn in range(1, TERM_SWEEPS):
        axes = sweep(axes, x, y, turn)
    return balance(axes)


def full(matrices: Tensor) -> Factors:
    """``(terms, 1, n, n)`` as trees that are their roots."""
    return Factors((matrices,), (), ())


def mix(axes: Axes) -> Axes:
    """In 2D: the same sum with singular vectors as its terms, the largest first."""
    if len(axes) != 2:
        return axes
    entries = [to_dense(a).flatten(1).mT for a in axes]  # (points^2, terms)
    (q1, r1), (q2, r2) = (torch.linalg.qr(e) for e in entries)
    u, s, vt = torch.linalg.svd(r1 @ r2.mT)
    mixed = (q1 @ (u * s.sqrt()), q2 @ (vt.mT * s.sqrt()))
    return [full(m.mT.reshape(a.D[0].shape)) for m, a in zip(mixed, axes, strict=True)]


def cut(a: Factors, levels: int, rank: int) -> Factors:
    """Full matrices, each cut to HSS form."""
    trees = [from_dense(matrix, levels, rank=rank) for matrix in to_dense(a)]
    return Factors.of([torch.stack(blocks) for blocks in zip(*(tree.blocks for tree in trees), strict=True)])


def while_it_helps(axes: Axes, step: Step, error: Judge, most: int) -> tuple[Axes, int]:
    """Sweep as long as the error falls: the best factors, and how many sweeps they took."""
    best, least, taken = axes, error(axes), 0
    mark, idle = least, 0
    for turn in range(most):
        axes = step(axes, turn)
        now = error(axes)
        if now < least:
            best, least, taken = axes, now, turn + 1
        mark, idle = (now, 0) if now < LESS * mark else (mark, idle + 1)
        if idle == PATIENCE:
            break
    return best, taken


def fit_fields(x: Tensor, y: Tensor, levels: Sequence[int], rank: int, terms: int, sweeps: int) -> Axes:
    """HSS factors for every axis, of at most ``terms`` terms, from inputs and outputs ``(samples, *grid)``.

    The sizes of the grid are multiples of 2^levels.
    """
    held = torch.arange(len(x)) % 4 == 3  # spread out: pairs of rollout tasks are ordered in time
    judges = held if held.any() else ~held
    x_fit, y_fit, x_held, y_held = x[~held], y[~held], x[judges], y[judges]

    def error(axes: Axes) -> float:
        found = apply_sum(x_held, [to_dense(a) for a in axes])
        return torch.linalg.vector_norm(found - y_held).nan_to_num(torch.inf).item()

    def step(axes: Axes, turn: int) -> Axes:
        return sweep(axes, x_fit, y_fit, turn)

    grown = mix(grow(x_fit, y_fit, terms, error))
    axes = [cut(a, depth, rank) for a, depth in zip(grown, levels, strict=True)]
    axes, taken = while_it_helps(axes, step, error, sweeps)
    for turn in range(taken):
        axes = sweep(axes, x, y, turn)
    return balance(axes)
