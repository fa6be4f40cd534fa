"""Maps between a task's channels and the one field that the HSS layers act on: the lift and the projection.

Fields  (batch, channels, *grid)  ->  (batch, channels', *grid').  Linear, without bias; ``zero_`` makes a map zero in
such a way that gradients still reach it. Kinds:

    none    nothing: one channel, same grid
    hss     out_o = sum_c H_oc(Z_c), an m-dimensional HSS map for each pair of channels
    dense   out_o = sum_c Z_c x_1 A_oc^(1) ... x_m A_oc^(m), full matrices ("full-rank" in the paper)
    cp      the low-rank tensor map of the paper's appendix on systems of PDEs,
            W = sum_i c_i u_i^(0) o ... o u_i^(m) o v_i^(0) o ... o v_i^(m),  axis 0 being the channel.
            Only R numbers per sample pass through it: a bottleneck, offered because the paper describes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import cast

import torch
from torch import Tensor, nn

from .apply.modes import modal_sum
from .layer import HSSMap
from .matrix.factors import Factors

KINDS = ("none", "hss", "dense", "cp")


def field_map(
    kind: str,
    channels: tuple[int, int],
    grids: tuple[Sequence[int], Sequence[int]],
    *,
    levels: int,
    rank: int,
    outer_rank: int,
    cp_rank: int,
    way: str,
) -> nn.Module:
    """The map of this kind from ``channels[0]`` fields on ``grids[0]`` to ``channels[1]`` on ``grids[1]``."""
    in_grid, out_grid = grids
    if kind == "none":
        if channels != (1, 1) or tuple(in_grid) != tuple(out_grid):
            raise ValueError(
                f"'none' can't map {channels[0]} channel(s) on {tuple(in_grid)} to {channels[1]} on {tuple(out_grid)};"
                " choose lift/projection 'hss' or 'dense'"
            )
        return nn.Identity()
    if kind == "hss":
        return ChannelSum(channels, lambda: HSSMap(out_grid, in_grid, levels, rank, outer_rank, way))
    if kind == "dense":
        return ChannelSum(channels, lambda: DenseMap(out_grid, in_grid))
    if kind == "cp":
        return CPMap(channels, grids, cp_rank)
    raise ValueError(f"lift/projection {kind!r} is not one of {', '.join(KINDS)}")


class ChannelSum(nn.Module):
    """out_o = sum_c M_oc(in_c): a map of its own for each pair of channels."""

    maps: Sequence[Sequence[HSSMap | DenseMap]]  # lists of torch, whose type has no element type

    def __init__(self, channels: tuple[int, int], make: Callable[[], HSSMap | DenseMap]) -> None:
        super().__init__()
        ins, outs = channels
        maps = nn.ModuleList(nn.ModuleList(make() for _ in range(ins)) for _ in range(outs))
        self.maps = cast(Sequence[Sequence[HSSMap | DenseMap]], maps)

    def forward(self, x: Tensor) -> Tensor:
        fields = x.unbind(1)
        sums = [reduce(add, (m(z) for m, z in zip(row, fields, strict=True))) for row in self.maps]
        return torch.stack(sums, dim=1) if len(sums) > 1 else sums[0].unsqueeze(1)

    def zero_(self) -> None:
        for row in self.maps:
            for one in row:
                one.zero_()


class DenseMap(nn.Module):
    """Z x_1 A^(1) ... x_m A^(m) with full matrices: ``(batch, *in_grid) -> (batch, *out_grid)``."""

    def __init__(self, out_grid: Sequence[int], in_grid: Sequence[int]) -> None:
        super().__init__()
        self.axes = nn.ParameterList(nn.Parameter(torch.empty(1, e, d)) for e, d in zip(out_grid, in_grid, strict=True))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for weight in self.axes:
            nn.init.normal_(weight, std=1 / math.sqrt(weight.shape[-1]))

    @torch.no_grad()
    def zero_(self) -> None:
        self.axes[0].zero_()

    def forward(self, z: Tensor) -> Tensor:
        matrices = [Factors((weight.unsqueeze(1),), (), ()) for weight in self.axes]
        return modal_sum(z, matrices, [weight.shape[1] for weight in self.axes])


class CPMap(nn.Module):
    """All channels at once through R inner products: ``(batch, ins, *in_grid) -> (batch, outs, *out_grid)``."""

    def __init__(self, channels: tuple[int, int], grids: tuple[Sequence[int], Sequence[int]], rank: int) -> None:
        super().__init__()
        if rank < 1:
            raise ValueError(f"cp_rank={rank} must be at least 1")
        ins, outs = (channels[0], *grids[0]), (channels[1], *grids[1])
        self.v = nn.ParameterList(nn.Parameter(torch.randn(rank, n) / math.sqrt(n)) for n in ins)
        self.u = nn.ParameterList(nn.Parameter(torch.randn(rank, n)) for n in outs)
        self.c = nn.Parameter(torch.full((rank,), 1 / math.sqrt(rank)))

    @torch.no_grad()
    def zero_(self) -> None:
        self.c.zero_()

    def forward(self, x: Tensor) -> Tensor:
        *outer, last = self.v
        z = torch.einsum("...n,rn->...r", x, last)  # (batch, ins, d_1 .. d_{m-1}, R)
        for v in reversed(outer):
            z = torch.einsum("...nr,rn->...r", z, v)
        z = self.c * z  # (batch, R)
        *outer, last = self.u
        for u in outer:
            z = torch.einsum("...r,rn->...nr", z, u)
        return torch.einsum("...r,rn->...n", z, last)
