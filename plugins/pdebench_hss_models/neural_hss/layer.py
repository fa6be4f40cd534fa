"""The m-dimensional HSS layer of the paper (Section 2.1).

    H(Z) = sum_{k=1}^{r_out}  Z x_1 W_1^(k) x_2 ... x_m W_m^(k),        W_j^(k) in HSS(r)

where x_j is the product along axis j. The parameters are the telescopic factors and nothing else; in which form they
are applied (`apply`) changes a result by rounding only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pdebench_hss.counting import counting

from .apply.activation import leaky_relu
from .apply.chain import Link, chain
from .apply.cost import Axis
from .apply.forest import forest_sum
from .apply.modes import modal_sum
from .apply.ways import COUNTED, batches_terms, check_way, cuts, pick_triton, through_triton
from .matrix.expand import expand_together
from .matrix.factors import Factors
from .matrix.parameters import HSSMatrix
from .matrix.tree import deepest

SLOPE = 0.9  # chosen by benchmarks/neural_hss_init.py for all tasks


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
        return follow(z, [(self, slope)])

    def axis_by_axis(self, z: Tensor, slope: Tensor | None) -> Tensor:
        """The map in any number of dimensions, by itself."""
        points, sizes = [weight.shape[0] for weight in self.axes], self.sizes(z)
        way = self.way_now()
        if pick_triton(way, sizes, z.device, z.dtype):
            return through_triton(z, [weight.factors() for weight in self.axes], points, slope)
        levels = cuts(way, sizes, z.device)
        apply = forest_sum if batches_terms(z.device) else modal_sum
        y = apply(z, [weight.cut(level) for weight, level in zip(self.axes, levels)], points)
        return y if slope is None else leaky_relu(y, slope)

    def way_now(self) -> str:
        return COUNTED if counting() else self.way

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


Step = tuple[HSSMap, Tensor | None]  # a map, and the slope of the LeakyReLU behind it if there is one


def follow(z: Tensor, steps: Sequence[Step]) -> Tensor:
    """``(batch, *grid)`` through maps one after the other; single matrices on a CPU as one chain."""
    weights, (way, *others) = [one.axes[0] for one, _ in steps], {one.way_now() for one, _ in steps}
    single = z.dim() == 2 and all(weight.terms == 1 for weight in weights)
    if single and z.device.type == "cpu" and way != "triton" and not others:
        trees = cut_alike(weights, way, z)
        return chain(z, [Link(a, weight.shape[0], slope) for a, weight, (_, slope) in zip(trees, weights, steps)])
    for one, slope in steps:
        z = one.axis_by_axis(z, slope)
    return z


def cut_alike(weights: Sequence[HSSMatrix], way: str, z: Tensor) -> list[Factors]:
    """Every matrix cut as this way says; those of one kind together."""
    alike: dict[tuple[int, ...], list[int]] = {}
    for i, weight in enumerate(weights):
        alike.setdefault(weight.kind, []).append(i)
    trees: dict[int, Factors] = {}
    for kind, members in alike.items():
        (cut,) = cuts(way, [Axis(*kind, rows=len(z), itemsize=z.itemsize, together=len(members))], z.device)
        trees.update(zip(members, expand_together([weights[i].factors() for i in members], cut)))
    return [trees[i] for i in range(len(weights))]
