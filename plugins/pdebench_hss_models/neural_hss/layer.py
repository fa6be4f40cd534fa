"""Layers with HSS weights: the matrix as parameters, and the m-dimensional layer of the paper (Section 2.1).

    H(Z) = sum_{k=1}^{r_out}  Z x_1 W_1^(k) x_2 ... x_m W_m^(k),        W_j^(k) in HSS(r)

where x_j is the product along axis j. The first factor is contracted for all k at once and the last with
(axis, k) stacked, so that the sum over k happens inside a matrix product and not between big arrays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .factors import Factors, apply_tree, to_dense
from .tree import check_tree, deepest, leaf_size

WAYS = ("auto", "tree", "dense")
GAIN, SLOPE = 0.67, 0.9  # chosen by benchmarks/neural_hss_init.py for all tasks


def choose_way(shape: tuple[int, int], rows: int) -> str:
    """Small matrices met by many rows are cheaper as one dense product, which the hardware loves; others as a tree.

    Building the dense matrix costs about as much as multiplying it with a few hundred rows.
    """
    return "dense" if max(shape) <= 256 and rows >= 4 * max(shape) else "tree"


class HSSMatrix(nn.Module):
    """``terms`` HSS matrices of one shape, depth and rank, as parameters in telescopic storage.

    Points that the leaves can't share evenly are padded inside: the caller sees (out_points, in_points).
    """

    def __init__(self, out_points: int, in_points: int, levels: int, rank: int, terms: int = 1) -> None:
        super().__init__()
        check_tree(min(out_points, in_points), levels, rank)
        self.shape = (out_points, in_points)
        self.levels, self.rank, self.terms = levels, rank, terms
        leaf_rows, leaf_columns = leaf_size(out_points, levels), leaf_size(in_points, levels)
        rows = [leaf_rows] + [2 * rank] * levels
        columns = [leaf_columns] + [2 * rank] * levels
        nodes = [2 ** (levels - i) for i in range(levels + 1)]

        def blocks(i: int, height: int, width: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(terms, nodes[i], height, width))

        self.D = nn.ParameterList(blocks(i, rows[i], columns[i]) for i in range(levels + 1))
        self.U = nn.ParameterList(blocks(i, rows[i], rank) for i in range(levels))
        self.V = nn.ParameterList(blocks(i, columns[i], rank) for i in range(levels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Normal, two thirds of what would keep a signal's size through each factor; docs/models.md has the study."""
        for d in self.D:
            nn.init.normal_(d, std=GAIN / math.sqrt(d.shape[-1]))
        for u, v in zip(self.U, self.V):
            nn.init.normal_(u, std=GAIN / math.sqrt(self.rank))
            nn.init.normal_(v, std=GAIN / math.sqrt(v.shape[-2]))

    @torch.no_grad()
    def scale_(self, factor: float) -> None:
        """Multiply the matrices by a number."""
        for outermost in (self.D[0], *self.U[:1]):
            outermost.mul_(factor)

    def factors(self) -> Factors:
        return Factors(tuple(self.D), tuple(self.U), tuple(self.V))

    def dense(self) -> Tensor:
        """``(terms, out_points, in_points)``"""
        return to_dense(self.factors())[:, : self.shape[0], : self.shape[1]]

    def forward(self, x: Tensor) -> Tensor:
        """``(..., terms or 1, in_points) -> (..., terms, out_points)`` by Algorithm 1."""
        padding = self.factors().shape[1] - self.shape[1]
        x = F.pad(x, (0, padding)) if padding else x
        return apply_tree(self.factors(), x)[..., : self.shape[0]]

    def extra_repr(self) -> str:
        return f"{self.shape[0]}x{self.shape[1]}, levels={self.levels}, rank={self.rank}, terms={self.terms}"


class HSSMap(nn.Module):
    """The linear m-dimensional HSS map: ``(batch, *in_grid) -> (batch, *out_grid)``."""

    def __init__(
        self,
        out_grid: Sequence[int],
        in_grid: Sequence[int],
        levels: int,
        rank: int,
        outer_rank: int = 1,
        way: str = "auto",
    ) -> None:
        super().__init__()
        if way not in WAYS:
            raise ValueError(f"way {way!r} is not one of {', '.join(WAYS)}")
        self.way = way
        self.axes = nn.ModuleList(
            # A short axis gets a shallower tree than a long one.
            HSSMatrix(out, inn, min(levels, deepest(min(out, inn))), rank, terms=outer_rank)
            for out, inn in zip(out_grid, in_grid)
        )
        for weight in self.axes:  # the sum of r_out products of m factors is then as large as one product
            weight.scale_(outer_rank ** (-0.5 / len(self.axes)))

    def forward(self, z: Tensor) -> Tensor:
        way = self.way
        if way == "auto":
            way = choose_way(self.axes[-1].shape, rows=z.numel() // z.shape[-1])
        return self._through_dense(z) if way == "dense" else self._through_trees(z)

    def _through_trees(self, z: Tensor) -> Tensor:
        z = z.unsqueeze(-1)  # (batch, d_1 .. d_m, 1): the terms, last
        for axis, weight in enumerate(self.axes, start=1):
            z = weight(z.movedim(axis, -1)).movedim(-1, axis)
        return z.sum(-1)

    def _through_dense(self, z: Tensor) -> Tensor:
        return modal_sum(z, [weight.dense() for weight in self.axes])


def modal_sum(z: Tensor, weights: Sequence[Tensor]) -> Tensor:
    """sum_k Z x_1 W_1[k] ... x_m W_m[k] for ``z (batch, d_1 .. d_m)`` and ``W_j (terms, e_j, d_j)``."""
    if len(weights) == 1:
        return F.linear(z, weights[0].sum(0))
    first, *middle, last = weights
    terms = last.shape[0]
    z = F.linear(z, last.flatten(0, 1)).unflatten(-1, (terms, -1))  # (batch, d_1 .. d_{m-1}, k, e_m)
    for weight in reversed(middle):  # (batch, .., d_j, k, done) -> (batch, .., k, e_j * done)
        z = torch.einsum("kej,b...jkt->b...ket", weight, z).flatten(-2)
    stacked = first.movedim(0, -1).flatten(-2)  # (e_1, d_1 * k)
    z = torch.matmul(stacked, z.flatten(1, 2).flatten(2))  # (batch, e_1, e_2 * .. * e_m)
    return z.unflatten(-1, [weight.shape[1] for weight in weights[1:]])


class HSSLayer(nn.Module):
    """LeakyReLU_alpha(H(Z)) with a learnable slope alpha: 1 makes the layer linear (Theorem 2.3)."""

    def __init__(self, grid: Sequence[int], levels: int, rank: int, outer_rank: int = 1, way: str = "auto") -> None:
        super().__init__()
        self.linear = HSSMap(grid, grid, levels, rank, outer_rank, way)
        self.slope = nn.Parameter(torch.full((1,), SLOPE))

    def forward(self, z: Tensor) -> Tensor:
        return F.prelu(self.linear(z), self.slope)
