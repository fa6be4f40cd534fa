"""Neural-HSS (Section 2.1): lift, HSS layers with learnable LeakyReLU slopes, projection. No biases.

    x -> lift -> H_1 -> ... -> H_layers -> projection,      H_i(Z) = LeakyReLU_{alpha_i}(HSS map of Z)

All layers act on one field of size embed x ... x embed. The lift has a map for each input channel and sums them; the
projection has a map for each output channel (see `lift`). Input channels that are numbers rather than fields (constant
over the grid, like Gray-Scott's f and k) would waste a map: the last ``scalars`` channels enter as their mean times a
learned rank-one field.

How it starts (docs/models.md has the study): every factor is normal; then, with ``init="zero"``, the last map is made
zero, so that the network starts as the zero map and grows from there. All slopes start at ``slope``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from .layer import SLOPE, HSSChain, HSSLayer
from .lift import field_map

INITS = ("zero", "normal")

if TYPE_CHECKING:
    from pdebench_hss import TaskInfo


class NeuralHSS(nn.Module):
    """(batch, in_channels, *grid) -> (batch, out_channels, *grid).

    levels, rank    depth of the cluster tree and HSS rank, along each axis
    outer_rank      terms r_out of an m-dimensional layer
    layers          HSS layers, each with its activation
    embed           points of the inner field along each axis; 0 means the task's own grid
    lift, projection    none, hss, dense or cp
    scalars         how many of the last input channels are constant over the grid
    cp_rank         terms of a cp lift or projection
    way             how factors are applied: tree, collapsed, dense, triton, or auto (the one expected to be fastest)
    init            zero: starts as the zero map; normal: as a random one
    slope           where the slopes of LeakyReLU start; at 1 the network starts linear
    """

    def __init__(
        self,
        task: TaskInfo,
        *,
        levels: int,
        rank: int,
        outer_rank: int = 1,
        layers: int = 3,
        embed: int = 0,
        lift: str = "none",
        projection: str = "none",
        scalars: int = 0,
        cp_rank: int = 64,
        way: str = "auto",
        init: str = "zero",
        slope: float = SLOPE,
    ) -> None:
        super().__init__()
        if init not in INITS:
            raise ValueError(f"init {init!r} is not one of {', '.join(INITS)}")
        if not 0 <= scalars < task.in_channels:
            raise ValueError(
                f"scalars={scalars} must be at least 0 and leave a field among the {task.in_channels} input channels"
            )
        if layers < 1:
            raise ValueError(f"layers={layers} must be at least 1")
        grid = tuple(task.grid)
        inner = (embed,) * task.dim if embed else grid
        fields = task.in_channels - scalars
        tree: dict[str, Any] = {"levels": levels, "rank": rank, "outer_rank": outer_rank, "way": way}
        on_line = task.dim == 1 and outer_rank == 1
        # A lift or projection that is an HSS map like the layers' becomes part of the chain.
        first = on_line and lift == "hss" and grid == inner and task.in_channels == 1
        last = on_line and projection == "hss" and grid == inner and task.out_channels == 1
        self.lift = field_map("none" if first else lift, (fields, 1), (grid, inner), cp_rank=cp_rank, **tree)
        self.scalars = ScalarFields(scalars, inner) if scalars else None
        self.layers: nn.Module
        if on_line:
            active = [False] * first + [True] * layers + [False] * last
            self.layers = HSSChain(inner[0], levels, rank, active, way, slope)
        else:
            self.layers = nn.Sequential(*(HSSLayer(inner, **tree, slope=slope) for _ in range(layers)))
        projection = "none" if last else projection
        self.projection = field_map(projection, (1, task.out_channels), (inner, grid), cp_rank=cp_rank, **tree)
        if init == "zero":
            self.last_map.zero_()

    @property
    def last_map(self) -> Any:
        if not isinstance(self.projection, nn.Identity):
            return self.projection
        return self.layers[-1] if isinstance(self.layers, nn.Sequential) else self.layers

    def forward(self, x: Tensor) -> Tensor:
        if self.scalars is None:
            z = self.lift(x)
        else:
            split = x.shape[1] - self.scalars.count
            z = self.lift(x[:, :split]) + self.scalars(x[:, split:])
        z = self.layers(z.squeeze(1))  # (batch, *inner)
        y = self.projection(z.unsqueeze(1))
        return y.contiguous()  # a loss takes several times as long on another memory layout


class ScalarFields(nn.Module):
    """sum_c mean(x_c) a_c^(1) o ... o a_c^(m): ``(batch, count, *grid) -> (batch, 1, *inner)``."""

    def __init__(self, count: int, inner: tuple[int, ...]) -> None:
        super().__init__()
        self.count = count
        self.axes = nn.ParameterList(nn.Parameter(torch.ones(count, n)) for n in inner)  # starts as the constant

    def forward(self, x: Tensor) -> Tensor:
        field = x.flatten(2).mean(-1)  # (batch, count)
        *outer, last = self.axes
        for axis in outer:
            field = torch.einsum("b...c,cn->b...nc", field, axis)
        return torch.einsum("b...c,cn->b...n", field, last).unsqueeze(1)
