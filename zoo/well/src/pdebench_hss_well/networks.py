"""The Well's networks for a task: channels, dimension, grid.

Two things of the library have to be dealt with; the networks themselves are as they come.

* Its ConvNeXt has biases in layer norms (those that stand before a change of resolution) that its forward pass never
  adds. They would be counted and never trained, so they are taken away. Nothing that is computed changes.
* AViT wants channels last, and its group norms fix the number of channels to multiples of 48.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from pdebench_hss import TaskInfo

from .library import networks

CHANNELS_PER_HEAD = 48  # of AViT: 12 groups, fixed in the library, of a quarter of the channels


def unet_classic(task: TaskInfo, width: int) -> nn.Module:
    return networks("unet_classic").UNetClassic(**_fields(task), init_features=width)


def unet_convnext(task: TaskInfo, width: int, stages: int, blocks: int) -> nn.Module:
    library = networks("unet_convnext")
    if any(n % 2**stages for n in task.grid):
        raise ValueError(f"stages={stages} needs a grid of multiples of {2**stages}, not {task.grid}")
    net = library.UNetConvNext(**_fields(task), stages=stages, blocks_per_stage=blocks, init_features=width)
    for module in net.modules():
        if isinstance(module, library.LayerNorm) and module.data_format == "channels_first":
            module.bias = None
    return net


def dilated_resnet(task: TaskInfo, width: int, blocks: int, levels: int) -> nn.Module:
    net = networks("dilated_resnet").DilatedResNet
    return net(**_fields(task), blocks=blocks, levels_per_block=levels, hidden_dim=width)


def avit(task: TaskInfo, heads: int, blocks: int) -> nn.Module:
    net = networks("avit").AViT
    return ChannelsLast(
        net(**_fields(task), hidden_dim=CHANNELS_PER_HEAD * heads, num_heads=heads, processor_blocks=blocks)
    )


class ChannelsLast(nn.Module):
    """A network on (batch, *grid, channels) as one on (batch, channels, *grid)."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x.movedim(1, -1)).movedim(-1, 1)


def _fields(task: TaskInfo) -> dict[str, Any]:
    return {
        "dim_in": task.in_channels,
        "dim_out": task.out_channels,
        "n_spatial_dims": task.dim,
        "spatial_resolution": task.grid,
    }
