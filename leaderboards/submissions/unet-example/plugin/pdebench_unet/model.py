"""U-Net in one, two and three dimensions.

    e_0     = B_0(u)                           blocks of two 3-tap convolutions
    e_{l+1} = B_{l+1}(halve e_l)               down, doubling the channels
    d_l     = C_l([e_l, double d_{l+1}])       up again, beside what was there on the way down
    M(u)    = Q d_0                            pointwise projection

Grids need not be powers of two: halving rounds down, and doubling goes back to the size that was there.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pdebench_hss import TaskInfo

CONVOLUTION = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
HALVE = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


class UNet(nn.Module):
    def __init__(self, task: TaskInfo, width: int, levels: int) -> None:
        super().__init__()
        self.halve = HALVE[task.dim]
        widths = [width << level for level in range(levels + 1)]
        inputs = [task.in_channels, *widths]
        self.down = nn.ModuleList(Block(task, i, o) for i, o in pairwise(inputs))
        self.up = nn.ModuleList(Block(task, fine + coarse, fine) for fine, coarse in pairwise(widths))
        self.projection = CONVOLUTION[task.dim](width, task.out_channels, kernel_size=1)

    def forward(self, u: Tensor) -> Tensor:
        v = self.down[0](u)  # (batch, width, *grid)
        skips = []
        for block in self.down[1:]:
            skips.append(v)
            v = block(self.halve(v, 2))  # half the points along each axis, twice the channels
        for block, skip in zip(reversed(self.up), reversed(skips), strict=True):
            v = F.interpolate(v, size=skip.shape[2:])
            v = block(torch.cat([skip, v], dim=1))
        return self.projection(v)  # (batch, out_channels, *grid)


class Block(nn.Sequential):
    """Twice: convolution, normalisation within a sample, GELU. No bias where the normalisation removes it."""

    def __init__(self, task: TaskInfo, inputs: int, outputs: int) -> None:
        padding = "circular" if task.periodic else "zeros"
        layers: list[nn.Module] = []
        for channels in (inputs, outputs):
            convolution = CONVOLUTION[task.dim](channels, outputs, 3, padding=1, padding_mode=padding, bias=False)
            layers += [convolution, nn.GroupNorm(1, outputs), nn.GELU()]
        super().__init__(*layers)
