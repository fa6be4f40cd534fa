"""The model's half of a trial: data without the answers, a model, its training, its predictions.

    train, test inputs -> normalise -> build -> fit within the budget -> predict the test set

Everything here runs in the process of the model's code, so none of it decides a score: `scoring` does, in another
process, from the predictions. The rest of `Fitted` (times, counts, the loss along the way) is this process's own claim.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..base import devices, machine
from ..base.errors import Interrupted
from ..contract import traits
from ..contract.registry import Registry, load_registry
from ..data import blind
from ..data import cache as data
from ..data.holdout import held_out
from ..data.spilling import spilled
from ..training import loop, pieces
from ..training.allowance import Allowance
from ..training.clocks import threads_for
from ..training.evaluation import Predictor, solve_levels, time_prediction
from ..training.heldout import HeldOut
from ..training.loop import Diverged
from ..training.metrics import all_finite
from ..training.normalization import Normalizer
from ..training.objective import Objective
from ..training.parameters import count_fitted, count_parameters
from ..training.peers import ALONE, PeerLost, Peers, ProcessGroup, refusal
from ..training.progress import Emit, say_nothing
from ..training.serving import measure_serving
from ..training.streaming import Pairs
from ..training.trial_device import TrialDevice, synchronize
from ..training.windows import TrainSet
from .fitted import Fitted
from .keeping import build_seed, keep
from .status import Status
from .training_pairs import (
    at_once_in_test,
    facts,
    limit_of,
    normalizer_of,
    set_for_closed_form,
    stay_stored,
    training_pairs,
    whole_set,
)

if TYPE_CHECKING:
    from .context import Context
    from .trial import Trial

STOP = threading.Event()  # set when the trial is asked to save its state and end


def fit_trial(trial: Trial, context: Context, registry: Registry | None, emit: Emit, *, apart: bool = False) -> Fitted:
    """Raises `Interrupted` if asked to stop; any other ending is in the returned value."""
    started = time.time()
    if context.threads or trial.budget.kind == "core_seconds":
        torch.set_num_threads(threads_for(trial.budget, context.threads or torch.get_num_threads()))
    where = TrialDevice(trial.device, context.gpu, trial.precision)
    fitted = Fitted()
    try:
        with where:
            _run(trial, context, registry or load_registry(context.plugin_files), fitted, emit, where, apart)
    except Interrupted:
        raise
    except (Exception, SystemExit) as error:
        fitted.status, fitted.reason = ending(error)
        fitted.peer_lost = isinstance(error, PeerLost)
    fitted.seconds["total"] = time.time() - started
    fitted.peak_memory = fitted.peak_memory if fitted.peak_memory is not None else where.peak_memory()
    fitted.provenance = provenance(trial, started, context.peers, where.facts())
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
    samples = _load(trial, context, registry, apart)
    fitted.data = {
        "sha256": samples.sha256,
        "n_train": len(samples.train),
        **({"n_test": len(samples.test_inputs)} if samples.test_inputs is not None else {}),
        **({"n_val": len(samples.held_out.inputs)} if samples.held_out is not None else {}),
        "seconds_per_sample": samples.seconds_per_sample,
    }
    if samples.test_at_once is not None:
        where.note(streamed_test={"samples": fitted.data["n_test"], "at_once": samples.test_at_once})

    start = time.perf_counter()
    _seed(build_seed(trial), trial.device)
    model = registry.model(trial.model).spec.make(samples.task, trial.hparams)
    fitted.seconds["build"] = time.perf_counter() - start
    count = count_parameters(model)
    fitted.parameters = {"real": count.real, "numel": count.numel, "target": trial.params_target}

    kind = type(model)
    if (found := traits.training_of(kind)) != trial.training:
        planned = trial.training or "nothing of its own"
        raise ValueError(f"the model was planned with {planned} and built with {found or 'nothing of its own'}")
    if trial.deterministic and not traits.is_closed_form(kind):
        raise ValueError("it is declared deterministic and is trained: only a closed form or a solver can be that")
    fitted.data["uses_train"] = traits.fits_itself(kind) or not hasattr(model, "solve")
    if traits.is_closed_form(kind):
        where.use_host()  # closed forms are fitted, and predict, where their arrays are
    start = time.perf_counter()
    normalizer, batch = _fit(model, samples, trial, context, where, fitted, emit)
    fitted.seconds.setdefault("fit", time.perf_counter() - start)
    if traits.fits_itself(kind):
        fitted.parameters |= vars(count_fitted(model))
    if context.peer > 0:
        return  # the weights are the same everywhere: peer 0 predicts with them
    predict = Predictor(model, samples.task, normalizer, batch, where.device, trial.precision)
    _predict(model, predict, samples, fitted)
    fitted.peak_memory = where.peak_memory()
    if context.keep_models and samples.test_inputs is not None and fitted.status is Status.OK:
        keep(fitted, trial, registry.model(trial.model).spec, predict, samples.test_inputs, context.keep_models)


def _seed(seed: int, device: str) -> None:
    """Of torch's random numbers. `torch.manual_seed` also notes the seed for GPUs that nobody uses, together with its
    caller's stack, for which it reads source files: a good part of a trivial trial."""
    if device == "cpu":
        torch.random.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)


def _load(trial: Trial, context: Context, registry: Registry, apart: bool) -> blind.BlindData:
    dataset, count, path = dataset_of(trial, context, registry)
    held_out, test = held_out_of(trial, dataset), trial.judge == "test"
    stored = stay_stored(dataset, count, context)
    files = context.plugin_files if apart else None
    return blind.load(
        dataset,
        count,
        path,
        apart=files,
        held_out=held_out,
        test=test,
        stored=stored,
        test_at_once=at_once_in_test(dataset, limit_of(context)),
    )


def _predict(model: Any, predict: Predictor, samples: blind.BlindData, fitted: Fitted) -> None:
    """Predict the held-out samples, and the test set unless the trial does not use it."""
    if samples.held_out is not None:
        fitted.val_prediction = _real(predict(samples.held_out.inputs))
    if samples.test_inputs is None:
        return
    inputs, timed = samples.test_inputs, samples.test_inputs
    if samples.test_at_once is not None:
        timed = inputs[: max(samples.test_at_once, predict.batch)]
    if samples.test_at_once is None:
        fitted.prediction = _real(predict(inputs))
    else:
        fitted.prediction = _real(spilled(map(predict, predict.parts(inputs, samples.test_at_once)), len(inputs)))
    if all_finite(fitted.prediction):  # else there is nothing to time
        fitted.seconds["predict"] = time_prediction(predict, timed) * len(inputs) / len(timed)
        fitted.predict_ms = 1e3 * fitted.seconds["predict"] / len(inputs)
        fitted.serving = measure_serving(predict, timed, fitted.seconds["build"] + fitted.seconds["fit"])
    if hasattr(model, "levels"):
        for level, solutions, seconds, latency in solve_levels(model, inputs):
            fitted.level_ms[str(level)] = 1e3 * seconds / len(solutions)
            fitted.level_latency_ms[str(level)] = 1e3 * latency
            fitted.level_solutions[str(level)] = solutions


def _real(prediction: np.ndarray) -> np.ndarray:
    if prediction.dtype.kind not in "fiub":
        raise ValueError(f"the prediction is an array of {prediction.dtype}, expected real numbers")
    return prediction


def dataset_of(trial: Trial, context: Context, registry: Registry) -> tuple[data.Dataset, int, Path | None]:
    """A trial's dataset, how many samples of train it uses, and its file if that is not the recipe's default."""
    task = registry.task(trial.task)
    if trial.history != task.spec.history:
        task = replace(task, spec=replace(task.spec, history=trial.history))
    dataset = data.Dataset(task, trial.scale, trial.task_params, trial.data_seed)
    return dataset, trial.n_train + trial.val, data.data_dir() / context.data if context.data else None


def held_out_of(trial: Trial, dataset: data.Dataset) -> np.ndarray | None:
    """A mask of the train samples that a trial uses and does not train on; None if it trains on all of them."""
    if not trial.val:
        return None
    return held_out(trial.n_train + trial.val, trial.val, dataset.spec.cases, trial.task, trial.data_seed, trial.seed)


def _fit(
    model: Any,
    samples: blind.BlindData,
    trial: Trial,
    context: Context,
    where: TrialDevice,
    fitted: Fitted,
    emit: Emit,
) -> tuple[Normalizer, int]:
    """Let a closed form fit itself in float64; everything else is trained in float32.

    Returns the normaliser used, and how many samples to predict at a time.
    """
    batch = trial.optimizer.batch
    if traits.is_closed_form(type(model)):
        if not hasattr(model, "fit"):
            return normalizer_of(samples, context), batch
        given = set_for_closed_form(samples, context)
        model.fit(given)
        return given.normalizer, batch
    emit = emit if context.peer == 0 else say_nothing
    if traits.trains_itself(type(model)):
        whole = whole_set(samples, torch.float32, context)
        return _watch_it_train(model, whole, trial, context, where, fitted, emit), batch
    train = training_pairs(samples, torch.float32, context, batch, trial.unroll)
    if not any(p.requires_grad for p in model.parameters()):
        raise ValueError(f"model {trial.model!r} has neither parameters to train nor a fit() or solve() of its own")
    device = where.start()
    model.to(device)
    peers = _join(model, train, context, device)
    found = _pieces(model, samples, train, trial, context, device)
    where.note(pieces=found.facts(min(batch, len(train))), **facts(train))
    asked = found.samples if found.samples and context.max_memory else batch  # samples per batch of predictions
    with peers.together():
        fitted.flops_step = loop.count_step_flops(
            model, train, batch, peers, trial.precision, trial.detach, found.samples
        )
        state = loop.fit(
            model,
            train,
            trial.budget,
            trial.optimizer,
            seed=trial.seed,
            device=device,
            flops_step=fitted.flops_step,
            detach=trial.detach,
            held_out=_held_out(samples, train, trial, asked, device),
            checkpoint=context.checkpoint or None,
            emit=emit,
            should_stop=STOP.is_set,
            peers=peers,
            precision=trial.precision,
            cuda_graphs=context.cuda_graphs,
            piece=found.samples,
        )
    if state.graphs:
        where.note(cuda_graphs=state.graphs)
    fitted.spent = asdict(state.spent)
    fitted.seconds["fit"] = state.spent.seconds  # over all parts, if it was interrupted
    fitted.curve = {**state.curve.arrays(), **state.held_out.arrays()}
    return train.normalizer, asked


def _pieces(
    model: Any, samples: blind.BlindData, train: Pairs, trial: Trial, context: Context, device: torch.device
) -> pieces.Pieces:
    """How a process computes its share of a batch. It follows from sizes, so it is the same on every peer."""
    objective = Objective(model, train, device, detach=trial.detach)
    limit, share = context.max_memory, -(-min(trial.optimizer.batch, len(train)) // context.peers)
    room = pieces.room_in(limit, objective, samples.nbytes, device) if limit else None
    return pieces.choose(objective, share, device, precision=trial.precision, room=room)


def _watch_it_train(
    model: Any, train: TrainSet, trial: Trial, context: Context, where: TrialDevice, fitted: Fitted, emit: Emit
) -> Normalizer:
    """``fit(train, budget)`` on the trial's device, with the core's clock running."""
    if context.peers > 1:
        raise ValueError(f"--ddp {context.peers}: the model trains itself; run it without --ddp")
    device = where.start()
    trial.budget.refuse_device(device.type)
    if isinstance(model, torch.nn.Module):
        model.to(device).train()
    here = replace(train, inputs=train.inputs.to(device), outputs=train.outputs.to(device))
    fitted.flops_step = _flops_of_a_step(model, here, trial)
    allowance = Allowance(
        trial.budget, len(train), trial.optimizer.batch, fitted.flops_step or 0.0, emit=emit, should_stop=STOP.is_set
    )
    with allowance.watching(model):
        model.fit(here, allowance)
        synchronize(device)
    fitted.spent = asdict(allowance.spent)
    fitted.seconds["fit"] = allowance.spent.seconds
    fitted.curve = allowance.curve.arrays()
    if allowance.overspent:
        fitted.status, fitted.reason = Status.OVER_BUDGET, f"it spent {allowance.overspent}"
    return train.normalizer


def _flops_of_a_step(model: Any, train: TrainSet, trial: Trial) -> float | None:
    """The cost of forward and backward of a batch; None for models that can't do that before their fit."""
    try:
        return loop.count_step_flops(model, train, trial.optimizer.batch)
    except Exception:
        if trial.budget.kind == "flops":
            raise
        return None


def _held_out(samples: blind.BlindData, train: Pairs, trial: Trial, batch: int, device: torch.device) -> HeldOut | None:
    if samples.held_out is None:
        return None
    return HeldOut(samples.held_out, samples.task, train.normalizer, batch, device, trial.precision)


def _join(model: Any, train: Pairs, context: Context, device: torch.device) -> Peers:
    """The group this process trains in."""
    if context.peers == 1:
        return ALONE
    if reason := refusal(model, train, device):
        raise ValueError(f"--ddp {context.peers}: {reason}; run it without --ddp")
    return ProcessGroup(context.peer, context.peers, context.rendezvous, device)


def ended_facts(trial: Trial) -> dict[str, Any]:
    """The machine of a trial whose process could not report it, as far as it is known."""
    gpus = devices.look().gpus[:1] if trial.device == "cuda" else ()
    return {"hardware": machine.hardware(tuple(gpu.name for gpu in gpus)), "device": trial.device}


def provenance(trial: Trial, started: float, peers: int = 1, facts: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {
        "versions": machine.versions(),
        "source": machine.source_state(),
        **(facts or {"hardware": machine.hardware(), "device": trial.device}),
        "threads": torch.get_num_threads(),
        **({"ddp": peers} if peers > 1 else {}),
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
