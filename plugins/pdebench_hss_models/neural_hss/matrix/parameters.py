"""HSS matrices as parameters: the telescopic factors, their initialisation and their products."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
        """Normal, two thirds of the scale that keeps a signal's size in each factor; docs/models.md has the study."""
        for d in self.D:
            nn.init.normal_(d, std=GAIN / math.sqrt(d.shape[-1]))
        for u, v in zip(self.U, self.V, strict=True):
            nn.init.normal_(u, std=GAIN / math.sqrt(self.rank))
            nn.init.normal_(v, std=GAIN / math.sqrt(v.shape[-2]))

    @torch.no_grad()
    def scale_(self, factor: float) -> None:
        """Multiply the matrices by a number."""
        for outermost in self.outermost:
            outermost.mul_(factor)

    @property
    def outermost(self) -> list[nn.Parameter]:
        """Every entry of a matrix is linear in these together: D and U of the leaves."""
        return [self.D[0], *self.U[:1]]

    def factors(self) -> Factors:
        # The dictionaries behind the lists: iterating over a ParameterList takes longer than a small product.
        lists: tuple[Any, ...] = (self.D, self.U, self.V)  # Any: torch allows parameters that are None; here none is
        return Factors(*(tuple(blocks._parameters.values()) for blocks in lists))

    @classmethod
    def stack(cls, matrices: Sequence[HSSMatrix]) -> HSSMatrix:
        """Matrices of one shape, depth and rank as the terms of one, with the values that they have."""
        one = matrices[0]
        with torch.random.fork_rng(devices=[]):  # its initial values are not used, so no random numbers are drawn
            stacked = cls(*one.shape, one.levels, one.rank, terms=sum(matrix.terms for matrix in matrices))
        with torch.no_grad():
            for block, *parts in zip(
                stacked.factors().blocks, *(matrix.factors().blocks for matrix in matrices), strict=True
            ):
                torch.cat(parts, out=block)
        return stacked

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
