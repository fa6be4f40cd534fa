"""Layers with HSS weights: the matrix as parameters, and the m-dimensional layer of the paper (Section 2.1).

    H(Z) = sum_{k=1}^{r_out}  Z x_1 W_1^(k) x_2 ... x_m W_m^(k),        W_j^(k) in HSS(r)

where x_j is the product along axis j. The parameters are the telescopic factors and nothing else; in which form they
are applied (`ways`, `cost`) changes a result by rounding only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pdebench_hss import counting

from .activation import leaky_relu
from .cost import Axis
from .expand import expand
from .factors import Factors, apply_tree
from .forest import forest_sum
from .modes import modal_sum
from .tree import check_tree, deepest, leaf_size
from .ways import COUNTED, batches_terms, check_way, cuts, pick_triton, through_triton

GAIN, SLOPE = 0.67, 0.9  # chosen by benchmarks/neural_hss_init.py for all tasks


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
        # The dictionaries behind the lists: iterating over a ParameterList takes longer than a small product.
        return Factors(*(tuple(blocks._parameters.values()) for blocks in (self.D, self.U, self.V)))

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
        check_way(way)
        self.way = way
        self.axes = nn.ModuleList(
            # A short axis gets a shallower tree than a long one.
            HSSMatrix(out, inn, min(levels, deepest(min(out, inn))), rank, terms=outer_rank)
            for out, inn in zip(out_grid, in_grid)
        )
        for weight in self.axes:  # the sum of r_out products of m factors is then as large as one product
            weight.scale_(outer_rank ** (-0.5 / len(self.axes)))

    def forward(self, z: Tensor, slope: Tensor | None = None) -> Tensor:
        """The map, and LeakyReLU with this slope after it if one is given."""
        points, sizes = [weight.shape[0] for weight in self.axes], self.sizes(z)
        way = COUNTED if counting() else self.way
        if pick_triton(way, sizes, z.device, z.dtype):
            return through_triton(z, [weight.factors() for weight in self.axes], points, slope)
        levels = cuts(way, sizes, z.device)
        apply = forest_sum if batches_terms(z.device) else modal_sum
        y = apply(z, [weight.cut(level) for weight, level in zip(self.axes, levels)], points)
        return y if slope is None else leaky_relu(y, slope)

    def sizes(self, z: Tensor) -> list[Axis]:
        """What the cost model wants to know of each axis."""
        rows, sizes = z.shape[0], []
        for j, weight in enumerate(self.axes):  # when axis j is contracted those after it have been, those before not
            (out, inn), alone = weight.shape, len(self.axes) == 1
            others = math.prod(z.shape[1 : j + 1]) * math.prod(w.shape[0] for w in self.axes[j + 1 :])
            sizes.append(Axis(out, inn, weight.levels, weight.rank, weight.terms, rows * others, alone, z.itemsize))
        return sizes


class HSSLayer(nn.Module):
    """LeakyReLU_alpha(H(Z)) with a learnable slope alpha: 1 makes the layer linear (Theorem 2.3)."""

    def __init__(self, grid: Sequence[int], levels: int, rank: int, outer_rank: int = 1, way: str = "auto") -> None:
        super().__init__()
        self.linear = HSSMap(grid, grid, levels, rank, outer_rank, way)
        self.slope = nn.Parameter(torch.full((1,), SLOPE))

    def forward(self, z: Tensor) -> Tensor:
        return self.linear(z, self.slope)
