"""One HSS matrix times many columns: up the tree with V, down with D and U (Algorithm 1), and its derivative.

Data are columns, ``(nodes, size, columns)``: each level is one batched product, and the coefficients of two siblings
lie one after the other, so that going to the parents is a change of shape and copies nothing.

    up      z_0 = x,              z_{i+1} = V_i^T z_i
    down    y_L = D_L z_L,        y_i = D_i z_i + U_i y_{i+1}          y = y_0

A^T is the same with D_i^T and U <-> V. With a sweep of A^T over the gradient of y (its z called p, its y called q)
the gradient of x is q_0, and those of the blocks are products of what the two sweeps left at each level:

    dD_i = p_i z_i^T      dU_i = p_i y_{i+1}^T      dV_i = z_i q_{i+1}^T
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .factors import Factors


class Coefficients(NamedTuple):
    """What a sweep leaves at the levels: ``up[i]`` is z_i (``up[0]`` the input), ``down[i]`` is y_{i+1}."""

    up: list[Tensor]
    down: list[Tensor]


def apply_tree(a: Factors, x: Tensor) -> Tensor:
    """A x along the last axis: ``(.., *terms, columns) -> (.., *terms, rows)``; a term axis of 1 is shared by all.

    The trees of all terms are a forest: their nodes, one tree's after the other's, go through one sweep.
    """
    *terms, _, _, size = a.D[0].shape
    forest = Factors.of([block.flatten(0, -3) for block in a.blocks])
    rows = x.expand(*x.shape[: x.dim() - 1 - len(terms)], *terms, -1)
    columns = rows.reshape(-1, len(forest.D[0]), size).permute(1, 2, 0)
    y = product(forest, coefficients(forest, columns))  # (terms nodes, m, columns)
    return y.permute(2, 0, 1).reshape(*rows.shape[:-1], a.shape[0])


def coefficients(a: Factors, x: Tensor) -> Coefficients:
    """The sweep without its last, largest step, for ``x (nodes, size, columns)``."""
    columns, up = x.shape[-1], [x]
    down: list[Tensor] = []
    for v, parents in zip(a.V, a.D[1:], strict=True):
        up.append(_times(v.mT, up[-1]).view(len(parents), -1, columns))  # siblings joined: (nodes / 2, 2r, columns)
    for i in range(a.levels, 0, -1):
        y = _times(a.D[i], up[i])
        if down:
            y = _times(a.U[i], down[-1], onto=y)
        down.append(y.view(len(a.U[i - 1]), -1, columns))  # and parted again: (2 nodes, r, columns)
    return Coefficients(up, down[::-1])


def product(a: Factors, c: Coefficients, onto: Tensor | None = None) -> Tensor:
    """The last step, ``(nodes, size, columns)``; added to ``onto`` in place if that is given."""
    y = _times(a.D[0], c.up[0], onto)
    return _times(a.U[0], c.down[0], y) if a.levels else y


def block_gradients(forward: Coefficients, back: Coefficients) -> Factors:
    """The gradients of all blocks, from the sweeps of A over x and of A^T over the gradient of the product."""
    return Factors(
        tuple(_outer(p, z) for p, z in zip(back.up, forward.up, strict=True)),
        tuple(_outer(p, y) for p, y in zip(back.up, forward.down, strict=False)),
        tuple(_outer(z, q) for z, q in zip(forward.up, back.down, strict=False)),
    )


def _times(a: Tensor, x: Tensor, onto: Tensor | None = None) -> Tensor:
    """a x for every node. A single column is sent through BLAS as a row, which is several times faster."""
    if x.shape[-1] == 1:
        y = torch.bmm(x.mT, a.mT).mT
        return y if onto is None else onto.add_(y)
    return torch.bmm(a, x) if onto is None else onto.baddbmm_(a, x)


def _outer(g: Tensor, x: Tensor) -> Tensor:
    """g x^T for every node, summed over columns. With the short side on the left BLAS is up to six times faster."""
    if g.shape[-1] == 1:
        return g * x.mT
    return torch.bmm(g, x.mT) if g.shape[-2] <= x.shape[-2] else torch.bmm(x, g.mT).mT
