"""The one training loop: AdamW, a cosine that follows the budget, clipping, mean squared error, last weights.

Everything here is the same for every model. The order of the batches depends on task and seed alone, so all models see
the same samples at the same steps; nothing looks at test data; the weights after the last step are the result.

    lr(t) = lr_min + (lr - lr_min) (1 + cos(pi t)) / 2,      t = fraction of the budget used

The paper's loss is ||pred - target||^2 averaged over the batch; its name, mean squared error, averages over points too.
The two differ by a constant factor that AdamW ignores but gradient clipping does not: the mean over points is used.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from . import checkpoints, flops, warmup
from .budget import Budget, Spent
from .hashing import seed_from
from .normalization import Normalizer, fit_affine
from .ranks import ALONE, Ranks
from .task import TaskInfo

if TYPE_CHECKING:
    from .blind import BlindData
    from .data import TaskData

# Raise it when a change to this loop, or to evaluation, can change a result: it is part of every trial's key.
PROTOCOL = 1

BETAS = (0.9, 0.99)
CLIP_NORM = 1.0
CHECKPOINT_SECONDS = 5.0
CHECKPOINT_SHARE = 0.02  # of a trial's time: a checkpoint that takes long is written less often
EMIT_SECONDS = 0.25
CURVE_POINTS = 256

Emit = Callable[..., None]


class Diverged(Exception):
    """The loss, or a prediction, is not a finite number."""


class Interrupted(Exception):
    """The trial was asked to stop; its state is saved."""


@dataclass(frozen=True)
class TrainSet:
    """Normalised training pairs, ``(n, channels, *grid)``; for rollout tasks one pair per step of each trajectory."""

    inputs: Tensor
    outputs: Tensor
    normalizer: Normalizer
    task: TaskInfo

    def __len__(self) -> int:
        return len(self.inputs)


@dataclass(frozen=True)
class Optimizer:
    """AdamW's numbers and the batch."""

    batch: int
    lr: float
    lr_min: float
    weight_decay: float


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
        if len(self.steps) == CURVE_POINTS:  # merge neighbours and go on half as densely
            self.steps = self.steps[1::2]
            self.losses = [(a + b) / 2 for a, b in zip(self.losses[::2], self.losses[1::2])]
            self.stride *= 2


@dataclass
class Run:
    """The state of a training run: all that a checkpoint has to hold besides weights and optimiser."""

    spent: Spent = field(default_factory=Spent)
    curve: Curve = field(default_factory=Curve)


def prepare(data: TaskData | BlindData, dtype: torch.dtype) -> TrainSet:
    """Form the training pairs and fit the normaliser to them."""
    task, inputs, outputs = data.task, data.train.inputs, data.train.outputs
    if task.rollout:
        frames = np.concatenate([inputs[:, None], outputs], axis=1)  # (n, 1 + steps, c, *grid)
        inputs = frames[:, :-1].reshape(-1, *frames.shape[2:])  # (n * steps, c, *grid)
        outputs = np.diff(frames, axis=1).reshape(inputs.shape)
    kind = task.spec.normalization
    normalizer = Normalizer(fit_affine(inputs, kind), fit_affine(outputs, kind))
    return TrainSet(
        torch.as_tensor(normalizer.inputs.normalise(inputs), dtype=dtype),
        torch.as_tensor(normalizer.outputs.normalise(outputs), dtype=dtype),
        normalizer,
        task,
    )


def cosine(fraction: float, peak: float, minimum: float) -> float:
    return minimum + (peak - minimum) * 0.5 * (1.0 + math.cos(math.pi * fraction))


def mean_squared_error(mask: Tensor | None) -> Callable[[Tensor, Tensor], Tensor]:
    """Over the points inside the domain."""
    share = 1.0 if mask is None else mask.double().mean().item()

    def loss(prediction: Tensor, target: Tensor) -> Tensor:
        if prediction.shape != target.shape:  # torch would broadcast, and train something else
            raise ValueError(f"the model's output has shape {tuple(prediction.shape)}, expected {tuple(target.shape)}")
        if mask is None:
            return nn.functional.mse_loss(prediction, target)
        return ((prediction - target) * mask).square().mean() / share

    return loss


class BatchOrder:
    """Which samples step s sees: a fresh permutation per epoch, from task and seed alone, so it can start anywhere."""

    def __init__(self, n: int, batch: int, *names: Any) -> None:
        self.n, self.batch, self.names = n, min(batch, n), names
        self.per_epoch = math.ceil(n / self.batch)
        self._epoch = -1
        self._order = torch.empty(0, dtype=torch.long)

    def at(self, step: int) -> Tensor:
        epoch, position = divmod(step, self.per_epoch)
        if epoch != self._epoch:
            generator = torch.Generator().manual_seed(seed_from("order", *self.names, epoch))
            self._order, self._epoch = torch.randperm(self.n, generator=generator), epoch
        return self._order[position * self.batch : (position + 1) * self.batch]


def count_step_flops(module: nn.Module, train: TrainSet, batch: int, ranks: Ranks = ALONE) -> float:
    """Forward and backward of one full batch, leaving neither gradients, buffers nor random state changed.

    Rank 0 counts, so that a step has the FLOPs it has in one process. If a full batch does not fit there, two shares of
    it are extrapolated: a part per sample and a part per step.
    """
    if ranks.rank > 0:
        return ranks.same(None)
    try:
        total = _count_flops(module, train, batch)
    except torch.OutOfMemoryError:
        if ranks.size == 1:
            raise
        share = max(2, -(-batch // ranks.size))
        whole, half = _count_flops(module, train, share), _count_flops(module, train, share // 2)
        total = whole + (batch - share) * (whole - half) / (share - share // 2)
    return ranks.same(total)


def _count_flops(module: nn.Module, train: TrainSet, batch: int) -> float:
    buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
    # Copied to the module's device, as batches are; clones so that an in-place model can't spoil the data.
    device = next(module.parameters()).device
    x = train.inputs[:batch].to(device, copy=True)
    y = train.outputs[:batch].to(device)
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        total = flops.count_step(lambda: nn.functional.mse_loss(module(x), y).backward())
    module.zero_grad(set_to_none=True)
    for name, buffer in module.named_buffers():
        buffer.copy_(buffers[name])
    return total


def fit(
    module: nn.Module,
    train: TrainSet,
    budget: Budget,
    optimizer: Optimizer,
    *,
    seed: int,
    device: torch.device,
    flops_step: float,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    emit: Emit = lambda **_: None,
    should_stop: Callable[[], bool] = lambda: False,
    ranks: Ranks = ALONE,
) -> Run:
    """Train in place until the budget is used; goes on from ``checkpoint`` if there is one.

    Several ``ranks`` share each batch and agree after each step; what they compute is what one process would.
    """
    order = BatchOrder(len(train), optimizer.batch, train.task.name, seed)
    inputs, outputs = _place(train.inputs, device), _place(train.outputs, device)
    mask = None if train.task.mask is None else torch.as_tensor(train.task.mask).to(device, inputs.dtype)
    loss_of = mean_squared_error(mask)
    parameters = [p for p in module.parameters() if p.requires_grad]
    adamw = torch.optim.AdamW(
        parameters,
        lr=optimizer.lr,
        betas=BETAS,
        weight_decay=optimizer.weight_decay,
        fused=all(p.is_floating_point() for p in parameters),
    )
    state = Run()
    if checkpoint is not None:
        stored = ranks.same(checkpoints.read(checkpoint) if ranks.rank == 0 else None)
        if stored is not None and checkpoints.restore(checkpoint, stored, module, adamw):
            state = Run(Spent(**stored["spent"]), Curve(**stored["curve"]))
    total = budget.steps(len(train), order.batch, flops_step)
    warmup.warm_up(module, inputs, outputs, loss_of, warmup.batch_sizes(len(train), order.batch, ranks.size), device)
    spent, shared = state.spent, ranks.wrap(module.train())
    clock = last_saved = last_emitted = time.perf_counter()
    interval = checkpoint_seconds

    while (fraction := budget.fraction(spent, total)) < 1.0:
        for group in adamw.param_groups:
            group["lr"] = cosine(fraction, optimizer.lr, optimizer.lr_min)
        index = order.at(spent.steps)
        mine, weight = ranks.share(index)
        x, y = _batch(inputs, mine, device), _batch(outputs, mine, device)
        adamw.zero_grad(set_to_none=True)
        loss = weight * loss_of(shared(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, CLIP_NORM)
        adamw.step()
        value = loss.item()
        now = time.perf_counter()
        value, elapsed, stopping = ranks.agree(value, now - clock, should_stop())
        clock = now
        if not math.isfinite(value):
            raise Diverged(f"loss is {value} at step {spent.steps}")
        state.curve.add(spent.steps, value)
        spent.steps += 1
        spent.samples += len(index)
        spent.flops += flops_step * len(index) / order.batch
        spent.seconds += elapsed

        if now - last_emitted > EMIT_SECONDS:
            emit(step=spent.steps, total=total, fraction=budget.fraction(spent, total), loss=value)
            last_emitted = now
        if checkpoint is not None and ranks.rank == 0 and (stopping or now - last_saved > interval):
            checkpoints.write(checkpoint, module, adamw, asdict(state))
            last_saved = clock = time.perf_counter()  # saving is not training: no budget is spent on it
            interval = max(checkpoint_seconds, (last_saved - now) / CHECKPOINT_SHARE)
        if stopping:
            raise Interrupted(f"stopped at step {spent.steps}")
    return state


def _place(x: Tensor, device: torch.device) -> Tensor:
    """On the device if it fits in a third of its free memory, else on the host, from where batches are sent."""
    if device.type == "cuda" and x.nbytes > torch.cuda.mem_get_info(device)[0] / 3:
        return x.pin_memory()
    return x.to(device)


def _batch(x: Tensor, index: Tensor, device: torch.device) -> Tensor:
    return x[index.to(x.device)].to(device, non_blocking=True)
