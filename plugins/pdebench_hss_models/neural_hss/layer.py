"""The m-dimensional HSS layer of the paper (Section 2.1).

    H(Z) = sum_{k=1}^{r_out}  Z x_1 W_1^(k) x_2 ... x_m W_m^(k),        W_j^(k) in HSS(r)

where x_j is the product along axis j. The parameters are the telescopic factors and nothing else; in which form they
are applied (`apply`) changes a result by rounding only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from pdebench_hss import counting

from .apply.activation import leaky_relu
from .apply.chain import chain
from .apply.cost import CHAIN, Axis
from .apply.forest import forest_sum
from .apply.modes import modal_sum
from .apply.ways import COUNTED, batches_terms, check_way, cuts, machine_of, pick_triton, through_triton
from .matrix.expand import expand
from .matrix.factors import Factors
from .matrix.parameters import HSSMatrix
from .matrix.tree import deepest

SLOPE = 0.9  # at the start; a model states its own


def way_now(way: str) -> str:
    return COUNTED if counting() else way


class HSSMap(nn.Module):
    """The linear m-dimensional HSS map: ``(batch, *in_grid) -> (batch, *out_grid)``."""

    axes: Sequence[HSSMatrix]  # an nn.ModuleList, whose type has no element type

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
        matrices = nn.ModuleList(
            # A short axis gets a shallower tree than a long one.
            HSSMatrix(out, inn, min(levels, deepest(min(out, inn))), rank, terms=outer_rank)
            for out, inn in zip(out_grid, in_grid, strict=True)
        )
        self.axes = cast(Sequence[HSSMatrix], matrices)
        for weight in self.axes:  # so that the sum of r_out products of m factors is as large as one product
            weight.scale_(outer_rank ** (-0.5 / len(self.axes)))

    def forward(self, z: Tensor, slope: Tensor | None = None) -> Tensor:
        """The map, and LeakyReLU with this slope after it if one is given."""
        points, sizes, way = [weight.shape[0] for weight in self.axes], self.sizes(z), way_now(self.way)
        if pick_triton(way, sizes, z.device, z.dtype):
            return through_triton(z, [weight.factors() for weight in self.axes], points, slope)
        levels = cuts(way, sizes, machine_of(z.device))
        apply = forest_sum if batches_terms(z.device) else modal_sum
        y = apply(z, [weight.cut(level) for weight, level in zip(self.axes, levels, strict=True)], points)
        return y if slope is None else leaky_relu(y, slope)

    def zero_(self) -> None:
        """Make it the zero map. One axis suffices: every term has it as a factor, and its gradient is not zero."""
        self.axes[0].scale_(0.0)

    def sizes(self, z: Tensor) -> list[Axis]:
        """What the cost model needs to know about each axis."""
        rows, sizes = z.shape[0], []
        for j, weight in enumerate(self.axes):  # axes after j are contracted before it, the others later
            (out, inn), alone = weight.shape, len(self.axes) == 1
            others = math.prod(z.shape[1 : j + 1]) * math.prod(w.shape[0] for w in self.axes[j + 1 :])
            sizes.append(Axis(out, inn, weight.levels, weight.rank, weight.terms, rows * others, alone, z.itemsize))
        return sizes


class HSSLayer(nn.Module):
    """LeakyReLU_alpha(H(Z)) with a learnable slope alpha: 1 makes the layer linear (Theorem 2.3)."""

    def __init__(
        self,
        grid: Sequence[int],
        levels: int,
        rank: int,
        outer_rank: int = 1,
        way: str = "auto",
        slope: float = SLOPE,
    ) -> None:
        super().__init__()
        self.linear = HSSMap(grid, grid, levels, rank, outer_rank, way)
        self.slope = nn.Parameter(torch.full((1,), float(slope)))

    def forward(self, z: Tensor) -> Tensor:
        return self.linear(z, self.slope)

    def zero_(self) -> None:
        self.linear.zero_()


class HSSChain(nn.Module):
    """Square HSS maps of one kind on a line, one after the other; the parameters of all lie in the same tensors.

    ``active`` says which of them are followed by LeakyReLU with a learnable slope. ``(batch, points)`` in and out.
    """

    def __init__(
        self,
        points: int,
        levels: int,
        rank: int,
        active: Sequence[bool],
        way: str = "auto",
        slope: float = SLOPE,
    ) -> None:
        super().__init__()
        check_way(way)
        self.way, self.active = way, tuple(active)
        levels = min(levels, deepest(points))
        self.matrices = HSSMatrix(points, points, levels, rank, terms=len(active), apart=True)
        self.slopes = nn.Parameter(torch.full((sum(active),), float(slope)))

    def forward(self, z: Tensor) -> Tensor:
        weight, way, maps = self.matrices, way_now(self.way), self.matrices.factors()
        axis = Axis(*weight.shape, weight.levels, weight.rank, 1, len(z), itemsize=z.itemsize, together=weight.terms)
        if pick_triton(way, [axis], z.device, z.dtype):
            return self.one_by_one(z, maps, partial(through_triton, points=weight.shape[:1]))
        if z.device.type == "cpu" and not torch.compiler.is_compiling():  # a graph needs no derivative by hand
            return chain(z, expand(maps, *cuts(way, [axis], CHAIN)), self.slopes, self.active)
        return self.one_by_one(z, expand(maps, *cuts(way, [axis], machine_of(z.device))), forest_map)

    @torch.no_grad()
    def zero_(self) -> None:
        """Make the last map, and so the chain, zero."""
        for outermost in self.matrices.outermost:
            outermost[-1].zero_()

    def one_by_one(self, z: Tensor, maps: Factors, apply: Callable[..., Tensor]) -> Tensor:
        """``apply(z, [matrix], slope=..)`` for each map."""
        slopes = iter(self.slopes.split(1))
        for active, *blocks in zip(self.active, *(block.split(1) for block in maps.blocks), strict=True):
            z = apply(z, [Factors.of(blocks)], slope=next(slopes) if active else None)
        return z


def forest_map(z: Tensor, axes: Sequence[Factors], slope: Tensor | None) -> Tensor:
    y = forest_sum(z, axes, z.shape[1:])
    return y if slope is None else leaky_relu(y, slope)
