"""Two guesses that look at nothing but the training set's average, or at nothing but the input.

mean         y = (1/n) sum_i y_i
persistence  physical output = the first ``out_channels`` of the physical input (steady tasks that evolve
             a field), physical residual = 0 (rollout tasks)

Both work on the core's normalised fields, normalised = (physical - shift) / scale per channel.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from pdebench_hss import TaskInfo


class Mean(nn.Module):
    """Predict the mean training output."""

    mean: Tensor  # (out_channels, *grid)

    def __init__(self, task: TaskInfo) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(task.out_channels, *task.grid, dtype=torch.float64))

    def fit(self, train: Any) -> None:
        self.mean.copy_(train.outputs.mean(dim=0))

    def forward(self, x: Tensor) -> Tensor:
        return self.mean.to(x.dtype).expand(len(x), *self.mean.shape)


class Persistence(nn.Module):
    """Predict that the physical field stays as it is: y = factor * x + offset, channel by channel.

    A steady task's output is the input itself, so input units are undone and output units applied:
    (x * scale_in + shift_in - shift_out) / scale_out. A rollout task's output is a residual, so it is zero
    in physical units: factor 0, offset -shift_out / scale_out.
    """

    factor: Tensor  # (out_channels, 1, ...)
    offset: Tensor  # (out_channels, 1, ...)

    def __init__(self, task: TaskInfo) -> None:
        super().__init__()
        self.out_channels = task.out_channels
        self.rollout = task.rollout
        shape = (task.out_channels,) + (1,) * task.dim
        self.register_buffer("factor", torch.full(shape, 0.0 if task.rollout else 1.0, dtype=torch.float64))
        self.register_buffer("offset", torch.zeros(shape, dtype=torch.float64))

    def fit(self, train: Any) -> None:
        outputs = train.normalizer.outputs
        scale_out, shift_out = torch.as_tensor(outputs.scale), torch.as_tensor(outputs.shift)
        if self.rollout:
            factor, offset = torch.zeros_like(scale_out), -shift_out / scale_out
        else:
            inputs = train.normalizer.inputs
            scale_in = torch.as_tensor(inputs.scale)[: self.out_channels]
            shift_in = torch.as_tensor(inputs.shift)[: self.out_channels]
            factor, offset = scale_in / scale_out, (shift_in - shift_out) / scale_out
        self.factor.copy_(factor.reshape(self.factor.shape))
        self.offset.copy_(offset.reshape(self.offset.shape))

    def forward(self, x: Tensor) -> Tensor:
        return x[:, : self.out_channels] * self.factor.to(x.dtype) + self.offset.to(x.dtype)

    def coefficient_count(self) -> int:
        return 0  # factor and offset undo the normalisation, which belongs to the core
