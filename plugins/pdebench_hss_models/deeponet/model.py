"""DeepONet in any dimension (Lu et al. 2021).

    M(u)_c(x) = sum_{k < basis} b_{c,k}(u) t_{c,k}(x)

The branch b is a perceptron that reads u at fixed sensors (every ``sensor_stride``-th grid point of all channels), the
trunk t one that reads a point x. Both have ``depth`` linear layers with GELU between them, ``width`` neurons, and
end in ``basis`` numbers for each output channel c. The trunk does not depend on u: it is evaluated once per step and
shared by the batch. Whatever the input, the output of channel c lies in a space of dimension ``basis``. Parameters,
with m sensors, width w and o = basis * out_channels:

    (m + dim + 2) w + 2 (depth - 2) (w + 1) w + 2 (w + 1) o.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pdebench_hss import TaskInfo


class DeepONet(nn.Module):
    points: Tensor  # (number of points, dim)

    def __init__(self, task: TaskInfo, width: int, depth: int, basis: int, sensor_stride: int) -> None:
        super().__init__()
        if depth < 2:
            raise ValueError(f"deeponet: depth={depth}, but branch and trunk need at least 2 linear layers")
        self.shape_out = (task.out_channels, *task.grid)
        self.sensors: tuple[Any, ...] = (..., *(slice(None, None, sensor_stride),) * task.dim)
        sensor_count = task.in_channels * math.prod(-(-n // sensor_stride) for n in task.grid)
        self.branch = perceptron(sensor_count, width, basis * task.out_channels, depth)
        self.trunk = perceptron(task.dim, width, basis * task.out_channels, depth)
        self.register_buffer("points", torch.as_tensor(centred_points(task)), persistent=False)

    def forward(self, u: Tensor) -> Tensor:
        channels = (self.shape_out[0], -1)  # (out_channels, basis)
        coefficients = self.branch(u[self.sensors].flatten(1)).unflatten(1, channels)  # (batch, out, basis)
        functions = self.trunk(self.points).unflatten(1, channels)  # (points, out, basis)
        return torch.einsum("bck,nck->bcn", coefficients, functions).unflatten(2, self.shape_out[1:])


class OnAnotherGrid(DeepONet):
    """The same weights for fields on another grid: the trunk reads the new points, and the branch its own sensors, at
    which the input is interpolated linearly along each axis (exactly, where they are among the new points)."""

    def __init__(self, task: TaskInfo, trained: TaskInfo, **hparams: Any) -> None:
        super().__init__(trained, **hparams)
        self.shape_out = (task.out_channels, *task.grid)
        self.register_buffer("points", torch.as_tensor(centred_points(task)), persistent=False)
        for axis in range(task.dim):
            matrix = torch.as_tensor(interpolation(task, trained, axis).astype(np.float32))
            self.register_buffer(f"to_sensors_{axis}", matrix, persistent=False)

    def forward(self, u: Tensor) -> Tensor:
        for axis in range(u.ndim - 2):
            matrix = self.get_buffer(f"to_sensors_{axis}")  # (trained points, points)
            u = torch.tensordot(u, matrix, dims=([2 + axis], [1])).movedim(-1, 2 + axis)
        return super().forward(u)


def on_another_grid(task: TaskInfo, trained: TaskInfo, **hparams: Any) -> DeepONet:
    return OnAnotherGrid(task, trained, **hparams)


def interpolation(task: TaskInfo, trained: TaskInfo, axis: int) -> np.ndarray:
    """The matrix (trained points, points) of linear interpolation along an axis. A periodic field wraps around; for any
    other, the last piece is extended beyond the last point."""
    low, high = task.domain[axis]
    x, wanted = (np.unique(t.coords[axis]) for t in (task, trained))
    n = len(x)
    nodes = np.append(x, x[0] + high - low) if task.periodic else x
    left = np.clip(np.searchsorted(nodes, wanted, side="right") - 1, 0, len(nodes) - 2)
    share = (wanted - nodes[left]) / (nodes[left + 1] - nodes[left])
    matrix = np.zeros((len(wanted), n))
    np.add.at(matrix, (np.arange(len(wanted)), left), 1 - share)
    np.add.at(matrix, (np.arange(len(wanted)), (left + 1) % n), share)
    return matrix


def perceptron(inputs: int, width: int, outputs: int, depth: int) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Linear(inputs, width)]
    for _ in range(depth - 2):
        layers += [nn.GELU(), nn.Linear(width, width)]
    return nn.Sequential(*layers, nn.GELU(), nn.Linear(width, outputs))


def centred_points(task: TaskInfo) -> np.ndarray:
    """The grid points with the domain scaled to [-1, 1], ``(number of points, dim)`` in float32."""
    low, high = np.array(task.domain).T  # (dim,) each
    return (2 * (task.coords.reshape(task.dim, -1).T - low) / (high - low) - 1).astype(np.float32)
