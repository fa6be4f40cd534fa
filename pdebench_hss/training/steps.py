"""How the weights change: by batches in an order that all models share, or by gradients of the whole training set.

Both have one method, `take`: continue from what was spent, and return what was done. The loop keeps account.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..base.hashing import seed_from
from ..contract.budget import Budget, Spent
from .clocks import Lap
from .graphs import Step
from .optimizers import Descent, closure_step
from .peers import Peers
from .streaming import Pairs, StreamedSet
from .trial_device import CPU, free_memory

WINDOW_SECONDS = 0.1  # seconds of work queued on a GPU before the host waits for it
WINDOW_STEPS = 64


class Diverged(Exception):
    """The loss, or a prediction, is not a finite number."""


@dataclass(frozen=True)
class Done:
    """Computed gradients: the loss of each, the samples it saw, and how many steps of a budget it counts as."""

    losses: list[float]
    samples: list[int]
    steps: int = 1


class BatchOrder:
    """Which samples step s sees: a fresh permutation per epoch, from task and seed alone, so it can start anywhere.

    It is drawn on the host, and sent to the ``device`` that holds the samples once per epoch.
    """

    def __init__(self, n: int, batch: int, *names: Any, device: torch.device = CPU) -> None:
        self.n, self.batch, self.names, self.device = n, min(batch, n), names, device
        self.per_epoch = math.ceil(n / self.batch)
        self._epoch = -1
        self._order = torch.empty(0, dtype=torch.long)

    def at(self, step: int) -> Tensor:
        epoch, position = divmod(step, self.per_epoch)
        if epoch != self._epoch:
            generator = torch.Generator().manual_seed(seed_from("order", *self.names, epoch))
            order = torch.randperm(self.n, generator=generator)
            self._order, self._epoch = order.to(self.device), epoch
        return self._order[position * self.batch : (position + 1) * self.batch]


class Pace:
    """How many steps to queue before the host waits for the device: reading a loss means waiting.

    On a CPU there is nothing to wait for, and every loss is read at once. On a GPU a window is about `WINDOW_SECONDS`
    of work, less where a budget of seconds ends soon. It depends only on numbers that peers agree on.
    """

    def __init__(self, device: torch.device) -> None:
        self.longest = 1 if device.type == "cpu" else WINDOW_STEPS
        self.step_seconds = 0.0  # as measured over the last window; unknown before the first

    def window(self, seconds_left: float) -> int:
        if self.longest == 1 or not self.step_seconds:
            return 1
        # Half of what is left, so that the last windows are short and training ends on time.
        return max(1, min(self.longest, int(min(WINDOW_SECONDS, seconds_left / 2) / self.step_seconds)))

    def measured(self, steps: int, seconds: float) -> None:
        self.step_seconds = seconds / steps

    def ahead(self, spent: Spent, steps: int) -> Spent:
        """What will be spent after some more steps; their time can only be estimated."""
        if steps == 0:
            return spent
        return replace(spent, steps=spent.steps + steps, seconds=spent.seconds + steps * self.step_seconds)


class Minibatches:
    """A step for each batch: gradients, clipping, the optimiser."""

    def __init__(
        self, descent: Descent, step: Step, samples: Samples, order: BatchOrder, peers: Peers, budget: Budget
    ) -> None:
        self.descent, self.step, self.samples, self.order, self.peers = descent, step, samples, order, peers
        self.budget, self.pace = budget, Pace(samples.device)

    def take(self, spent: Spent, total: int | None, elapsed: Callable[[], Lap]) -> Done:
        """A window of steps (see `Pace`), fewer if the budget ends."""
        pending: list[Tensor] = []
        sizes: list[int] = []
        seconds_left = math.inf if total is not None else self.budget.amount - self.budget.clock(spent)
        for ahead in range(self.pace.window(seconds_left)):
            if (fraction := self.budget.fraction(self.pace.ahead(spent, ahead), total)) >= 1.0:
                break
            self.descent.set_rates(fraction)
            index = self.order.at(spent.steps + ahead)
            mine, weight = self.peers.share(index)
            self.descent.optimizer.zero_grad(set_to_none=True)
            following = partial(self._mine, spent.steps + ahead + 1)
            pending.append(self.step(*self.samples.batch(mine, following), weight))
            self.descent.update()
            sizes.append(len(index))
        return Done(_read(pending), sizes)

    def _mine(self, step: int) -> Tensor:
        return self.peers.share(self.order.at(step))[0]


class WholeSet:
    """A step of an optimiser with a closure: each of its evaluations sees all samples, batch by batch."""

    def __init__(self, descent: Descent, step: Step, samples: Samples, order: BatchOrder, budget: Budget) -> None:
        self.descent, self.step, self.samples, self.order = descent, step, samples, order
        self.budget = budget
        self.pace = Pace(CPU)

    def affordable(self, total: int | None) -> int | None:
        """A number of steps rounded to whole evaluations."""
        if total is None:
            return None
        if total < self.order.per_epoch:
            raise ValueError(
                f"the model's optimiser needs the gradient of all {self.order.n} samples at once, "
                f"{self.order.per_epoch} steps each; the budget has {total}"
            )
        return total - total % self.order.per_epoch

    def take(self, spent: Spent, total: int | None, elapsed: Callable[[], Lap]) -> Done:
        self.descent.set_rates(self.budget.fraction(spent, total))
        each, n = self.order.per_epoch, self.order.n

        def affordable(evaluations: int) -> bool:
            seconds, core_seconds = elapsed()
            now = replace(
                spent,
                steps=spent.steps + evaluations * each,
                seconds=spent.seconds + seconds,
                core_seconds=spent.core_seconds + core_seconds,
            )
            return self.budget.fraction(now, total) < 1.0

        losses = closure_step(self.descent, lambda: self._evaluate(spent), affordable)
        return Done(losses, [n] * len(losses), steps=each)

    def _evaluate(self, spent: Spent) -> float:
        """The mean loss of all samples; its gradients are left with the weights."""
        self.descent.optimizer.zero_grad(set_to_none=True)
        n, device = self.order.n, self.samples.home
        parts = [
            self.step(*self.samples.batch(index), len(index) / n)
            for index in torch.arange(n, device=device).split(self.order.batch)
        ]
        loss = torch.stack(parts).sum().item()
        if not math.isfinite(loss):  # a line search would try to get around it
            raise Diverged(f"loss is {loss} at step {spent.steps}")
        return loss


class Samples:
    """The training pairs, on the device if both halves fit in a third of its free memory, else on the host or in their
    file, from where batches are sent."""

    def __init__(self, train: Pairs, device: torch.device) -> None:
        self.device, self.train = device, train
        self.home = CPU  # where indices are
        if isinstance(train, StreamedSet):
            return
        free = free_memory(device)
        if free is None or train.nbytes <= free / 3:
            train = replace(train, inputs=train.inputs.to(device), outputs=train.outputs.to(device))
        self.train, self.home = train, train.inputs.device

    def batch(self, index: Tensor, following: Callable[[], Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """A batch on the device; what is ``following`` it is asked for only where it has to be read."""
        if isinstance(self.train, StreamedSet):
            x, y = self.train.pairs(index)
            if following is not None:
                self.train.soon(following())
            return x.to(self.device), y.to(self.device)
        return _batch(self.train.inputs, index, self.device), _batch(self.train.outputs, index, self.device)

    def first(self, count: int) -> tuple[Tensor, Tensor]:
        """Pairs on the device that are nobody else's."""
        if isinstance(self.train, StreamedSet):
            return self.batch(torch.arange(min(count, len(self.train))))
        x, y = self.train.inputs[:count], self.train.outputs[:count]
        return x.to(self.device, copy=True), y.to(self.device, copy=True)


def _read(losses: list[Tensor]) -> list[float]:
    """The only place that waits for the device: afterwards everything started before is done."""
    return [losses[0].item()] if len(losses) == 1 else torch.stack(losses).tolist()


def _batch(x: Tensor, index: Tensor, device: torch.device) -> Tensor:
    if x.device.type == device.type:
        return x[index]
    # Gathered into pinned memory, from where it is sent without waiting; torch keeps that memory for the next batch.
    pinned = torch.empty((len(index), *x.shape[1:]), dtype=x.dtype, pin_memory=device.type == "cuda")
    return torch.index_select(x, 0, index, out=pinned).to(device, non_blocking=True)
