"""Several processes that train one model together and compute what one process would.

Each peer takes its share of the global batch, so the order of samples is that of one process. With n_p of n samples on
peer p, the gradient of the mean over the batch is

    g = sum_p (n_p / n) g_p,        g_p = gradient of the mean over the peer's share

DistributedDataParallel averages over the P peers, so the loss is weighted by P n_p / n. Then every peer holds g, and
clipping, AdamW and the schedule do the same everywhere. Decisions that depend on a clock or a signal are peer 0's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ..contract.optimizer import Optimizer
from ..contract.traits import has_own_optimiser
from .clocks import Lap
from .objective import Objective
from .optimizers import needs_closure, own_optimizer
from .splitting import why_not_split
from .streaming import Pairs


class PeerLost(Exception):
    """Another peer is gone. That peer reports the reason, if it can."""


class Peers:
    """One process: nothing to share, nothing to agree on."""

    number, size = 0, 1

    def wrap(self, module: nn.Module) -> nn.Module:
        return module

    def unshared(self, wrapped: nn.Module) -> contextlib.AbstractContextManager[Any]:
        """Around passes whose gradients are accumulated locally; the last pass then shares the sum."""
        return contextlib.nullcontext()

    def share(self, index: Tensor) -> tuple[Tensor, float]:
        """This peer's part of a batch, and the weight of its mean loss."""
        return index, 1.0

    def agree(self, losses: list[float], lap: Lap, stop: bool) -> tuple[list[float], Lap, bool]:
        """The losses of some steps, each over its whole batch; seconds and the request to stop from peer 0;
        core-seconds of all."""
        return losses, lap, stop

    def same(self, value: Any) -> Any:
        """Send peer 0's value to every peer."""
        return value

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Around the work of all peers; at the end the group is dissolved."""
        yield


ALONE = Peers()
NO_RATES = Optimizer(batch=1, lr=1e-3, lr_min=1e-3, weight_decay=0.0)  # only to see what kind of optimiser they get
# How a broken connection is reported. gloo raises plain RuntimeErrors that name its source file; nccl and the
# rendezvous raise torch's own. Other errors of nccl (two processes on one GPU, a CUDA error) are not a lost peer.
GLOO_LOST = ("closed by peer", "reset by peer", "Broken pipe", "Timed out waiting", "Application timeout")
NCCL_LOST = (
    *("ncclRemoteError", "remote process exited", "Watchdog caught collective operation timeout"),
    *("Connection closed by remote peer", "Connection reset by peer"),
)
STORE_LOST = ("closed by peer", "reset by peer", "Broken pipe", "Socket Timeout", "Timed out", "timed out")


def is_lost_peer(error: BaseException) -> bool:
    """Whether an error means that another peer is gone, rather than a fault of this one."""
    text = str(error)
    if isinstance(error, dist.DistBackendError):
        return any(words in text for words in NCCL_LOST)
    if isinstance(error, (dist.DistNetworkError, dist.DistStoreError)):
        return any(words in text for words in STORE_LOST)
    return isinstance(error, RuntimeError) and "gloo" in text and any(words in text for words in GLOO_LOST)


class ProcessGroup(Peers):
    """One of several processes that met at ``rendezvous``: a ``file://`` on one machine, ``tcp://`` across machines."""

    def __init__(self, number: int, size: int, rendezvous: str, device: torch.device) -> None:
        self.number, self.size = number, size
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, init_method=rendezvous, rank=number, world_size=size)

    def wrap(self, module: nn.Module) -> nn.Module:
        # Buffers don't change (see `refusal`), so they need not be sent at every step.
        return nn.parallel.DistributedDataParallel(module, broadcast_buffers=False)

    def unshared(self, wrapped: nn.Module) -> contextlib.AbstractContextManager[Any]:
        return cast(nn.parallel.DistributedDataParallel, wrapped).no_sync()

    def share(self, index: Tensor) -> tuple[Tensor, float]:
        mine = index.tensor_split(self.size)[self.number]
        if len(mine):
            return mine, self.size * len(mine) / len(index)
        return index[:1], 0.0  # a batch smaller than the group: all peers must take part in the step

    def agree(self, losses: list[float], lap: Lap, stop: bool) -> tuple[list[float], Lap, bool]:
        first = self.number == 0
        shares = [loss / self.size for loss in losses]
        values = torch.tensor(
            [*shares, lap.seconds * first, lap.core_seconds, float(stop and first)], dtype=torch.float64
        )
        dist.all_reduce(values)
        *sums, seconds, core_seconds, stopping = values.tolist()
        return sums, Lap(seconds, core_seconds), bool(stopping)

    def same(self, value: Any) -> Any:
        carrier = [value]
        dist.broadcast_object_list(carrier, src=0)
        return carrier[0]

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            if is_lost_peer(error):
                raise PeerLost(f"peer {self.number} of {self.size} lost the others: {error}") from error
            raise
        finally:
            dist.destroy_process_group()


def refusal(module: nn.Module, train: Pairs, device: torch.device) -> str | None:
    """Why several processes can't compute what one would, or None.

    The gradient of a batch has to be the mean of its parts' (`splitting`). An optimiser that searches along a line
    would do so in each process by itself.
    """
    few = train.pairs(torch.arange(min(2, len(train))))
    if reason := why_not_split(Objective(module, train, device), *few, device):
        return reason
    if has_own_optimiser(type(module)) and needs_closure(own_optimizer(module, list(module.parameters()), NO_RATES)):
        return "its optimiser evaluates the loss itself (a closure), separately in each process"
    return None
