"""The one training loop: it spends a budget on steps, keeps account, and stops. The last weights are the result.

    objective    what is minimised: mean squared error, or the model's own loss; one step of a rollout, or several
    optimizers   how weights are updated: AdamW on a cosine that follows the budget, or the model's own optimiser
    steps        which samples a step sees, and how many steps are taken at a time

Everything here is the same for every model. The order of the batches depends on task and seed alone, so all models see
the same samples at the same steps; nothing looks at test data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..base import machine
from ..base.devices import DEFAULT_PRECISION
from ..base.errors import Interrupted
from ..contract.budget import Budget, Spent
from ..contract.optimizer import Optimizer
from . import checkpoints, flops, warmup
from .clocks import Clocks
from .footprint import FEWEST, USUAL, line_through
from .graphs import make_step
from .heldout import HeldOut, HeldOutCurve
from .objective import Objective
from .optimizers import Descent
from .peers import ALONE, Peers
from .pieces import in_pieces
from .progress import Emit, Progress, say_nothing
from .steps import BatchOrder, Diverged, Minibatches, Samples, WholeSet
from .streaming import Pairs
from .trial_device import autocast, kept_random_state, synchronize

CHECKPOINT_SECONDS = 5.0
CHECKPOINT_SHARE = 0.02  # share of a trial's time: slow checkpoints are written less often
EMIT_SECONDS = 0.25
CURVE_POINTS = 256


@dataclass
class Curve:
    """The loss along the way in at most `CURVE_POINTS` points, each the mean of ``stride`` steps."""

    stride: int = 1
    steps: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    pending: list[float] = field(default_factory=list)

    def add(self, step: int, loss: float) -> None:
        self.pending.append(loss)
        if len(self.pending) < self.stride:
            return
        self.steps.append(step)
        self.losses.append(sum(self.pending) / len(self.pending))
        self.pending = []
        if len(self.steps) == CURVE_POINTS:  # merge neighbours and continue with half the density
            self.steps = self.steps[1::2]
            self.losses = [(a + b) / 2 for a, b in zip(self.losses[::2], self.losses[1::2], strict=True)]
            self.stride *= 2

    def arrays(self) -> dict[str, np.ndarray]:
        """In the form of a record."""
        return {"curve_steps": np.asarray(self.steps), "curve_losses": np.asarray(self.losses)}


@dataclass
class TrainingState:
    """The state of a training run: all that a checkpoint has to hold besides weights and optimiser."""

    spent: Spent = field(default_factory=Spent)
    curve: Curve = field(default_factory=Curve)
    held_out: HeldOutCurve = field(default_factory=HeldOutCurve)  # empty where nothing was held out
    graphs: str = ""  # whether CUDA graphs were used, if they were asked for


def count_step_flops(
    module: nn.Module,
    train: Pairs,
    batch: int,
    peers: Peers = ALONE,
    precision: str = DEFAULT_PRECISION,
    detach: bool = False,
    piece: int | None = None,
) -> float:
    """Forward and backward of one full batch, leaving neither gradients, buffers nor random state changed.

    Peer 0 counts the whole batch, so that a step has the FLOPs it has in one process. If a full batch does not fit
    there, or is computed in pieces, the count is extrapolated linearly from two small batches: a part per sample and a
    part per step. Pieces change no count: what they compute again is not charged.
    """
    if peers.number > 0:
        return peers.same(None)
    batch = min(batch, len(train))

    def counted(n: int) -> float:
        total = _count_flops(module, train, n, precision, detach)
        if piece is not None:
            machine.give_back_memory()  # there may be a memory limit, and cached blocks fit no array of another size
        return total

    if piece is not None:
        return peers.same(line_through(counted, USUAL if piece >= max(USUAL) else FEWEST).at(batch))
    try:
        total = counted(batch)
    except torch.cuda.OutOfMemoryError:
        if peers.size == 1:
            raise
        total = line_through(counted).at(batch)
    return peers.same(total)


def _count_flops(module: nn.Module, train: Pairs, batch: int, precision: str, detach: bool) -> float:
    buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
    # Gathered and sent to the module's device, as batches are: an in-place model can't spoil the data.
    device = next(module.parameters()).device
    x, y = (t.to(device) for t in train.pairs(torch.arange(batch) % len(train)))
    objective = Objective(module, train, device, detach=detach)

    def step() -> None:
        with autocast(device, precision):
            loss = objective(x, y)
        loss.backward()

    with kept_random_state(device):
        total = flops.count_step(step)
    module.zero_grad(set_to_none=True)
    for name, buffer in module.named_buffers():
        buffer.copy_(buffers[name])
    return total


def fit(
    module: nn.Module,
    train: Pairs,
    budget: Budget,
    optimizer: Optimizer,
    *,
    seed: int,
    device: torch.device,
    flops_step: float,
    detach: bool = False,
    held_out: HeldOut | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    emit: Emit = say_nothing,
    should_stop: Callable[[], bool] = lambda: False,
    peers: Peers = ALONE,
    precision: str = DEFAULT_PRECISION,
    cuda_graphs: bool = False,
    piece: int | None = None,
) -> TrainingState:
    """Train in place until the budget is used; resumes from ``checkpoint`` if there is one.

    The error on ``held_out`` samples is measured now and then and changes nothing. Several ``peers`` share each batch
    and agree after each window of steps, which is a single step on CPUs (see `Pace`); they compute what one process
    would. ``piece`` is how many samples are computed at a time (see `pieces`); None means the whole batch.
    """
    samples = Samples(train, device)
    order = BatchOrder(len(train), optimizer.batch, train.task.name, seed, device=samples.home)
    objective = Objective(module, train, device, detach=detach)
    descent = Descent(module, optimizer, device)
    state = TrainingState()
    if checkpoint is not None:
        stored = peers.same(checkpoints.read(checkpoint) if peers.number == 0 else None)
        if stored is not None and checkpoints.restore(checkpoint, stored, module, descent.optimizer, device):
            state = _restored(stored)
    shapes = warmup.batch_sizes(len(train), order.batch, peers.size, piece)
    warmup.warm_up(objective, samples.first, shapes, device, precision)
    spent, wrapped = state.spent, peers.wrap(module.train())
    shared = objective.of(module, wrapped)

    def loss_and_gradients(x: Tensor, y: Tensor, weight: float) -> Tensor:
        with autocast(device, precision):
            loss = weight * shared(x, y)
        loss.backward()
        return loss.detach()

    eager = in_pieces(loss_and_gradients, piece, lambda: peers.unshared(wrapped))
    total = budget.steps(len(train), order.batch, flops_step)
    way: Minibatches | WholeSet
    if descent.needs_closure:
        way = WholeSet(descent, eager, samples, order, budget)
        total = way.affordable(total)
    else:
        step, state.graphs = make_step(eager, module, samples.first, order, peers, device, cuda_graphs)
        way = Minibatches(descent, step, samples, order, peers, budget)
    budget.refuse_device(device.type)
    synchronize(device)
    clocks, interval = Clocks(), checkpoint_seconds
    last_saved = last_emitted = clocks.now

    while budget.fraction(spent, total) < 1.0:
        done = way.take(spent, total, clocks.so_far)
        values, lap, stopping = peers.agree(done.losses, clocks.lap(), should_stop())
        now = clocks.now
        way.pace.measured(len(values), lap.seconds)
        for value, size in zip(values, done.samples, strict=True):
            if not math.isfinite(value):
                raise Diverged(f"loss is {value} at step {spent.steps}")
            state.curve.add(spent.steps, value)
            spent.steps += done.steps
            spent.samples += size
            spent.flops += flops_step * size / order.batch
        spent.seconds += lap.seconds
        spent.core_seconds += lap.core_seconds

        fraction = budget.fraction(spent, total)
        if now - last_emitted > EMIT_SECONDS:
            emit(Progress(spent.steps, total, fraction, values[-1]))
            last_emitted = now
        if held_out is not None and state.held_out.is_due(fraction):
            state.held_out.add(spent, held_out.error(module))
            clocks.start()  # evaluation is not charged to the budget
        if checkpoint is not None and peers.number == 0 and (stopping or now - last_saved > interval):
            checkpoints.write(checkpoint, module, descent.optimizer, _to_store(state), device)
            clocks.start()  # nor is saving
            last_saved = clocks.now
            interval = max(checkpoint_seconds, (last_saved - now) / CHECKPOINT_SHARE)
        if stopping:
            raise Interrupted(f"stopped at step {spent.steps}")
    return state


def _to_store(state: TrainingState) -> dict[str, Any]:
    return {name: asdict(getattr(state, name)) for name in ("spent", "curve", "held_out")}


def _restored(stored: Mapping[str, Any]) -> TrainingState:
    return TrainingState(Spent(**stored["spent"]), Curve(**stored["curve"]), HeldOutCurve(**stored.get("held_out", {})))
