"""Fourier Neural Operator in any dimension (Li et al. 2021).

    v_0     = P (u, x)                                         pointwise lift of the field and the coordinates
    v_{l+1} = gelu( F^-1( R_l . F v_l ) + W_l v_l + b_l )      no gelu after the last layer
    M(u)    = Q v_L                                            pointwise projection

The transform wraps around even if the domain is not periodic; ``padding`` points of zeros beyond the end of each axis
keep its two ends apart. They are added to v_0 and cut off v_L.

R_l is one complex width x width matrix for each kept frequency: |k_j| below ``modes`` on every axis (with k = -modes
on all axes but the last, whose negative half follows from the field being real). Parameters, a complex one counted
as two reals:

    layers * (2 * (2 modes)^(dim-1) * modes * width^2 + (width + 1) * width)
    + (in_channels + dim + 1) * width + (width + 1) * out_channels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from types import EllipsisType
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pdebench_hss import TaskInfo, counting

from .truncated import fourier_layer
from .ways import COUNTED, check_way, way_taken


class FNO(nn.Module):
    unit_coords: Tensor  # (1, dim, *grid)
    layers: Sequence[FourierLayer]  # an nn.ModuleList, whose type has no element type

    def __init__(
        self, task: TaskInfo, layers: int, width: int, modes: int, padding: int = 0, way: str = "auto"
    ) -> None:
        super().__init__()
        check_way(way)
        if layers < 1:
            raise ValueError(f"fno: layers={layers}, but it needs at least one")
        if padding < 0:
            raise ValueError(f"fno: padding={padding} must not be negative")
        self.margin = (0, padding) * task.dim
        self.inside: tuple[Any, ...] = (..., *(slice(n) for n in task.grid))
        self.padded = tuple(n + padding for n in task.grid)
        limit = min(task.grid) // 2
        if not 1 <= modes <= limit:
            raise ValueError(f"fno: modes={modes}, but a grid of {task.grid} has 1 to {limit} modes per sign")
        self.way, self.modes = way, modes
        self.register_buffer("unit_coords", torch.as_tensor(unit_box(task))[None], persistent=False)
        # P (u, x) = P_u u + P_x x: the second part is the same for the whole batch.
        self.lift = Pointwise(task.in_channels, width)
        self.lift_coords = Pointwise(task.dim, width, bias=False)
        fourier_layers = nn.ModuleList(FourierLayer(task.dim, width, modes) for _ in range(layers))
        self.layers = cast(Sequence[FourierLayer], fourier_layers)
        self.projection = Pointwise(width, task.out_channels)

    def forward(self, u: Tensor) -> Tensor:
        way = COUNTED if counting() else way_taken(self.way, self.padded, self.modes, u.device)
        return self.by_products(u) if way == "dft" else self.by_ffts(u)

    def by_ffts(self, u: Tensor) -> Tensor:
        v = self.lift(u) + self.lift_coords(self.unit_coords)  # (batch, width, *grid)
        v = F.pad(v, self.margin)  # (batch, width, n_1 + padding, ..., n_dim + padding)
        for layer in self.layers[:-1]:
            v = F.gelu(layer(v))
        return self.projection(self.layers[-1](v)[self.inside])  # (batch, out_channels, *grid)

    def by_products(self, u: Tensor) -> Tensor:
        """P and Q are linear, and so are the first and last layers before gelu, so they are multiplied together."""
        parts = [self.lift.weight, self.lift_coords.weight, self.lift.bias[:, None, None]]
        lift = torch.cat(parts, 1)[..., 0]  # (width, in_channels + dim + 1)
        coords = self.unit_coords.expand(len(u), *self.unit_coords.shape[1:])
        v = torch.cat([u, coords, torch.ones_like(u[:, :1])], 1)  # (batch, in_channels + dim + 1, *grid)
        v = F.pad(v, self.margin)  # where there are zeros, the lift's bias is zero too
        last = len(self.layers) - 1
        for i, layer in enumerate(self.layers):
            weight, bypass, bias = layer.spectral.weight, layer.bypass.weight[..., 0], layer.bypass.bias
            if i == 0:
                weight, bypass = with_inputs(weight, lift), bypass @ lift
            if i == last:
                q = self.projection.weight[..., 0]  # (out_channels, width)
                weight, bypass, bias = with_outputs(weight, q), q @ bypass, q @ bias + self.projection.bias
            v = fourier_layer(v, weight, bypass, bias, activate=i < last)
        return v[self.inside]


def with_inputs(weight: Tensor, lift: Tensor) -> Tensor:
    """R of the lifted inputs: ``(width, out, *kept), (width, in) -> (in, out, *kept)``"""
    pairs = torch.view_as_real(weight)
    return torch.view_as_complex((lift.T @ pairs.flatten(1)).view(-1, *pairs.shape[1:]))


def with_outputs(weight: Tensor, projection: Tensor) -> Tensor:
    """The projected outputs of R: ``(in, width, *kept), (out, width) -> (in, out, *kept)``"""
    pairs = torch.view_as_real(weight)
    projected = torch.bmm(projection.expand(len(pairs), -1, -1), pairs.flatten(2))
    return torch.view_as_complex(projected.unflatten(2, pairs.shape[2:]))


class FourierLayer(nn.Module):
    def __init__(self, dim: int, width: int, modes: int) -> None:
        super().__init__()
        self.spectral = SpectralConvolution(dim, width, modes)
        self.bypass = Pointwise(width, width)

    def forward(self, v: Tensor) -> Tensor:
        return self.spectral(v) + self.bypass(v)


class SpectralConvolution(nn.Module):
    """F^-1 (R . F v): frequencies are stored in the FFT's order, 0..modes-1 and -modes..-1 along each axis."""

    weight: Tensor  # (in, out, *kept), complex

    def __init__(self, dim: int, width: int, modes: int) -> None:
        super().__init__()
        kept = (2 * modes,) * (dim - 1) + (modes,)
        weight = torch.rand(width, width, *kept, dtype=torch.cfloat)
        self.weight = nn.Parameter(weight / width**2)
        low, high = slice(0, modes), slice(-modes, None)
        self.corners: list[tuple[EllipsisType | slice, ...]] = [
            (..., *sides, low) for sides in product((low, high), repeat=dim - 1)
        ]
        self.axes = tuple(range(-dim, 0))

    def forward(self, v: Tensor) -> Tensor:
        spectrum = torch.fft.rfftn(v, dim=self.axes)  # (batch, width, n_1, ..., n_dim / 2 + 1)
        kept = torch.zeros_like(spectrum)
        for corner in self.corners:
            kept[corner] = torch.einsum("bi...,io...->bo...", spectrum[corner], self.weight[corner])
        return torch.fft.irfftn(kept, s=v.shape[2:], dim=self.axes)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> nn.Module:
        """Changes of dtype treat complex weights as pairs of reals; ``.to(float64)`` would drop the imaginary parts."""

        def on_pairs(t: Tensor) -> Tensor:
            return torch.view_as_complex(fn(torch.view_as_real(t))) if t.is_complex() else fn(t)

        return super()._apply(on_pairs, recurse)


class Pointwise(nn.Conv1d):
    """The same linear map of channels at every point of a grid of any dimension."""

    bias: Tensor  # None with bias=False, where it is not used

    def __init__(self, inputs: int, outputs: int, bias: bool = True) -> None:
        super().__init__(inputs, outputs, kernel_size=1, bias=bias)

    def forward(self, v: Tensor) -> Tensor:
        return super().forward(v.flatten(2)).unflatten(2, v.shape[2:])


def unit_box(task: TaskInfo) -> np.ndarray:
    """Coordinates scaled to [0, 1], ``(dim, *grid)`` in float32."""
    low, high = np.array(task.domain).T.reshape(2, task.dim, *(1,) * task.dim)
    return ((task.coords - low) / (high - low)).astype(np.float32)
