"""A network made of matrices, which is what Muon is for.

v_0     = P u
v_{b+1} = v_b + W_b gelu(v_b x_1 A_b^(1) ... x_m A_b^(m) + c_b)      A_b^(j): n_j x n_j along axis j, W_b: channels
M(u)    = Q v_B
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pdebench_hss import Optimizer, TaskInfo

from .muon import Muon

MUON_RATE = 20.0  # Muon's usual rate for matrices is 20 times the usual rate of Adam


class Mixer(nn.Module):
    def __init__(self, task: TaskInfo, width: int, blocks: int) -> None:
        super().__init__()
        self.lift = nn.Linear(task.in_channels, width)
        self.blocks = nn.ModuleList(Block(task.grid, width) for _ in range(blocks))
        self.projection = nn.Linear(width, task.out_channels)

    def forward(self, u: Tensor) -> Tensor:
        v = self.lift(u.movedim(1, -1))  # (batch, *grid, width)
        for block in self.blocks:
            v = v + block(v)
        return self.projection(v).movedim(-1, 1)  # (batch, out_channels, *grid)


class MixerMuon(Mixer):
    def configure_optimizer(self, parameters: list[nn.Parameter], recipe: Optimizer) -> torch.optim.Optimizer:
        """The core's cosine then multiplies both rates."""
        return Muon(parameters, lr=MUON_RATE * recipe.lr, adam_lr=recipe.lr)


class Block(nn.Module):
    def __init__(self, grid: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.axes = nn.ParameterList(nn.Parameter(torch.randn(n, n) / math.sqrt(n)) for n in grid)
        self.bias = nn.Parameter(torch.zeros(width))
        self.channels = nn.Linear(width, width, bias=False)

    def forward(self, v: Tensor) -> Tensor:
        for axis, matrix in enumerate(self.axes, start=1):
            v = torch.tensordot(v, matrix, dims=([axis], [1])).movedim(-1, axis)
        return self.channels(F.gelu(v + self.bias))
