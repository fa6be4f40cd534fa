"""CUDA graphs: forward and backward of a full batch recorded once and replayed as one launch.

A small network spends its time launching kernels, not running them; a graph launches all of them at once. The kernels
and their order are those of the eager step, so the numbers are the same, and graphs are not part of a trial's key.
Clipping and AdamW stay outside: they are few launches, and the learning rate may change between steps.

What can't be recorded (a network that waits for the device, several processes, another device) is run eagerly, and the
reason is in the record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from .peers import Peers
from .trial_device import kept_random_state, random_state

if TYPE_CHECKING:
    from .steps import BatchOrder

Step = Callable[[Tensor, Tensor, float], Tensor]
WARM_UPS = 3  # required by torch: libraries initialise themselves in the first calls
USED = "used for full batches"


def make_step(
    eager: Step,
    module: nn.Module,
    first: Callable[[int], tuple[Tensor, Tensor]],
    order: BatchOrder,
    peers: Peers,
    device: torch.device,
    asked: bool,
) -> tuple[Step, str]:
    """The step to train with, and a note on whether graphs are used: empty if they were not asked for. ``first`` gives
    so many pairs on the device."""
    if not asked:
        return eager, ""
    if device.type != "cuda":
        return eager, f"not used: they need a GPU, and this is {device.type}"
    if peers.size > 1:
        return eager, f"not used: {peers.size} processes train together"
    try:
        return _GraphedStep(eager, module, *first(order.batch), device), USED
    except RuntimeError as error:  # the network does something that can't be recorded
        module.zero_grad(set_to_none=True)
        return eager, f"not used: {str(error).splitlines()[0][:300]}"


class _GraphedStep:
    """Batches are copied to where the graph reads them; gradients are left where it writes them."""

    def __init__(self, eager: Step, module: nn.Module, x: Tensor, y: Tensor, device: torch.device) -> None:
        self.eager = eager
        self.x, self.y = x, y
        self.weights = [p for p in module.parameters() if p.requires_grad]
        buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
        with kept_random_state(device):
            before = random_state(device)
            self.replay, self.loss = capture(lambda: eager(self.x, self.y, 1.0), module, device)
            after = random_state(device)
        for name, buffer in module.named_buffers():  # undo the changes of the warm-up
            buffer.copy_(buffers[name])
        if not all(torch.equal(before[kind], after[kind]) for kind in before):
            raise RuntimeError("the network draws random numbers, which a graph would draw differently")
        self.gradients = [p.grad for p in self.weights]

    def __call__(self, x: Tensor, y: Tensor, weight: float) -> Tensor:
        if x.shape != self.x.shape:  # the last batch of an epoch
            return self.eager(x, y, weight)
        self.x.copy_(x)
        self.y.copy_(y)
        self.replay()
        for p, gradient in zip(self.weights, self.gradients, strict=True):
            p.grad = gradient
        return self.loss.clone()


def capture(step: Callable[[], Tensor], module: nn.Module, device: torch.device) -> tuple[Callable[[], Any], Tensor]:
    """Record one step; returns what replays it, and where it leaves the loss."""
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(WARM_UPS):
            module.zero_grad(set_to_none=True)
            step()
    torch.cuda.current_stream(device).wait_stream(side)
    module.zero_grad(set_to_none=True)  # so that gradients are made inside the graph, and overwritten by each replay
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    return graph.replay, loss
