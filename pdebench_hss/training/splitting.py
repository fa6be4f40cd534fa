"""Whether the gradient of a batch is the mean of its parts' gradients: what peers and pieces rely on.

It is not if the forward pass draws random numbers (a split batch draws others) or changes buffers (statistics of a
part), if the loss is not a mean over samples, or if samples influence each other in some other way. All of this is
found by a trial on two samples, without looking at the types of layers.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..contract.traits import has_own_loss
from .objective import Objective
from .trial_device import kept_random_state, random_state

TOLERANCE = 1e-3  # relative to the gradient: far above float32 rounding, far below what one sample does to another


def why_not_split(objective: Objective, x: Tensor, y: Tensor, device: torch.device) -> str | None:
    """Why parts of a batch don't add up to it, or None. The module is left as it was, without gradients."""
    module = objective.module
    x, y = (t[:2].to(device) for t in (x, y))
    buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
    module.train()
    with kept_random_state(device):
        before = random_state(device)
        module(x.clone())  # as in training, with gradients; a model may change its input
        after = random_state(device)
        changed = [name for name, buffer in module.named_buffers() if not torch.equal(buffer, buffers[name])]
        for name, buffer in module.named_buffers():
            buffer.copy_(buffers[name])
        if not all(torch.equal(before[kind], after[kind]) for kind in before):
            return "it draws random numbers in its forward pass (dropout?), which differ when a batch is split"
        if changed:
            name = changed[0]
            return f"its forward pass changes buffer {name!r} (batch statistics?), which differ when a batch is split"
        return _compared(objective, x, y)


def _compared(objective: Objective, x: Tensor, y: Tensor) -> str | None:
    own_loss = has_own_loss(type(objective.module))
    whole, *parts = (_loss_and_gradient(objective, x[s], y[s]) for s in (slice(0, 2), slice(0, 1), slice(1, 2)))
    for found, first, second in zip(whole, *parts, strict=True):
        size = max(first.norm().item(), second.norm().item())
        if not (found - (first + second) / 2).norm().item() <= TOLERANCE * size:
            if own_loss:
                return "its loss is not a mean over the samples of a batch, so it differs when a batch is split"
            return "samples of a batch influence each other, which differs when it is split"
    return None


def _loss_and_gradient(objective: Objective, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    weights = [p for p in objective.module.parameters() if p.requires_grad]
    loss = objective(x.clone(), y)
    found = torch.autograd.grad(loss, weights, allow_unused=True)
    real = [torch.view_as_real(g) if g.is_complex() else g for g in found if g is not None]
    return loss.detach(), torch.cat([g.flatten() for g in real]) if real else loss.detach().flatten()
