"""Compile before the clock starts: one forward and backward pass for each size of batch, on a copy of the model.

On a GPU the first pass of a shape compiles kernels and loads libraries. That takes seconds, which must not be charged
to a budget of seconds. A copy of the model is used, and random states are restored, so nothing that is computed
afterwards depends on the warm-up. A CPU has nothing to compile and needs none.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from ..base.devices import DEFAULT_PRECISION
from .objective import Objective
from .pieces import sizes_in
from .trial_device import autocast


def needed(device: torch.device) -> bool:
    return device.type == "cuda"


def batch_sizes(n: int, batch: int, processes: int = 1, piece: int | None = None) -> list[int]:
    """The batch sizes of an epoch: the full batch, and the last one if it is smaller; or a process's share of them, or
    the pieces of that share."""
    shares = {-(-size // processes) for size in (min(batch, n), n % min(batch, n)) if size}
    return sorted(set().union(*(sizes_in(share, piece) for share in shares)), reverse=True)


def warm_up(
    objective: Objective,
    first: Callable[[int], tuple[Tensor, Tensor]],
    sizes: Iterable[int],
    device: torch.device,
    precision: str = DEFAULT_PRECISION,
) -> float:
    """Returns the seconds it took; 0 where it is not needed, or where the model can't be copied. ``first`` gives so
    many pairs on the device."""
    if not needed(device):
        return 0.0
    started = time.perf_counter()
    try:
        twin = copy.deepcopy(objective.module)
    except (TypeError, RuntimeError) as error:  # models that hold a handle or a graph can't be copied
        print(f"no warm-up: the model can't be copied ({type(error).__name__}: {error})")
        return 0.0
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        for size in sizes:
            x, y = first(size)
            with autocast(device, precision):
                loss = objective.of(twin.train())(x, y)
            loss.backward()
            twin.zero_grad(set_to_none=True)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - started
