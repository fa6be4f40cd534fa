"""FactFormer in 2D (Li, Shu and Barati Farimani 2023), as the paper uses it for steady problems.

    v    = P u                                                     pointwise lift to width d
    v    = v + W gamma(x, y),   v = v + FA(v)                      for each of ``depth`` layers
    w    = up(conv gelu conv_2 IN(v)),   w = conv gelu conv w      half resolution and back, d/2 channels
    M(u) = Q gelu(Q_1 GN(v, w))

gamma are fixed Gaussian Fourier features, conv_2 has stride 2, IN and GN are instance and group norm. Parameters for
d a multiple of 8, with H = heads * head_dim and K = H * kernel_multiplier:

    (in_channels + 1) d + depth (11 d^2 + 13 d + 2 d H + 4 d K) + 15.5 d^2 + 6.5 d + (d + 1) out_channels.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pdebench_hss import TaskInfo

from .attention import FactorizedAttention


class FactFormer(nn.Module):
    def __init__(
        self, task: TaskInfo, width: int, depth: int, heads: int, head_dim: int, kernel_multiplier: int
    ) -> None:
        super().__init__()
        kernel_dim = head_dim * kernel_multiplier
        if kernel_dim % 2:
            raise ValueError(f"factformer: head_dim * kernel_multiplier = {kernel_dim} must be even (rotary code)")
        low, high = np.array(task.domain).T.reshape(2, 2, 1, 1)
        unit = torch.as_tensor(((task.coords - low) / (high - low)).astype(np.float32))  # (2, n_x, n_y)
        self.lift = nn.Linear(task.in_channels, width)
        self.positions = nn.ModuleList(PositionCode(unit, width) for _ in range(depth))
        self.attentions = nn.ModuleList(
            FactorizedAttention(unit[0, :, 0], unit[1, 0, :], width, heads, head_dim, kernel_dim) for _ in range(depth)
        )
        self.tail = Tail(width, task.out_channels, "circular" if task.periodic else "zeros")

    def forward(self, u: Tensor) -> Tensor:
        v = self.lift(u.permute(0, 2, 3, 1))  # (batch, n_x, n_y, d)
        for position, attention in zip(self.positions, self.attentions, strict=True):
            v = v + position()
            v = v + attention(v)
        return self.tail(v.permute(0, 3, 1, 2))  # (batch, out_channels, n_x, n_y)


class PositionCode(nn.Module):
    """A learned linear map of sin and cos of linear functions of (x, y), drawn once from a normal distribution."""

    unit: Tensor  # (n_x, n_y, 2)
    directions: Tensor  # (2, d / 2)

    def __init__(self, unit: Tensor, width: int) -> None:
        super().__init__()
        self.register_buffer("unit", unit.permute(1, 2, 0), persistent=False)
        self.register_buffer("directions", torch.randn(2, -(-width // 2)))
        self.linear = nn.Linear(2 * self.directions.shape[1], width)

    def forward(self) -> Tensor:
        phase = 2 * math.pi * self.unit @ self.directions
        return self.linear(torch.cat([phase.sin(), phase.cos()], dim=-1))  # (n_x, n_y, d)


class Tail(nn.Module):
    """Mix neighbours at half resolution, then combine with the original features point by point."""

    def __init__(self, width: int, out_channels: int, padding: Literal["zeros", "circular"]) -> None:
        super().__init__()
        half = -(-width // 2)

        def convolution(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
            return nn.Conv2d(inputs, outputs, 3, stride, padding=1, padding_mode=padding)

        self.down = nn.Sequential(convolution(width, half, stride=2), nn.GELU(), convolution(half, half))
        self.up = nn.Sequential(convolution(half, half), nn.GELU(), convolution(half, width))
        self.norm = nn.GroupNorm(math.gcd(8, 2 * width), 2 * width)
        self.mix = nn.Conv2d(2 * width, width, 1, bias=False)
        self.projection = nn.Conv2d(width, out_channels, 1)

    def forward(self, v: Tensor) -> Tensor:
        coarse = self.down(F.instance_norm(v))  # (batch, d / 2, n_x / 2, n_y / 2)
        w = self.up(F.interpolate(coarse, size=v.shape[2:], mode="nearest"))  # (batch, d, n_x, n_y)
        return self.projection(F.gelu(self.mix(self.norm(torch.cat([w, v], dim=1)))))
