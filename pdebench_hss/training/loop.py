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

from ..base.devices import DEFAULT_PRECISION
from ..base.errors import Interrupted
from ..base.hashing import seed_from
from ..contract.budget import Budget, Spent
from ..contract.optimizer import Optimizer
from ..contract.task import TaskInfo
from . import checkpoints, flops, warmup
from .graphs import make_step
from .normalization import Normalizer, fit_affine
from .peers import ALONE, Peers
from .progress import Emit, Progress, say_nothing
from .trial_device import CPU, autocast, free_memory, kept_random_state, synchronize

if TYPE_CHECKING:
    from ..data.blind import BlindData
    from ..data.cache import TaskData

BETAS = (0.9, 0.99)
CLIP_NORM = 1.0
CHECKPOINT_SECONDS = 5.0
CHECKPOINT_SHARE = 0.02  # of a trial's time: a checkpoint that takes long is written less often
EMIT_SECONDS = 0.25
CURVE_POINTS = 256
WINDOW_SECONDS = 0.1  # of work given to a GPU before the host waits for it
WINDOW_STEPS = 64


class Diverged(Exception):
    """The loss, or a prediction, is not a finite number."""


@dataclass(frozen=True)
class TrainSet:
    """Normalised training pairs, ``(n, channels, *grid)``; for rollout tasks one pair per step of each trajectory."""

    inputs: Tensor
    outputs: Tensor
    normalizer: Normalizer
    task: TaskInfo

    def __len__(self) -> int:
        return len(self.inputs)


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
class TrainingState:
    """The state of a training run: all that a checkpoint has to hold besides weights and optimiser."""

    spent: Spent = field(default_factory=Spent)
    curve: Curve = field(default_factory=Curve)
    graphs: str = ""  # what became of CUDA graphs, where they were asked for


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
    share = 1.0 if mask is None else mask.cpu().double().mean().item()  # a device may have no float64

    def loss(prediction: Tensor, target: Tensor) -> Tensor:
        if prediction.shape != target.shape:  # torch would broadcast, and train something else
            raise ValueError(f"the model's output has shape {tuple(prediction.shape)}, expected {tuple(target.shape)}")
        if mask is None:
            return nn.functional.mse_loss(prediction, target)
        return ((prediction - target) * mask).square().mean() / share

    return loss


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
    """How many steps to start before the host waits for the device: to read a loss is to wait.

    On a CPU there is nothing to wait for, and every loss is read at once. On a GPU a window is about `WINDOW_SECONDS`
    of work, less where a budget of seconds ends soon. All is computed from numbers that peers agree on.
    """

    def __init__(self, device: torch.device) -> None:
        self.longest = 1 if device.type == "cpu" else WINDOW_STEPS
        self.step_seconds = 0.0  # as measured over the last window; unknown before the first

    def window(self, seconds_left: float) -> int:
        if self.longest == 1 or not self.step_seconds:
            return 1
        # Half of what is left, so that the last windows are short and the end is where it should be.
        return max(1, min(self.longest, int(min(WINDOW_SECONDS, seconds_left / 2) / self.step_seconds)))

    def measured(self, steps: int, seconds: float) -> None:
        self.step_seconds = seconds / steps

    def ahead(self, spent: Spent, steps: int) -> Spent:
        """What will be spent after some more steps, the time of which can only be guessed."""
        if steps == 0:
            return spent
        return Spent(spent.steps + steps, spent.samples, spent.seconds + steps * self.step_seconds, spent.flops)


def count_step_flops(
    module: nn.Module, train: TrainSet, batch: int, peers: Peers = ALONE, precision: str = DEFAULT_PRECISION
) -> float:
    """Forward and backward of one full batch, leaving neither gradients, buffers nor random state changed.

    Peer 0 counts, so that a step has the FLOPs it has in one process. If a full batch does not fit there, two shares of
    it are extrapolated: a part per sample and a part per step.
    """
    if peers.number > 0:
        return peers.same(None)
    try:
        total = _count_flops(module, train, batch, precision)
    except torch.cuda.OutOfMemoryError:
        if peers.size == 1:
            raise
        share = max(2, -(-batch // peers.size))
        whole, half = (_count_flops(module, train, n, precision) for n in (share, share // 2))
        total = whole + (batch - share) * (whole - half) / (share - share // 2)
    return peers.same(total)


def _count_flops(module: nn.Module, train: TrainSet, batch: int, precision: str) -> float:
    buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
    # Copied to the module's device, as batches are; clones so that an in-place model can't spoil the data.
    device = next(module.parameters()).device
    x = train.inputs[:batch].to(device, copy=True)
    y = train.outputs[:batch].to(device)

    def step() -> None:
        with autocast(device, precision):
            loss = nn.functional.mse_loss(module(x), y)
        loss.backward()

    with kept_random_state(device):
        total = flops.count_step(step)
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
    emit: Emit = say_nothing,
    should_stop: Callable[[], bool] = lambda: False,
    peers: Peers = ALONE,
    precision: str = DEFAULT_PRECISION,
    cuda_graphs: bool = False,
) -> TrainingState:
    """Train in place until the budget is used; goes on from ``checkpoint`` if there is one.

    Several ``peers`` share each batch and agree after each window of steps, a single one on CPUs (see `Pace`); what
    they compute is what one process would.
    """
    inputs, outputs = _place(train, device)
    order = BatchOrder(len(train), optimizer.batch, train.task.name, seed, device=inputs.device)
    mask = None if train.task.mask is None else torch.as_tensor(train.task.mask).to(device, inputs.dtype)
    loss_of = mean_squared_error(mask)
    parameters = [p for p in module.parameters() if p.requires_grad]
    adamw = make_adamw(parameters, optimizer, device)
    state = TrainingState()
    if checkpoint is not None:
        stored = peers.same(checkpoints.read(checkpoint) if peers.number == 0 else None)
        if stored is not None and checkpoints.restore(checkpoint, stored, module, adamw, device):
            state = TrainingState(Spent(**stored["spent"]), Curve(**stored["curve"]))
    total = budget.steps(len(train), order.batch, flops_step)
    shapes = warmup.batch_sizes(len(train), order.batch, peers.size)
    warmup.warm_up(module, inputs, outputs, loss_of, shapes, device, precision)
    spent, shared, pace = state.spent, peers.wrap(module.train()), Pace(device)

    def loss_and_gradients(x: Tensor, y: Tensor, weight: float) -> Tensor:
        with autocast(device, precision):
            loss = weight * loss_of(shared(x), y)
        loss.backward()
        return loss.detach()

    step, state.graphs = make_step(loss_and_gradients, module, inputs, outputs, order, peers, device, cuda_graphs)
    synchronize(device)
    clock = last_saved = last_emitted = time.perf_counter()
    interval = checkpoint_seconds

    while budget.fraction(spent, total) < 1.0:
        pending: list[Tensor] = []
        sizes: list[int] = []
        seconds_left = math.inf if total is not None else budget.amount - spent.seconds
        for ahead in range(pace.window(seconds_left)):
            if (fraction := budget.fraction(pace.ahead(spent, ahead), total)) >= 1.0:
                break
            for group in adamw.param_groups:
                group["lr"] = cosine(fraction, optimizer.lr, optimizer.lr_min)
            index = order.at(spent.steps + ahead)
            mine, weight = peers.share(index)
            adamw.zero_grad(set_to_none=True)
            pending.append(step(_batch(inputs, mine, device), _batch(outputs, mine, device), weight))
            torch.nn.utils.clip_grad_norm_(parameters, CLIP_NORM)
            adamw.step()
            sizes.append(len(index))
        values = _read(pending)
        now = time.perf_counter()
        values, elapsed, stopping = peers.agree(values, now - clock, should_stop())
        clock = now
        pace.measured(len(values), elapsed)
        for value, size in zip(values, sizes):
            if not math.isfinite(value):
                raise Diverged(f"loss is {value} at step {spent.steps}")
            state.curve.add(spent.steps, value)
            spent.steps += 1
            spent.samples += size
            spent.flops += flops_step * size / order.batch
        spent.seconds += elapsed

        if now - last_emitted > EMIT_SECONDS:
            emit(Progress(spent.steps, total, budget.fraction(spent, total), values[-1]))
            last_emitted = now
        if checkpoint is not None and peers.number == 0 and (stopping or now - last_saved > interval):
            checkpoints.write(checkpoint, module, adamw, {"spent": asdict(spent), "curve": asdict(state.curve)}, device)
            last_saved = clock = time.perf_counter()  # saving is not training: no budget is spent on it
            interval = max(checkpoint_seconds, (last_saved - now) / CHECKPOINT_SHARE)
        if stopping:
            raise Interrupted(f"stopped at step {spent.steps}")
    return state


def make_adamw(parameters: list[nn.Parameter], optimizer: Optimizer, device: torch.device) -> torch.optim.Optimizer:
    """In one kernel for all weights where there is one: on a CPU for real weights, on a GPU for complex ones too."""
    settings: dict[str, Any] = {"lr": optimizer.lr, "betas": BETAS, "weight_decay": optimizer.weight_decay}
    is_real = all(p.is_floating_point() for p in parameters)
    if device.type == "cuda" and not is_real:
        return RealViewAdamW(parameters, **settings)
    fused = is_real if device.type in ("cpu", "cuda") else None  # elsewhere, what torch takes
    return torch.optim.AdamW(parameters, **settings, fused=fused)


class RealViewAdamW(torch.optim.AdamW):
    """AdamW of complex weights as pairs of reals, which is how torch counts them, in the fused kernel.

    torch's own takes a kernel per operation and weight as soon as one weight is complex.
    """

    def __init__(self, parameters: list[nn.Parameter], **settings: Any) -> None:
        self._pairs = [(p, torch.view_as_real(p.detach()) if p.is_complex() else p) for p in parameters]
        super().__init__([real for _, real in self._pairs], **settings, fused=True)

    def step(self, closure: Any = None) -> Any:
        for weight, real in self._pairs:
            if real is not weight and weight.grad is not None:
                real.grad = torch.view_as_real(weight.grad.resolve_conj())
        return super().step(closure)

    def zero_grad(self, set_to_none: bool = True) -> None:
        super().zero_grad(set_to_none)
        for weight, _ in self._pairs:
            weight.grad = None


def _read(losses: list[Tensor]) -> list[float]:
    """The one wait for the device: everything that was started before is done afterwards."""
    return [losses[0].item()] if len(losses) == 1 else torch.stack(losses).tolist()


def _place(train: TrainSet, device: torch.device) -> tuple[Tensor, Tensor]:
    """On the device if both fit in a third of its free memory, else on the host, from where batches are sent."""
    free = free_memory(device)
    if free is not None and train.inputs.nbytes + train.outputs.nbytes > free / 3:
        return train.inputs, train.outputs
    return train.inputs.to(device), train.outputs.to(device)


def _batch(x: Tensor, index: Tensor, device: torch.device) -> Tensor:
    if x.device.type == device.type:
        return x[index]
    # Gathered into pinned memory, from where it is sent without waiting; torch keeps that memory for the next batch.
    pinned = torch.empty((len(index), *x.shape[1:]), dtype=x.dtype, pin_memory=device.type == "cuda")
    return torch.index_select(x, 0, index, out=pinned).to(device, non_blocking=True)
