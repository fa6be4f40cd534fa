"""A residual network of dilated convolutions (Stachenfeld et al. 2022), and the same trained on relative L2.

    v_0     = P u
    v_{b+1} = v_b + C_1 gelu(C_2 gelu(C_4 gelu(C_8 v_b)))       C_d: 3 taps, d points apart
    M(u)    = Q v_B

The loss of neuraloperator's examples is the relative error of each sample, averaged over the batch,

    loss = 1/n sum_i ||M(u_i) - y_i|| / ||y_i||                 in physical units, over the points inside the domain,

so that small solutions weigh as much as large ones. It is often the metric itself.
"""

from __future__ import annotations

from torch import Tensor, nn

from pdebench_hss import Batch, TaskInfo

CONVOLUTION = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
DILATIONS = (8, 4, 2, 1)


class Dilated(nn.Module):
    def __init__(self, task: TaskInfo, width: int, blocks: int) -> None:
        super().__init__()
        convolution = CONVOLUTION[task.dim]
        self.lift = convolution(task.in_channels, width, kernel_size=1)
        self.blocks = nn.ModuleList(block(task, width) for _ in range(blocks))
        self.projection = convolution(width, task.out_channels, kernel_size=1)

    def forward(self, u: Tensor) -> Tensor:
        v = self.lift(u)  # (batch, width, *grid)
        for layers in self.blocks:
            v = v + layers(v)
        return self.projection(v)  # (batch, out_channels, *grid)


class DilatedRelativeL2(Dilated):
    def loss(self, prediction: Tensor, target: Tensor, batch: Batch) -> Tensor:
        error, size = batch.physical(prediction) - batch.physical(target), batch.physical(target)
        if batch.mask is not None:
            error, size = error * batch.mask, size * batch.mask
        norms = size.flatten(1).norm(dim=1).clamp_min(1e-12)  # (batch,)
        return (error.flatten(1).norm(dim=1) / norms).mean()


def block(task: TaskInfo, width: int) -> nn.Sequential:
    """Dilations that reach beyond the grid are left out: circular padding can't be longer than what it repeats."""
    convolution, padding = CONVOLUTION[task.dim], "circular" if task.periodic else "zeros"
    reaching = [d for d in DILATIONS if d < min(task.grid)]
    layers: list[nn.Module] = []
    for dilation in reaching:
        layers += [
            convolution(width, width, 3, padding=dilation, dilation=dilation, padding_mode=padding),
            nn.GELU(),
        ]
    return nn.Sequential(*layers[:-1])
