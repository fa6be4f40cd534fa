"""What fits of linear maps share: they keep the physical zero, which stands somewhere in normalised fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from pdebench_hss import TrainSet


class ThroughZero(nn.Module):
    """A map in float64 that takes the normalised value of physical zero to that of the outputs."""

    zero_in: Tensor  # ()
    zero_out: Tensor  # ()

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("zero_in", torch.zeros((), dtype=torch.float64))
        self.register_buffer("zero_out", torch.zeros((), dtype=torch.float64))

    def from_zero(self, train: TrainSet) -> tuple[Tensor, Tensor]:
        """Note where the zeros are; inputs and outputs measured from them, without their one channel."""
        self.zero_in.fill_(float(-train.normalizer.inputs.shift[0] / train.normalizer.inputs.scale[0]))
        self.zero_out.fill_(float(-train.normalizer.outputs.shift[0] / train.normalizer.outputs.scale[0]))
        return train.inputs[:, 0] - self.zero_in, train.outputs[:, 0] - self.zero_out

    def linear(self, x: Tensor) -> Tensor:
        """``(batch, 1, *grid) -> (batch, 1, *grid)``, both measured from zero."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x.to(self.zero_in.dtype) - self.zero_in) + self.zero_out
        return y.to(x.dtype)
