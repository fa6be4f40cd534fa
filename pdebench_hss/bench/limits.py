"""What a training step must at least do, and how long that takes at the speed of this machine.

    limit = max(FLOPs / peak, bytes / bandwidth)

A step is forward pass, mean squared error and backward pass. The update of the weights is the core's and the same for
every model, so it is in neither the step nor its limit.

**FLOPs** are those of matrix products, convolutions and FFTs in the form that is executed (`training.flops`). Pointwise
work and launch overhead are not in the limit: a good implementation keeps them small.

**Bytes that must move** between memory and cores, for a batch of b samples:

    b (x + y)                      the input and the target of each sample are read
    3 w                            weights are read by both passes, their gradients are written
    2 k_b                          what can't stay in the cache between the passes is written and read again

What is kept between the passes is what autograd saves: s bytes whatever the batch, and a bytes more for each sample,
without weights, inputs and targets. A batch may be computed sample by sample, so of a only what one sample keeps beyond
the cache C must move, and nothing at all if it fits:

    k_b = max(0, s + a - C) + (b - 1) max(0, a - C)

Functions that hold tensors without autograd's knowledge keep more than is seen here. Either way the limit is a lower
bound.

**Peak and bandwidth** are measured in the same run, alternating with the models: a product of 1024 x 1024 matrices, and
a copy of 64 MB, which moves twice that. A convolution may run a few percent faster than that product; a step of small
or thin products, transforms and pointwise functions can't come close.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .timing import Timing

GEMM = 1024
COPIED = 2**26  # bytes


class Work(NamedTuple):
    flops: float
    bytes: float


class Speeds(NamedTuple):
    """Per second."""

    peak: float
    bandwidth: float


def probes() -> dict[str, Callable[[], Any]]:
    """What is timed to know the speeds of the machine."""
    a, b, c = torch.randn(3, GEMM, GEMM)
    source = torch.ones(COPIED // 4)
    target = torch.empty_like(source)
    return {"gemm": lambda: torch.mm(a, b, out=c), "copy": lambda: target.copy_(source)}


def speeds(found: Mapping[str, Timing]) -> Speeds:
    return Speeds(2 * GEMM**3 / (1e-3 * found["gemm"].median), 2 * COPIED / (1e-3 * found["copy"].median))


def limit_ms(work: Work, machine: Speeds) -> float:
    return 1e3 * max(work.flops / machine.peak, work.bytes / machine.bandwidth)


def bound(work: Work, machine: Speeds) -> str:
    """Which of the two takes longer."""
    return "arithmetic" if work.flops / machine.peak >= work.bytes / machine.bandwidth else "memory"


def least_bytes(module: nn.Module, sample: Callable[[int], tuple[Tensor, Tensor]], batch: int, cache: int) -> int:
    """``sample(b)`` gives inputs and targets of b samples; ``cache`` is C."""
    data = sum(t.nbytes for t in sample(1))
    weights = sum(p.nbytes for p in module.parameters() if p.requires_grad)
    one, two = (kept_bytes(module, *sample(b)) for b in (1, 2))
    kept = max(0, one - cache) + (batch - 1) * max(0, two - one - cache)
    return batch * data + 3 * weights + 2 * kept


def kept_bytes(module: nn.Module, inputs: Tensor, targets: Tensor) -> int:
    """What autograd saves between forward and backward pass, each piece of memory once."""
    saved: dict[int, torch.UntypedStorage] = {}  # kept alive, or another could get the same address
    known = {t.untyped_storage().data_ptr() for t in (inputs, targets, *module.parameters(), *module.buffers())}

    def see(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            saved[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(see, lambda tensor: tensor):
        loss = nn.functional.mse_loss(module(inputs), targets)
    del loss
    return sum(storage.nbytes() for storage in saved.values())
