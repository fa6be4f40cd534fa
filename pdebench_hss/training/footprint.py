"""The cost of a training step as a function of the batch size n: a part per step and a part per sample, f + n e.

    kept     bytes that the forward pass leaves for the backward pass
    peak     bytes that forward and backward hold at most at one time: the largest of such lines, one per moment
    flops    what is executed, in the form in which it is executed

All three follow from the sizes of arrays alone. Two small passes on a copy of the model are enough to know them, and
they are the same on every machine of a kind. Weights, buffers and the batch itself are not counted.
"""

from __future__ import annotations

import gc
import math
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ..base import machine
from ..base.devices import DEFAULT_PRECISION
from . import flops
from .objective import Objective
from .trial_device import autocast

Sizes = tuple[int, int]
USUAL: Sizes = (2, 4)  # samples of the two passes; libraries may treat a single sample differently
FEWEST: Sizes = (2, 3)  # if memory is short: the measurement itself needs the memory of three samples


class Line(NamedTuple):
    fixed: float
    each: float

    def at(self, n: float) -> float:
        return self.fixed + n * self.each


@dataclass(frozen=True)
class Peak:
    """The largest of several lines."""

    lines: tuple[Line, ...]

    def at(self, n: float) -> float:
        return max(line.at(n) for line in self.lines)

    def most(self, room: float) -> float:
        """The largest n that stays within ``room``; below 1 if none does."""
        if any(line.fixed > room for line in self.lines):
            return 0.0
        return min(((room - line.fixed) / line.each for line in self.lines if line.each > 0), default=math.inf)


@dataclass(frozen=True)
class Footprint:
    kept: Line
    peak: Peak
    flops: Line


def line_through(values: Callable[[int], float], sizes: Sizes = USUAL) -> Line:
    return _line(values(sizes[0]), values(sizes[1]), sizes)


def _line(few: float, more: float, sizes: Sizes) -> Line:
    each = (more - few) / (sizes[1] - sizes[0])
    return Line(few - sizes[0] * each, each)


def measure(
    objective: Objective, x: Tensor, y: Tensor, precision: str = DEFAULT_PRECISION, sizes: Sizes = USUAL
) -> Footprint:
    """The footprint of an objective whose module was called before, so that its caches are not counted."""
    few, more = (_pass(objective, x[:n], y[:n], precision) for n in sizes)
    kept, flops_ = _line(few.kept, more.kept, sizes), _line(few.flops, more.flops, sizes)
    return Footprint(kept, _peak(few.moments, more.moments, sizes), flops_)


class Pass(NamedTuple):
    kept: int
    moments: list[int]  # bytes held each time an array was made
    flops: float


def _peak(few: list[int], more: list[int], sizes: Sizes) -> Peak:
    if len(few) != len(more):  # operations depend on the number of samples: use a bound that always holds
        return Peak((Line(max(more), 0.0), Line(0.0, max(more) / sizes[1])))
    return Peak(tuple(dict.fromkeys(_line(a, b, sizes) for a, b in zip(few, more, strict=True))))


def kept_bytes(objective: Objective, x: Tensor, y: Tensor, precision: str = DEFAULT_PRECISION) -> int:
    """What the forward pass of a batch keeps; the part per step is not separated."""
    with Allocated(objective.module, x, y) as seen:
        loss = _loss(objective, x, y, precision)
        kept = seen.now
        del loss
    return kept


def _pass(objective: Objective, x: Tensor, y: Tensor, precision: str) -> Pass:
    kept = 0

    def step() -> None:
        nonlocal kept
        loss = _loss(objective, x, y, precision)
        kept = seen.now
        loss.backward()

    with Allocated(objective.module, x, y) as seen:
        counted = flops.count(step)
    objective.module.zero_grad(set_to_none=True)
    return Pass(kept, seen.moments, counted)


def _loss(objective: Objective, x: Tensor, y: Tensor, precision: str) -> Tensor:
    with autocast(x.device, precision):
        return objective(x, y)


class Allocated(TorchDispatchMode):
    """Counts the bytes of arrays that operations make, until they are freed.

    Python's garbage collector is off meanwhile: when it runs depends on what else the process does.
    """

    def __init__(self, module: torch.nn.Module, *given: Tensor) -> None:
        super().__init__()
        self.now, self.moments = 0, [0]
        there = (*module.parameters(), *module.buffers(), *given)
        self._known = {t.untyped_storage()._cdata for t in there}

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = operation(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                self._see(leaf.untyped_storage())
        return result

    def __enter__(self) -> Allocated:
        self._collects = gc.isenabled()
        gc.disable()
        return super().__enter__()

    def __exit__(self, *ending: Any) -> None:
        super().__exit__(*ending)
        if self._collects:
            gc.enable()
        machine.give_back_memory()  # cached blocks of freed arrays fit no array of another pass

    def _see(self, storage: torch.UntypedStorage) -> None:
        place, size = storage._cdata, storage.nbytes()
        if place in self._known:  # a view of something, or changed in place
            return
        self._known.add(place)
        self.now += size
        self.moments.append(self.now)
        weakref.finalize(storage, self._freed, place, size)

    def _freed(self, place: int, size: int) -> None:
        self._known.discard(place)
        self.now -= size
