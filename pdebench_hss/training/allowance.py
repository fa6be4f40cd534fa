"""The budget of a model that trains itself, ``fit(train, budget)``, and what the core counts meanwhile.

The model asks ``budget.fraction`` or ``budget.is_spent`` and stops when it is spent. The core counts for itself:

    seconds          its own clock, from the call of ``fit`` to its return
    core_seconds     CPU time in between, of all threads, and of processes that were started there: it is added when
                     they are waited for, and of the others (daemons too, on Linux) when ``fit`` returns
    steps, epochs    gradients of batches. Counted are backward passes that reach the model's parameters, and samples
                     that are passed to the model while gradients are recorded: a pass over the whole training set is as
                     many steps as the set has batches. What the model reports by ``budget.step`` counts if it is more
    flops            samples times what a sample of a training step costs

So a fit that reports nothing is charged all the same. Gradients of anything other than the model's parameters (a copy
of them, another library) are not seen if the model itself is not called: only the clock catches these.

Who spends more than `TOLERANCE` beyond the budget is marked `over_budget` and not ranked. Exactly as much is allowed,
whatever the rounding of differences of clocks makes of it (`ROUNDING`).
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from ..base.errors import Interrupted
from ..contract.budget import Budget, Spent
from ..workers.processes import adopting_orphans, cpu_of_descendants
from .clocks import Clocks, Lap
from .loop import EMIT_SECONDS, Curve
from .progress import Emit, Progress, say_nothing

TOLERANCE = 0.05
ROUNDING = 1e-9  # of a share: readings of a clock of days have errors of 1e-11 s, and so has their difference


class Allowance:
    """What ``fit(train, budget)`` may spend.

    kind, amount   ``"steps"`` and 300, say
    fraction       the share that is used up; from 1 on the budget is spent
    is_spent       whether it is time to stop
    spent          steps, samples, seconds, flops and core-seconds so far
    share_of(m)    the fraction that gradients of m more samples cost; for a clock, estimated from the speed so far
    step(n, loss)  report that n more steps (gradients of batches) are done, and the current loss
    """

    def __init__(
        self,
        budget: Budget,
        n_train: int,
        batch: int,
        flops_step: float,
        *,
        emit: Emit = say_nothing,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.kind, self.amount, self.batch = budget.kind, budget.amount, min(batch, n_train)
        self._total = budget.steps(n_train, self.batch, flops_step)
        self._flops_step, self._emit, self._should_stop = flops_step, emit, should_stop
        self._reported = self._backward = self._forward = 0  # reported steps, backward passes, samples passed forward
        self._budget, self._clocks = budget, Clocks()
        self._taken: Lap | None = None  # by the whole fit, known when it has ended
        self._emitted = time.perf_counter()
        self.curve = Curve()

    def __repr__(self) -> str:
        return f"{self.kind}={self.amount:g}, {100 * self.fraction:.0f} % spent"

    @property
    def spent(self) -> Spent:
        seconds, core_seconds = self._taken or self._clocks.so_far()
        steps = max(self._reported, self._backward, math.ceil(self._forward / self.batch))
        samples = max(self._forward, steps * self.batch)
        return Spent(steps, samples, seconds, self._flops_step * samples / self.batch, core_seconds)

    @property
    def fraction(self) -> float:
        if self._should_stop():
            raise Interrupted("stopped while the model trained itself; it starts again from zero")
        return self._share(self.spent)

    @property
    def is_spent(self) -> bool:
        return self.fraction >= 1.0

    def step(self, n: int = 1, loss: float | Tensor = math.nan) -> None:
        self._reported += n
        value = loss.item() if isinstance(loss, Tensor) else float(loss)
        if math.isfinite(value):
            self.curve.add(self._reported, value)
        now = time.perf_counter()
        if now - self._emitted > EMIT_SECONDS and math.isfinite(value):
            self._emit(Progress(self._reported, self._total, min(1.0, self.fraction), value))
            self._emitted = now

    def share_of(self, samples: int) -> float:
        if self._total is not None:
            return math.ceil(samples / self.batch) / self._total
        so_far = self.spent
        return samples * self._share(so_far) / so_far.samples if so_far.samples else 0.0

    @property
    def overspent(self) -> str:
        """What was spent, in the budget's unit; empty if it is within the tolerance."""
        spent = self.spent
        if self._share(spent) <= 1 + TOLERANCE + ROUNDING:
            return ""
        if self._total is None:
            return f"{self._budget.clock(spent):.3g} of {self.amount:g} {self.kind.replace('_', '-')}"
        return f"{spent.steps} of {self._total} steps"

    def _share(self, spent: Spent) -> float:
        return self._budget.share(spent, self._total)

    @contextlib.contextmanager
    def watching(self, model: Any) -> Iterator[Allowance]:
        """Around the model's own training: the clock runs, and passes through the model are counted."""
        handles: list[Any] = []
        if isinstance(model, nn.Module):
            handles = [model.register_forward_pre_hook(self._passed_forward), *self._on_gradients(model)]
        self._emitted = time.perf_counter()
        with adopting_orphans() if self.kind == "core_seconds" else contextlib.nullcontext():
            others = self._cpu_of_others()
            self._clocks.start()
            try:
                yield self
            finally:
                seconds, core_seconds = self._clocks.so_far()
                # Less what others had before: of one that has ended since, the clock counts the whole life.
                self._taken = Lap(seconds, max(0.0, core_seconds + self._cpu_of_others() - others))
                for handle in handles:
                    handle.remove()

    def _cpu_of_others(self) -> float:
        """Of processes that were started and that nobody has waited for: they are charged when the fit ends."""
        return cpu_of_descendants(os.getpid()) if self.kind == "core_seconds" else 0.0

    def _passed_forward(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if torch.is_grad_enabled() and inputs and isinstance(inputs[0], Tensor):
            self._forward += len(inputs[0])

    def _on_gradients(self, model: nn.Module) -> Iterator[Any]:
        """A backward pass reaches each parameter at most once, so the largest count over parameters is taken."""
        for parameter in model.parameters():
            if parameter.requires_grad:
                yield parameter.register_hook(self._counter())

    def _counter(self) -> Callable[[Tensor], None]:
        reached = 0

        def count(gradient: Tensor) -> None:
            nonlocal reached
            reached += 1
            self._backward = max(self._backward, reached)

        return count
