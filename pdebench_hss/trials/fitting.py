"""The model's half of a trial: data without the answers, a model, its training, its predictions.

    train, test inputs -> normalise -> build -> fit within the budget -> predict the test set

Everything here runs where the model's code runs, so nothing of it decides a score: `scoring` does, somewhere else, from
the predictions. What `Fitted` says besides (times, counts, the loss along the way) is the word of this process.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..base import devices, machine
from ..base.hashing import seed_from
from ..contract.registry import Registry, load_registry
from ..data import blind
from ..data import cache as data
from ..training import loop
from ..training.evaluation import Predictor, solve_levels, time_prediction
from ..training.loop import Diverged, Emit, Interrupted
from ..training.normalization import Normalizer
from ..training.parameters import count_fitted, count_parameters
from ..training.peers import ALONE, ProcessGroup, Ranks, refusal
from ..training.trial_device import TrialDevice
from ..training.windows import TrainSet, prepare
from ..workers.exchange import NotPlain
from .status import Status

if TYPE_CHECKING:
    from .context import Context
    from .trial import Trial

STOP = threading.Event()  # set when the trial is asked to save its state and end
ENDINGS = (Status.OK, Status.DIVERGED, Status.FAILED, Status.OUT_OF_MEMORY)


@dataclass
class Fitted:
    """What is known when the model has done its part, however that ended; the fields are those of `Record`.

    ``prediction`` is the answer to all test inputs in physical units; None if there is none, or if another rank has it.
    A classical solver with several levels also leaves the solutions of the first test samples on each of them.
    """

    status: Status = Status.OK
    reason: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    spent: dict[str, float] = field(default_factory=dict)
    flops_step: float | None = None
    predict_ms: float | None = None
    peak_memory: int | None = None
    provenance: dict[str, Any] = field(default_factory=dict)
    curve: dict[str, np.ndarray] = field(default_factory=dict)
    prediction: np.ndarray | None = None
    level_ms: dict[str, float] = field(default_factory=dict)
    level_solutions: dict[str, np.ndarray] = field(default_factory=dict)

    def to_plain(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def from_plain(cls, value: Any) -> Fitted:
        """Raises `NotPlain` if it is not of this shape: the process it comes from may have written anything."""
        if not isinstance(value, dict) or set(value) != {f.name for f in fields(cls)}:
            raise NotPlain("it is not what a trial leaves")
        for name, found in value.items():
            if not _SHAPES[name](found):
                raise NotPlain(f"its {name} is {found!r}"[:200])
        return cls(**{**value, "status": Status(value["status"])})


def fit_trial(trial: Trial, context: Context, registry: Registry | None, emit: Emit, *, apart: bool = False) -> Fitted:
    """Raises `Interrupted` if asked to stop; everything else is in what it returns."""
    started = time.time()
    if context.threads:
        torch.set_num_threads(context.threads)
    where = TrialDevice(trial.device, context.gpu, trial.precision)
    fitted = Fitted()
    try:
        with where:
            _run(trial, context, registry or load_registry(context.plugin_files), fitted, emit, where, apart)
    except Interrupted:
        raise
    except (Exception, SystemExit) as error:
        fitted.status, fitted.reason = ending(error)
    fitted.seconds["total"] = time.time() - started
    fitted.peak_memory = where.peak_memory()
    fitted.provenance = provenance(trial, started, context.ranks, where.facts())
    return fitted


def _run(
    trial: Trial,
    context: Context,
    registry: Registry,
    fitted: Fitted,
    emit: Emit,
    where: TrialDevice,
    apart: bool,
) -> None:
    samples = blind.load(*dataset_of(trial, context, registry), apart=apart)
    task = samples.task
    fitted.data = {
        "sha256": samples.sha256,
        "n_train": len(samples.train.inputs),
        "n_test": len(samples.test_inputs),
        "seconds_per_sample": samples.seconds_per_sample,
    }

    start = time.perf_counter()
    torch.manual_seed(seed_from("init", trial.model, trial.task, trial.seed))
    model = registry.model(trial.model).spec.make(task, trial.hparams)
    fitted.seconds["build"] = time.perf_counter() - start
    count = count_parameters(model)
    fitted.parameters = {"real": count.real, "numel": count.numel, "target": trial.params_target}

    fitted.data["uses_train"] = hasattr(model, "fit") or not hasattr(model, "solve")
    if _is_closed_form(model):
        where.use_host()  # such a model is fitted, and so predicts, where its arrays are
    start = time.perf_counter()
    normalizer = _fit(model, samples, trial, context, where, fitted, emit)
    fitted.seconds.setdefault("fit", time.perf_counter() - start)
    if _is_closed_form(model):
        fitted.parameters |= vars(count_fitted(model))
    if context.rank > 0:
        return  # the weights are the same everywhere: rank 0 predicts with them

    predict = Predictor(model, task, normalizer, trial.optimizer.batch, where.device, trial.precision)
    prediction = predict(samples.test_inputs)
    if prediction.dtype.kind not in "fiub":
        raise ValueError(f"the prediction is an array of {prediction.dtype}, expected real numbers")
    fitted.prediction = prediction
    if np.isfinite(prediction).all():  # else there is nothing to time
        fitted.seconds["predict"] = time_prediction(predict, samples.test_inputs)
        fitted.predict_ms = 1e3 * fitted.seconds["predict"] / len(samples.test_inputs)
    if hasattr(model, "levels"):
        for level, solutions, seconds in solve_levels(model, samples.test_inputs):
            fitted.level_ms[str(level)] = 1e3 * seconds / len(solutions)
            fitted.level_solutions[str(level)] = solutions


def dataset_of(trial: Trial, context: Context, registry: Registry) -> tuple[data.Dataset, int, Path | None]:
    """A trial's dataset, its train size, and its file if that is not where the recipe says."""
    dataset = data.Dataset(registry.task(trial.task), trial.scale, trial.task_params, trial.data_seed)
    return dataset, trial.n_train, data.data_dir() / context.data if context.data else None


def _is_closed_form(model: Any) -> bool:
    return hasattr(model, "fit") or hasattr(model, "solve")


def _fit(
    model: Any,
    samples: blind.BlindData,
    trial: Trial,
    context: Context,
    where: TrialDevice,
    fitted: Fitted,
    emit: Emit,
) -> Normalizer:
    """Let a closed form fit itself in float64, train anything else in float32; returns the normaliser used."""
    train: TrainSet = prepare(samples, torch.float64 if _is_closed_form(model) else torch.float32)
    if _is_closed_form(model):
        if hasattr(model, "fit"):
            model.fit(train)
        return train.normalizer
    if not any(p.requires_grad for p in model.parameters()):
        raise ValueError(f"model {trial.model!r} has neither parameters to train nor a fit() or solve() of its own")
    device = where.start()
    model.to(device)
    ranks = _join(model, train, context, device)
    with ranks.together():
        fitted.flops_step = loop.count_step_flops(model, train, trial.optimizer.batch, ranks, trial.precision)
        run = loop.fit(
            model,
            train,
            trial.budget,
            trial.optimizer,
            seed=trial.seed,
            device=device,
            flops_step=fitted.flops_step,
            checkpoint=context.checkpoint or None,
            emit=emit if context.rank == 0 else lambda **_: None,
            should_stop=STOP.is_set,
            ranks=ranks,
            precision=trial.precision,
            cuda_graphs=context.cuda_graphs,
        )
    if run.graphs:
        where.note(cuda_graphs=run.graphs)
    fitted.spent = asdict(run.spent)
    fitted.seconds["fit"] = run.spent.seconds  # over all sittings, if it was interrupted
    fitted.curve = {
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


def ended_facts(trial: Trial) -> dict[str, Any]:
    """What is known of the machine of a trial whose process could not say it."""
    gpus = devices.look().gpus[:1] if trial.device == "cuda" else ()
    return {"hardware": machine.hardware(tuple(gpu.name for gpu in gpus)), "device": trial.device}


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


def ending(error: BaseException) -> tuple[Status, str]:
    """The status of a trial that ended with an exception, and the reason in one line."""
    if isinstance(error, Diverged):
        return Status.DIVERGED, str(error)
    if isinstance(error, MemoryError):
        return Status.OUT_OF_MEMORY, str(error) or "out of memory"
    traceback.print_exc()
    status = Status.OUT_OF_MEMORY if _is_out_of_memory(error) else Status.FAILED
    return status, f"{type(error).__name__}: {error}".splitlines()[0][:500]


def _is_out_of_memory(error: BaseException) -> bool:
    text = str(error).lower()
    return isinstance(error, torch.cuda.OutOfMemoryError) or any(
        phrase in text for phrase in ("can't allocate memory", "cannot allocate memory", "out of memory")
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_optional_number(value: Any) -> bool:
    return value is None or _is_number(value)


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_optional_number, value.values()))


def _is_curve(value: Any) -> bool:
    arrays = isinstance(value, dict) and all(isinstance(v, np.ndarray) and v.ndim == 1 for v in value.values())
    return arrays and set(value) <= {"curve_steps", "curve_losses"}


_SHAPES = {
    "status": lambda value: value in ENDINGS,
    "reason": lambda value: isinstance(value, str) and len(value) <= 500,
    "seconds": _is_table,
    "parameters": _is_table,
    "data": lambda value: isinstance(value, dict),
    "spent": _is_table,
    "flops_step": _is_optional_number,
    "predict_ms": _is_optional_number,
    "peak_memory": _is_optional_number,
    "provenance": lambda value: isinstance(value, dict),
    "curve": _is_curve,
    "prediction": lambda value: value is None or isinstance(value, np.ndarray),
    "level_ms": _is_table,
    "level_solutions": lambda value: isinstance(value, dict) and all(isinstance(v, np.ndarray) for v in value.values()),
}
