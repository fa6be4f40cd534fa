"""Several processes that train one model together and compute what one process would.

Each rank takes its share of the global batch, so the order of samples is that of one process. With n_r of n samples on
rank r, the gradient of the mean over the batch is

    g = sum_r (n_r / n) g_r,        g_r = gradient of the mean over the rank's share

DistributedDataParallel averages over the R ranks, so the loss is weighed by R n_r / n. After that every rank holds g:
clipping, AdamW and the schedule do the same everywhere. What only a clock or a signal can tell is rank 0's to say.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn


class PartnerLost(Exception):
    """Another rank is gone. Why is for that rank to say, if it can."""


class Ranks:
    """One process: nothing to share, nothing to agree on."""

    rank, size = 0, 1

    def wrap(self, module: nn.Module) -> nn.Module:
        return module

    def share(self, index: Tensor) -> tuple[Tensor, float]:
        """The part of a batch that is this rank's, and what its mean loss is to be multiplied by."""
        return index, 1.0

    def agree(self, loss: float, seconds: float, stop: bool) -> tuple[float, float, bool]:
        """The loss of the whole batch; the seconds and the wish to stop of rank 0."""
        return loss, seconds, stop

    def same(self, value: Any) -> Any:
        """What rank 0 has, on every rank."""
        return value

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Around what all ranks do; at the end they part."""
        yield


ALONE = Ranks()
# How gloo and nccl say that a connection broke. Their exceptions are plain RuntimeErrors.
BROKEN = ("closed by peer", "reset by peer", "Broken pipe", "remote process exited", "Socket Timeout", "NCCL")


class ProcessGroup(Ranks):
    """One of several processes that met at ``rendezvous``: a ``file://`` on one machine, ``tcp://`` across machines."""

    def __init__(self, rank: int, size: int, rendezvous: str, device: torch.device) -> None:
        self.rank, self.size = rank, size
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, init_method=rendezvous, rank=rank, world_size=size)

    def wrap(self, module: nn.Module) -> nn.Module:
        # Buffers don't change (see `refusal`), so they need not be sent at every step.
        return nn.parallel.DistributedDataParallel(module, broadcast_buffers=False)

    def share(self, index: Tensor) -> tuple[Tensor, float]:
        mine = index.tensor_split(self.size)[self.rank]
        if len(mine):
            return mine, self.size * len(mine) / len(index)
        return index[:1], 0.0  # a batch smaller than the group: all ranks must take part in the step

    def agree(self, loss: float, seconds: float, stop: bool) -> tuple[float, float, bool]:
        first = self.rank == 0
        values = torch.tensor([loss / self.size, seconds * first, float(stop and first)], dtype=torch.float64)
        dist.all_reduce(values)
        return values[0].item(), values[1].item(), bool(values[2])

    def same(self, value: Any) -> Any:
        carrier = [value]
        dist.broadcast_object_list(carrier, src=0)
        return carrier[0]

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            if any(word in str(error) for word in BROKEN):
                raise PartnerLost(f"rank {self.rank} of {self.size} lost the others: {error}") from error
            raise
        finally:
            dist.destroy_process_group()


def refusal(module: nn.Module, inputs: Tensor) -> str | None:
    """Why several processes can't compute what one would, or None.

    A forward pass that draws random numbers draws others when the batch is split; one that changes buffers computes
    statistics of its share. Both are found by trying, whatever the layers are called.
    """
    device = next(module.parameters()).device
    buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
    devices = range(torch.cuda.device_count())
    with torch.random.fork_rng(devices=devices), torch.no_grad():
        before = [torch.get_rng_state(), *torch.cuda.get_rng_state_all()]
        module.train()(inputs.to(device, copy=True))
        after = [torch.get_rng_state(), *torch.cuda.get_rng_state_all()]
    changed = [name for name, buffer in module.named_buffers() if not torch.equal(buffer, buffers[name])]
    for name, buffer in module.named_buffers():
        buffer.copy_(buffers[name])
    if not all(map(torch.equal, before, after)):
        return "it draws random numbers in its forward pass (dropout?), which differ when a batch is split"
    if changed:
        return f"its forward pass changes buffer {changed[0]!r} (batch statistics?), which differ when a batch is split"
    return None
