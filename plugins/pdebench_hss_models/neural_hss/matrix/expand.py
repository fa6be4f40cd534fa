"""The upper levels of an HSS matrix as one dense root: fewer, larger products for the same matrix.

    A_i = D_i + U_i A_{i+1} V_i^T,      i = L-1, ..., cut        A_cut is the new root, levels below stay a tree.

cut = L leaves the tree as it is, cut = 1 gives y = D x + U C V^T x with one coupling C between all leaves, and
cut = 0 gives the matrix itself. This is done once per step, whatever the number of columns, and is differentiable.

A level costs two batched products. The first multiplies block rows, A -> U A; the second the block columns of the
result and so leaves the transpose, V (U A)^T. Nothing is copied: one level holds A, the next A^T, the next A again.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .factors import Factors


def expand(a: Factors, cut: int) -> Factors:
    """The same matrices (with a terms axis) as trees of ``cut`` levels."""
    if cut == a.levels:
        return a
    root = _Root.apply(a.levels - cut, *a.D[cut:], *a.U[cut:], *a.V[cut:])
    return Factors((*a.D[:cut], root.unsqueeze(-3)), a.U[:cut], a.V[:cut])


def collapse(a: Factors) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """``D (terms, P, m_out, m_in), U (terms, P, m_out, r), C (terms, P r, P r), V (terms, P, m_in, r)``."""
    if a.levels == 0:
        raise ValueError("a tree of 0 levels is one dense block: there is nothing to collapse")
    short = expand(a, 1)
    return short.D[0], short.U[0], short.D[1].squeeze(-3), short.V[0]


class _Root(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, levels: int, *blocks: Tensor) -> Tensor:
        d, u, v = blocks[: levels + 1], blocks[levels + 1 : -levels], blocks[-levels:]
        root, flipped, halves = d[-1].squeeze(-3), False, []
        for i in reversed(range(levels)):
            first, second = (v[i], u[i]) if flipped else (u[i], v[i])
            half = _block_rows(first, root)  # (terms, rows, nodes r)
            halves.append((root, half))
            root, flipped = _block_rows(second, half.mT), not flipped
            root = _add_to_diagonal(root, d[i].mT if flipped else d[i])
        ctx.levels, ctx.halves, ctx.flipped = levels, halves, flipped
        ctx.save_for_backward(*u, *v)
        return root.mT if flipped else root

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        levels, flipped = ctx.levels, ctx.flipped
        u, v = ctx.saved_tensors[:levels], ctx.saved_tensors[levels:]
        g = g.mT if flipped else g
        gd, gu, gv = [], [], []
        for i, (root, half) in zip(range(levels), reversed(ctx.halves), strict=True):
            block = _diagonal(g, u[i].shape[-3])  # (terms, nodes, rows, columns) of what is held: A or A^T
            gd.append(block.mT if flipped else block)
            flipped = not flipped
            first, second = (v[i], u[i]) if flipped else (u[i], v[i])
            g_second, g_half = _pull_back(second, half.mT, g)
            g_first, g = _pull_back(first, root, g_half.mT)
            gu.append(g_second if flipped else g_first)
            gv.append(g_first if flipped else g_second)
        return None, *gd, g.unsqueeze(-3), *gu, *gv


def _by_node(a: Tensor, nodes: int) -> Tensor:
    """``(terms, nodes s, columns) -> (terms nodes, s, columns)``; a transposed single matrix stays a view."""
    return a.reshape(a.shape[0] * nodes, -1, a.shape[-1])


def _block_rows(blocks: Tensor, a: Tensor) -> Tensor:
    """blockdiag(blocks) a: ``(terms, nodes, s, r), (terms, nodes r, columns) -> (terms, nodes s, columns)``."""
    terms, nodes, size, _ = blocks.shape
    return torch.bmm(blocks.flatten(0, 1), _by_node(a, nodes)).view(terms, nodes * size, -1)


def _pull_back(blocks: Tensor, a: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of ``blocks`` and ``a`` from that of `_block_rows`."""
    nodes = blocks.shape[1]
    g, flat = _by_node(g, nodes), blocks.flatten(0, 1)
    g_blocks = torch.bmm(g, _by_node(a, nodes).mT)
    return g_blocks.view_as(blocks), torch.bmm(flat.mT, g).view(a.shape)


def _add_to_diagonal(a: Tensor, blocks: Tensor) -> Tensor:
    """``a (terms, nodes rows, nodes columns)`` plus ``blocks (terms, nodes, rows, columns)`` on its diagonal: in place,
    except in exported graphs, as other programs can't write to views."""
    nodes = blocks.shape[1]
    if not torch.compiler.is_compiling():
        _diagonal(a, nodes).add_(blocks)
        return a
    unit = torch.eye(nodes, dtype=a.dtype, device=a.device)[:, None, :, None]  # (nodes, 1, nodes, 1)
    return a + (blocks.unsqueeze(3) * unit).reshape(a.shape)


def _diagonal(a: Tensor, nodes: int) -> Tensor:
    """The diagonal blocks as a view: ``(terms, nodes, rows, columns)``."""
    terms, rows, columns = a.shape
    blocks = a.view(terms, nodes, rows // nodes, nodes, columns // nodes)
    return blocks.diagonal(dim1=1, dim2=3).permute(0, 3, 1, 2)
