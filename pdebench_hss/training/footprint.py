"""What a training step takes, as a straight line in the size of the batch: a part per step and a part per sample.

    kept     bytes that the forward pass leaves for the backward pass
    peak     bytes that forward and backward hold at most at one time
    flops    what is executed, in the form in which it is executed

All three follow from the sizes of arrays alone. Two small passes on a copy of the model are enough to know them, and
they are the same numbers on every machine of a kind. Weights, buffers and the batch itself are not counted.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ..base.devices import DEFAULT_PRECISION
from . import flops
from .objective import Objective
from .trial_device import autocast

FEW, MORE = 2, 4  # samples of the two passes; one sample may take another way through a library than several


class Line(NamedTuple):
    fixed: float
    each: float

    def at(self, n: float) -> float:
        return self.fixed + n * self.each


@dataclass(frozen=True)
class Footprint:
    kept: Line
    peak: Line
    flops: Line


def line_through(values: Callable[[int], float]) -> Line:
    few, more = values(FEW), values(MORE)
    each = (more - few) / (MORE - FEW)
    return Line(few - FEW * each, each)


def measure(objective: Objective, x: Tensor, y: Tensor, device: torch.device, precision: str) -> Footprint:
    """Of an objective whose module was called before: what it makes once and keeps is not counted."""
    passes = {n: _pass(objective, x[:n], y[:n], device, precision) for n in (FEW, MORE)}
    kept, peak, counted = (line_through(lambda n, i=i: passes[n][i]) for i in range(3))  # type: ignore[misc]
    return Footprint(kept, peak, counted)


def kept_bytes(objective: Objective, x: Tensor, y: Tensor, precision: str = DEFAULT_PRECISION) -> int:
    """What the forward pass of a batch leaves, from which a part per step is not told apart."""
    with Allocated(objective.module, x, y) as seen:
        loss = _loss(objective, x, y, precision)
    del loss
    return seen.now_at_exit


def _pass(
    objective: Objective, x: Tensor, y: Tensor, device: torch.device, precision: str
) -> tuple[float, float, float]:
    kept = 0

    def step() -> None:
        nonlocal kept
        loss = _loss(objective, x, y, precision)
        kept = seen.now
        loss.backward()

    with Allocated(objective.module, x, y) as seen:
        counted = flops.count(step)
    objective.module.zero_grad(set_to_none=True)
    return kept, seen.peak, counted


def _loss(objective: Objective, x: Tensor, y: Tensor, precision: str) -> Tensor:
    with autocast(x.device, precision):
        return objective(x, y)


class Allocated(TorchDispatchMode):
    """Counts the bytes of arrays that operations make, until they are freed."""

    def __init__(self, module: torch.nn.Module, *given: Tensor) -> None:
        super().__init__()
        self.now = self.peak = self.now_at_exit = 0
        there = (*module.parameters(), *module.buffers(), *given)
        self._known = {t.untyped_storage()._cdata for t in there}

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = operation(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                self._see(leaf.untyped_storage())
        return result

    def __exit__(self, *ending: Any) -> None:
        self.now_at_exit = self.now
        super().__exit__(*ending)

    def _see(self, storage: torch.UntypedStorage) -> None:
        place, size = storage._cdata, storage.nbytes()
        if place in self._known:  # a view of something, or changed in place
            return
        self._known.add(place)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._freed, place, size)

    def _freed(self, place: int, size: int) -> None:
        self._known.discard(place)
        self.now -= size
