"""A trained model and its normalisation as one torch module, for export to other programs.

    steady task     y = model((x - shift_in) / scale_in) * scale_out + shift_out
    rollout task    u_next = u + the same of u: one step, (batch, channels, *grid) as before;
                    or ``steps`` of them, (batch, steps, channels, *grid)

Fields come in and go out in float64, and the model is called in its own precision, as in `Predictor`. Unlike there,
gradients flow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ..training.trial_device import autocast

if TYPE_CHECKING:
    from .loaded import LoadedModel


class Physical(nn.Module):
    """``steps`` of a rollout task; 0 means one step without a step axis, also for steady tasks."""

    shift_in: Tensor
    scale_in: Tensor
    shift_out: Tensor
    scale_out: Tensor

    def __init__(self, loaded: LoadedModel, steps: int = 0) -> None:
        super().__init__()
        task, predictor = loaded.task, loaded.predictor
        self.model, self.steps = predictor.model, steps
        self.rollout, self.history, self.channels = task.rollout, task.history, task.out_channels
        self.dtype, self.device, self.precision = predictor.dtype, predictor.device, predictor.precision
        for name, affine in (("in", predictor.normalizer.inputs), ("out", predictor.normalizer.outputs)):
            for kind in ("shift", "scale"):
                values = torch.as_tensor(getattr(affine, kind), dtype=torch.float64)
                self.register_buffer(f"{kind}_{name}", values.reshape(1, -1, *[1] * task.dim))

    def forward(self, x: Tensor) -> Tensor:
        if not self.rollout:
            return self._apply_model(x)
        frames = []
        for _ in range(self.steps or 1):
            newest = x[:, : self.channels] + self._apply_model(x)
            frames.append(newest)
            x = torch.cat([newest, x[:, : -self.channels]], dim=1) if self.history > 1 else newest
        return torch.stack(frames, dim=1) if self.steps else frames[0]

    def _apply_model(self, x: Tensor) -> Tensor:
        normalised = ((x - self.shift_in) / self.scale_in).to(self.dtype)
        with autocast(self.device, self.precision):
            y = self.model(normalised)
        return y.to(torch.float64) * self.scale_out + self.shift_out
