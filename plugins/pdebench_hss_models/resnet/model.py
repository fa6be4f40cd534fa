"""ResNet in one, two and three dimensions (He et al. 2016; the paper's convolutional baseline).

    v_0     = P u                              1x1 lift to the width
    v_{l+1} = v_l + C2_l gelu(C1_l v_l)        two 3-tap convolutions without bias
    M(u)    = Q v_L                            1x1 projection

Nothing acts on the skip path, so linear maps pass through unchanged; there is neither normalisation nor pooling, so
the receptive field is 4 * blocks + 1 points wide. Parameters:

    2 * 3^dim * width^2 * blocks + (in_channels + 1) * width + (width + 1) * out_channels.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pdebench_hss import TaskInfo

CONVOLUTION = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
Padding = Literal["zeros", "reflect", "replicate", "circular"]
PADDING: dict[str, Padding] = {
    "periodic": "circular",
    "dirichlet": "zeros",
    "neumann": "replicate",
    "mixed": "replicate",
}


def padding_for(task: TaskInfo) -> Padding:
    """What a convolution sees beyond the edge of the box.

    A Dirichlet field is zero there, the even extension of a Neumann field repeats its last value. A mixed problem
    says by ``periodic`` whether its box wraps around; if not, repeating the last value assumes least.
    """
    return "circular" if task.periodic else PADDING[task.boundary]


class ResNet(nn.Module):
    def __init__(self, task: TaskInfo, blocks: int, width: int) -> None:
        super().__init__()
        convolution = CONVOLUTION[task.dim]
        self.lift = convolution(task.in_channels, width, kernel_size=1)
        self.blocks = nn.Sequential(*(Block(task.dim, width, padding_for(task)) for _ in range(blocks)))
        self.projection = convolution(width, task.out_channels, kernel_size=1)
        if task.dim == 3:  # the memory layout in which 3D convolutions are 1.7 times faster on a CPU
            self.to(memory_format=torch.channels_last_3d)  # type: ignore[call-overload]  # torch's stubs lack it

    def forward(self, u: Tensor) -> Tensor:
        return self.projection(self.blocks(self.lift(u)))  # (batch, out_channels, *grid)


class Block(nn.Module):
    def __init__(self, dim: int, width: int, padding: Padding) -> None:
        super().__init__()
        self.first, self.second = (
            CONVOLUTION[dim](width, width, kernel_size=3, padding=1, padding_mode=padding, bias=False) for _ in range(2)
        )

    def forward(self, v: Tensor) -> Tensor:
        return v + self.second(F.gelu(self.first(v)))  # (batch, width, *grid)
