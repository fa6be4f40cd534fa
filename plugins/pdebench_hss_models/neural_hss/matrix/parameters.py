"""HSS matrices as parameters: the telescopic factors, their initialisation and their products."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .expand import expand
from .factors import Factors
from .sweep import apply_tree
from .tree import check_tree, leaf_size

GAIN = 0.67  # chosen by benchmarks/neural_hss_init.py for all tasks


class HSSMatrix(nn.Module):
    """``terms`` HSS matrices of one shape, depth and rank, as parameters in telescopic storage.

    Points that the leaves can't share evenly are padded inside: the caller sees (out_points, in_points). ``apart``
    draws the terms one after the other: each starts as a matrix of its own would.
    """

    def __init__(
        self, out_points: int, in_points: int, levels: int, rank: int, terms: int = 1, apart: bool = False
    ) -> None:
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
        for drawn in [slice(k, k + 1) for k in range(terms)] if apart else [slice(terms)]:
            self.draw(drawn)

    @torch.no_grad()
    def draw(self, terms: slice) -> None:
        """Normal, two thirds of the scale that keeps a signal's size in each factor; docs/models.md has the study."""
        factors = self.factors()
        for d in factors.D:
            d[terms].normal_(std=GAIN / math.sqrt(d.shape[-1]))
        for u, v in zip(factors.U, factors.V, strict=True):
            u[terms].normal_(std=GAIN / math.sqrt(self.rank))
            v[terms].normal_(std=GAIN / math.sqrt(v.shape[-2]))

    @torch.no_grad()
    def scale_(self, factor: float) -> None:
        """Multiply the matrices by a number."""
        for outermost in self.outermost:
            outermost.mul_(factor)

    @property
    def outermost(self) -> list[Tensor]:
        """Every entry of a matrix is linear in these together: D and U of the leaves."""
        factors = self.factors()
        return [factors.D[0], *factors.U[:1]]

    def factors(self) -> Factors:
        # The dictionaries behind the lists: iterating over a ParameterList takes longer than a small product.
        lists: tuple[Any, ...] = (self.D, self.U, self.V)  # Any: torch allows parameters that are None; here none is
        return Factors(*(tuple(blocks._parameters.values()) for blocks in lists))

    def cut(self, level: int) -> Factors:
        """The matrices as trees of ``level`` levels; without padding if that is 0."""
        a = expand(self.factors(), level)
        if level or a.shape == self.shape:
            return a
        return Factors((a.D[0][..., : self.shape[0], : self.shape[1]],), (), ())

    def dense(self) -> Tensor:
        """``(terms, out_points, in_points)``"""
        return self.cut(0).D[0].squeeze(1)

    def forward(self, x: Tensor) -> Tensor:
        """``(..., terms or 1, in_points) -> (..., terms, out_points)`` by Algorithm 1."""
        padding = self.factors().shape[1] - self.shape[1]
        x = F.pad(x, (0, padding)) if padding else x
        return apply_tree(self.factors(), x)[..., : self.shape[0]]

    def extra_repr(self) -> str:
        return f"{self.shape[0]}x{self.shape[1]}, levels={self.levels}, rank={self.rank}, terms={self.terms}"
