"""A trial, its key, and `run_trial`: one cell of the benchmark from data to record.

    data.load -> normalise -> build -> fit within the budget -> predict the test set -> errors in physical units

The same function runs inline, in a process of its own and on a cluster. It never raises for what a model does: the
record says what happened.
"""

from __future__ import annotations

import signal
import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from . import data, devices, machine, training
from .budget import parse_budget
from .evaluation import Predictor, time_prediction
from .hashing import digest, seed_from
from .metrics import sample_errors
from .pictures import pictures
from .plugins import Registry, load_registry
from .ranks import ALONE, ProcessGroup, Ranks, refusal
from .records import DIVERGED, FAILED, OK, OUT_OF_MEMORY, Record
from .sizing import count_parameters
from .training import Diverged, Emit, Interrupted, Optimizer, TrainSet
from .trial_device import TrialDevice

# Fields for readers. They are spelling, not substance: what they say is in the other fields.
DESCRIPTIVE = ("model_label", "task_label", "equation", "metric", "training_free")


@dataclass(frozen=True)
class Trial:
    """Everything that can change a result, as plain values, and nothing else (no paths, no order, no timing)."""

    model: str
    model_label: str
    model_version: str
    model_origin: str
    hparams: Mapping[str, Any]
    optimizer: Mapping[str, float]
    task: str
    task_label: str
    task_params: Mapping[str, Any]
    task_origin: str
    data_id: str
    data_seed: int
    scale: str
    budget: str
    n_train: int
    seed: int
    device: str
    params_target: int | None = None
    task_digest: str = ""
    protocol: int = training.PROTOCOL
    equation: str = ""
    metric: str = ""
    training_free: bool = False
    precision: str = devices.DEFAULT_PRECISION

    @cached_property
    def key(self) -> str:
        content = {k: v for k, v in self.to_dict().items() if k not in DESCRIPTIVE}
        if self.precision == devices.DEFAULT_PRECISION:  # so keys are those of releases that had no other
            del content["precision"]
        return digest(content)[:24]

    @property
    def cell(self) -> str:
        """The place in the table this trial fills."""
        size = f" params={self.params_target}" if self.params_target else ""
        data_seed = f" data_seed={self.data_seed}" if self.data_seed else ""
        return (
            f"{self.task_label} {self.model_label} {self.scale} {self.budget}{size} "
            f"n={self.n_train} seed={self.seed}{data_seed} {devices.label(self.device, self.precision)}"
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Trial:
        return cls(**content)


@dataclass(frozen=True)
class Context:
    """What a trial needs to run here and must not depend on: places, threads, where from, how many share the work.

    ``data`` names the file in this machine's data cache, where the public files at ``source`` may not be at hand.
    ``rank`` of ``ranks`` processes meet at ``rendezvous`` and train together (see `ranks`).
    """

    source: str = ""
    data: str = ""
    threads: int = 0
    checkpoint: str = ""
    checkpoint_seconds: float = training.CHECKPOINT_SECONDS
    plugin_files: tuple[str, ...] = ()
    rank: int = 0
    ranks: int = 1
    rendezvous: str = ""
    gpu: int = 0  # of those that the process sees
    cuda_graphs: bool = False


@dataclass
class _Progress:
    """What is known so far; becomes part of the record however the trial ends."""

    seconds: dict[str, float] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    spent: dict[str, float] = field(default_factory=dict)
    flops_step: float | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    predict_ms: float | None = None
    samples: dict[str, np.ndarray] = field(default_factory=dict)


def run_trial(
    trial: Trial, context: Context, registry: Registry | None = None, emit: Emit = lambda **_: None
) -> Record:
    """Run one trial. Raises `Interrupted` if asked to stop; everything else is in the record."""
    started = time.time()
    if context.threads:
        torch.set_num_threads(context.threads)
    where = TrialDevice(trial.device, context.gpu, trial.precision)
    progress = _Progress()
    status, reason = OK, ""
    try:
        registry = registry or load_registry(context.plugin_files)
        with where:
            _run(trial, context, registry, progress, emit, where)
    except Interrupted:
        raise
    except Diverged as error:
        status, reason = DIVERGED, str(error)
    except MemoryError as error:
        status, reason = OUT_OF_MEMORY, str(error) or "out of memory"
    except Exception as error:
        traceback.print_exc()
        status = OUT_OF_MEMORY if _is_out_of_memory(error) else FAILED
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:500]
    progress.seconds["total"] = time.time() - started
    return Record(
        key=trial.key,
        trial=trial.to_dict(),
        status=status,
        reason=reason,
        peak_memory=where.peak_memory(),
        provenance=provenance(trial, started, context.ranks, where.facts()),
        **vars(progress),
    )


def _run(
    trial: Trial, context: Context, registry: Registry, progress: _Progress, emit: Emit, where: TrialDevice
) -> None:
    model_spec = registry.model(trial.model).spec
    task_spec = registry.task(trial.task).spec
    source = Path(context.source) if context.source else None
    dataset = data.Dataset(task_spec, trial.scale, trial.task_params, trial.data_seed, source)
    samples = data.load(dataset, trial.n_train, data.data_dir() / context.data if context.data else None)
    task = samples.task
    progress.data = {
        "sha256": samples.sha256,
        "n_train": len(samples.train.inputs),
        "n_test": len(samples.test.inputs),
        "seconds_per_sample": samples.seconds_per_sample,
    }

    start = time.perf_counter()
    torch.manual_seed(seed_from("init", trial.model, trial.task, trial.seed))
    model = model_spec.make(task, trial.hparams)
    progress.seconds["build"] = time.perf_counter() - start
    count = count_parameters(model)
    progress.parameters = {"real": count.real, "numel": count.numel, "target": trial.params_target}

    if _is_closed_form(model):
        where.use_host()
    start = time.perf_counter()
    normalizer = _fit(model, samples, trial, context, where, progress, emit)
    progress.seconds.setdefault("fit", time.perf_counter() - start)
    if context.rank > 0:
        return  # the weights are the same everywhere: rank 0 scores them

    batch = int(trial.optimizer["batch"])
    predict = Predictor(model, task, normalizer, batch, where.device, trial.precision)
    prediction = predict(samples.test.inputs)
    if not np.isfinite(prediction).all():
        bad = int(np.argmin(np.isfinite(prediction).reshape(len(prediction), -1).all(axis=1)))
        raise Diverged(f"the prediction of test sample {bad} is not finite")
    errors = sample_errors(prediction, samples.test.outputs, task.spec.metric, task.mask)
    progress.metrics = {name: float(values.mean()) for name, values in errors.items()}
    progress.samples |= {f"error_{name}": values for name, values in errors.items()}
    progress.samples |= pictures(task, samples.test.inputs, samples.test.outputs, prediction, errors["test_err"])
    progress.seconds["predict"] = time_prediction(predict, samples.test.inputs)
    progress.predict_ms = 1e3 * progress.seconds["predict"] / len(samples.test.inputs)


def _is_closed_form(model: Any) -> bool:
    return hasattr(model, "fit") or hasattr(model, "solve")


def _fit(
    model: Any,
    samples: data.TaskData,
    trial: Trial,
    context: Context,
    where: TrialDevice,
    progress: _Progress,
    emit: Emit,
) -> training.Normalizer:
    """Let a closed form fit itself in float64, train anything else in float32; returns the normaliser used."""
    train: TrainSet = training.prepare(samples, torch.float64 if _is_closed_form(model) else torch.float32)
    if _is_closed_form(model):
        if hasattr(model, "fit"):
            model.fit(train)
        return train.normalizer
    if not any(p.requires_grad for p in model.parameters()):
        raise ValueError(f"model {trial.model!r} has neither parameters to train nor a fit() or solve() of its own")
    device = where.start()
    model.to(device)
    numbers = trial.optimizer
    optimizer = Optimizer(int(numbers["batch"]), numbers["lr"], numbers["lr_min"], numbers["weight_decay"])
    ranks = _join(model, train, context, device)
    with ranks.together():
        progress.flops_step = training.count_step_flops(model, train, optimizer.batch, ranks, trial.precision)
        run = training.fit(
            model,
            train,
            parse_budget(trial.budget),
            optimizer,
            seed=trial.seed,
            device=device,
            flops_step=progress.flops_step,
            checkpoint=context.checkpoint or None,
            checkpoint_seconds=context.checkpoint_seconds,
            emit=emit if context.rank == 0 else lambda **_: None,
            should_stop=_STOP.is_set,
            ranks=ranks,
            precision=trial.precision,
            cuda_graphs=context.cuda_graphs,
        )
    if run.graphs:
        where.note(cuda_graphs=run.graphs)
    progress.spent = asdict(run.spent)
    progress.seconds["fit"] = run.spent.seconds  # over all sittings, if it was interrupted
    progress.samples = {
        "curve_steps": np.asarray(run.curve.steps),
        "curve_losses": np.asarray(run.curve.losses),
    }
    return train.normalizer


def _join(model: Any, train: TrainSet, context: Context, device: torch.device) -> Ranks:
    """The group this process trains in."""
    if context.ranks == 1:
        return ALONE
    if reason := refusal(model, train.inputs[:2]):
        raise ValueError(f"--ddp {context.ranks}: {reason}; run it without --ddp")
    return ProcessGroup(context.rank, context.ranks, context.rendezvous, device)


def run_in_process(emit: Emit, trial: dict[str, Any], context: Context) -> Record:
    """The target of a worker's job: `run_trial` with SIGTERM as the request to save and stop."""
    from . import warm

    signal.signal(signal.SIGTERM, lambda *_: _STOP.set())
    return run_trial(Trial.from_dict(trial), context, warm.registry(context.plugin_files), emit)


_STOP = threading.Event()


def ended_without_record(trial: Trial, status: str, reason: str) -> Record:
    """The record of a trial whose process could not write one."""
    gpus = devices.look().gpus[:1] if trial.device == "cuda" else ()
    facts = {"hardware": machine.hardware(tuple(gpu.name for gpu in gpus)), "device": trial.device}
    return Record(trial.key, trial.to_dict(), status, reason, provenance=provenance(trial, time.time(), facts=facts))


def provenance(trial: Trial, started: float, ranks: int = 1, facts: Mapping[str, Any] | None = None) -> dict[str, Any]:
    plugins = tuple({origin.rsplit(" ", 1)[0] for origin in (trial.model_origin, trial.task_origin)})
    return {
        "versions": machine.versions(plugins),
        "source": machine.source_state(),
        **(facts or {"hardware": machine.hardware(), "device": trial.device}),
        "threads": torch.get_num_threads(),
        **({"ddp": ranks} if ranks > 1 else {}),
        "started": started,
        "ended": time.time(),
    }


def _is_out_of_memory(error: Exception) -> bool:
    text = str(error).lower()
    return isinstance(error, torch.cuda.OutOfMemoryError) or any(
        phrase in text for phrase in ("can't allocate memory", "cannot allocate memory", "out of memory")
    )
