"""Factorised attention on a 2D grid (Li, Shu and Barati Farimani 2023, section 3).

Attention between all n_x n_y points is replaced by one kernel for each axis. With u of width d at each point,

    v   = W_v LN(u)                                        (n_x, n_y, H),  H = heads * head_dim
    phi = MLP(LN(W_axis W_in mean_{other axis} LN(u)))     (n_axis, d)
    A   = rotary(W_q phi) rotary(W_k phi)^T                (heads, n_axis, n_axis), no softmax
    z   = A_x v A_y^T                                      one head at a time
    FA(u) = W_2 gelu(W_1 GN(z))                            (n_x, n_y, d)

The authors average after W_axis W_in. Both are linear, so averaging first gives the same numbers at 1/n of the cost.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ROTARY_BASE = 10_000.0
ROTARY_SCALE = 64.0  # the unit interval is 64 positions long


class FactorizedAttention(nn.Module):
    def __init__(self, x: Tensor, y: Tensor, width: int, heads: int, head_dim: int, kernel_dim: int) -> None:
        """``x``, ``y``: the coordinates of each axis in [0, 1]."""
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.values = nn.Linear(width, heads * head_dim, bias=False)
        self.pooled_in = nn.Linear(width, width, bias=False)
        self.kernel_x = AxisKernel(x, width, heads, kernel_dim)
        self.kernel_y = AxisKernel(y, width, heads, kernel_dim)
        self.out = nn.Sequential(
            nn.Linear(heads * head_dim, width, bias=False), nn.GELU(), nn.Linear(width, width, bias=False)
        )

    def forward(self, u: Tensor) -> Tensor:
        u = self.norm(u)  # (batch, n_x, n_y, d)
        kernel_x = self.kernel_x(self.pooled_in(u.mean(dim=2)))  # (batch, heads, n_x, n_x)
        kernel_y = self.kernel_y(self.pooled_in(u.mean(dim=1)))  # (batch, heads, n_y, n_y)
        v = self.values(u).unflatten(-1, (self.heads, -1))  # (batch, n_x, n_y, heads, head_dim)
        z = torch.einsum("bhij,bjmhc->bhcim", kernel_x, v)
        z = torch.einsum("bhlm,bhcim->bhcil", kernel_y, z).flatten(1, 2)  # (batch, H, n_x, n_y)
        z = F.group_norm(z, self.heads)
        return self.out(z.permute(0, 2, 3, 1))  # (batch, n_x, n_y, d)


class AxisKernel(nn.Module):
    """A = rotary(q) rotary(k)^T along one axis, from features averaged over the other."""

    cos: Tensor  # (n, kernel_dim / 2)
    sin: Tensor

    def __init__(self, coordinate: Tensor, width: int, heads: int, kernel_dim: int) -> None:
        super().__init__()
        self.heads = heads
        self.inner = nn.Linear(width, width, bias=False)
        self.norm = nn.LayerNorm(width)
        self.gated = nn.Linear(width, 2 * width)
        self.mix = nn.Linear(width, width)
        self.queries = nn.Linear(width, heads * kernel_dim, bias=False)
        self.keys = nn.Linear(width, heads * kernel_dim, bias=False)
        frequencies = ROTARY_BASE ** (-torch.arange(0, kernel_dim, 2) / kernel_dim)  # (kernel_dim / 2,)
        angles = ROTARY_SCALE * coordinate[:, None] * frequencies
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, pooled: Tensor) -> Tensor:
        gate, value = self.gated(self.norm(self.inner(pooled))).chunk(2, dim=-1)
        features = self.mix(F.gelu(gate) * value)  # (batch, n, d)
        return self._turned(self.queries(features)) @ self._turned(self.keys(features)).transpose(-1, -2)

    def _turned(self, x: Tensor) -> Tensor:
        """Split into heads and rotate each pair (a, b) by its position's angle: products depend on differences."""
        a, b = x.unflatten(-1, (self.heads, -1)).transpose(1, 2).chunk(2, dim=-1)  # (batch, heads, n, K / 2)
        return torch.cat([a * self.cos - b * self.sin, a * self.sin + b * self.cos], dim=-1)
