"""Models for `kept_plugin`."""

from __future__ import annotations

import torch
from torch import nn


class Mixed(nn.Module):
    """Trained; with complex parameters, one that two names share, whole numbers, and nothing in one buffer."""

    def __init__(self, task):
        super().__init__()
        points = task.grid[0]
        self.spectrum = nn.Parameter(0.1 * torch.randn(points // 2 + 1, dtype=torch.complex64))
        self.first = nn.Linear(points, points, bias=False)
        self.second = nn.Linear(points, points, bias=False)
        self.second.weight = self.first.weight
        self.register_buffer("order", torch.randperm(points))
        self.register_buffer("nothing", torch.zeros(3, 0))

    def forward(self, x):
        y = torch.fft.irfft(self.spectrum * torch.fft.rfft(x[..., self.order]), n=x.shape[-1])
        return self.second(torch.tanh(self.first(y)))


class Sized(nn.Module):
    """A closed form whose buffers get their size, dtype and order in memory from the fit, or are None before it."""

    def __init__(self, task):
        super().__init__()
        self.register_buffer("weights", torch.zeros(0))
        self.register_buffer("shift", None)

    def fit(self, train):
        x, y = train.inputs.flatten(1), train.outputs.flatten(1)
        self.weights = torch.linalg.lstsq(y, x, driver="gelsd").solution.T  # in Fortran's order
        self.shift = (y - x @ self.weights).mean(dim=0)

    def forward(self, x):
        return (x.flatten(1) @ self.weights + self.shift).unflatten(1, x.shape[1:])


class Solver:
    """No network: it has nothing to keep, and can be loaded."""

    def __init__(self, task):
        self.channels = task.out_channels

    def solve(self, inputs):
        return 0.5 * inputs[:, : self.channels]


class Hidden(nn.Module):
    """What it learns is no part of its state."""

    def __init__(self, task):
        super().__init__()
        self.mean = None

    def fit(self, train):
        self.mean = 1.0 + train.outputs.mean(dim=0)

    def forward(self, x):
        mean = torch.zeros_like(x[0]) if self.mean is None else self.mean
        return mean.expand(x.shape[0], *mean.shape)


class Words(Hidden):
    """Its state holds something that is no tensor."""

    def get_extra_state(self):
        return {"mean": "somewhere"}

    def set_extra_state(self, state):
        pass

    def coefficient_count(self):
        return 16
