"""The judge's half of a trial: from predictions (a plain array) and the answers to the record.

Where trials run in separate processes, this runs in a fork in which no code of the model has run. So nothing that the
model's process reads or changes in itself can affect it. Status, errors and pictures come from here alone.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.errors import DataError
from ..contract.registry import BUILT_IN, Registry
from ..contract.task import TaskInfo
from ..data import cache as data
from ..data.spilling import spilled_split
from ..data.stored import StoredSplit
from ..metrics.measuring import Measured, measure
from ..metrics.rollouts import errors_by_step
from ..training.loop import Diverged
from ..training.metrics import all_finite, mean_errors, mean_of, not_finite, sample_errors
from . import predictions
from .fitted import Fitted
from .fitting import dataset_of, ending, held_out_of
from .keeping import NotKept, checked
from .pictures import pictures
from .record import Record
from .status import Status
from .training_pairs import at_once_in_test, limit_of

if TYPE_CHECKING:
    from .context import Context
    from .trial import Trial

NOT_FINITE = "not finite"  # for a metric whose formula has no value for some sample


@dataclass
class _Scores:
    """The results so far; they go into the record however the scoring ends."""

    data: dict[str, Any]
    metrics: dict[str, float] = field(default_factory=dict)
    levels: list[dict[str, float]] = field(default_factory=list)
    samples: dict[str, np.ndarray] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)


def score_trial(trial: Trial, context: Context, registry: Registry, fitted: Fitted) -> Record:
    """The trial's record, from what the model's half left."""
    started = time.time()
    status, reason = fitted.status, fitted.reason
    told = {name: value for name, value in fitted.provenance.items() if name not in ("metrics", "unmeasured")}
    scores = _Scores(data=fitted.data, samples=dict(fitted.curve), provenance=told)
    if status in (Status.OK, Status.OVER_BUDGET) and context.peer == 0:
        try:
            _score(trial, context, registry, fitted, scores)
            if status is Status.OVER_BUDGET:
                reason += f"; its error of {scores.metrics[f'{trial.judge}_err']:.3g} is not ranked"
        except Exception as error:
            status, reason = ending(error)
    left, artefacts = _artefacts(fitted, context) if status is Status.OK and context.peer == 0 else ({}, {})
    if status is Status.OK and context.predictions and context.peer == 0 and fitted.prediction is not None:
        artefacts = artefacts | _kept_predictions(trial, context, fitted.prediction, scores.data["sha256"])
    ended = scores.provenance["ended"] = time.time()
    seconds = {**fitted.seconds, "total": fitted.seconds.get("total", 0.0) + ended - started}
    return Record(
        key=trial.key,
        trial=trial,
        status=status,
        reason=reason,
        parameters=fitted.parameters,
        spent=fitted.spent,
        flops_step=fitted.flops_step,
        seconds=seconds,
        predict_ms=fitted.predict_ms,
        serving=fitted.serving,
        peak_memory=fitted.peak_memory,
        artefacts=artefacts,
        left=left,
        **vars(scores),
    )


def _artefacts(fitted: Fitted, context: Context) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The artefacts that the trial left, and the facts or reasons that its record states about them."""
    if fitted.model is None:
        return {}, {"model": {"reason": fitted.model_lost}} if fitted.model_lost else {}
    try:
        return {"model": checked(fitted.model, context.keep_models)}, {}
    except NotKept as reason:
        return {}, {"model": {"reason": str(reason)}}


def _kept_predictions(trial: Trial, context: Context, prediction: np.ndarray, sha256: str) -> dict[str, dict[str, Any]]:
    """Scores don't depend on whether the predictions could be kept."""
    try:
        return {predictions.KIND: predictions.write(Path(context.predictions), trial, prediction, sha256)}
    except (OSError, RuntimeError) as error:
        return {predictions.KIND: {"reason": f"they can't be written: {error}".splitlines()[0][:500]}}


def _score(trial: Trial, context: Context, registry: Registry, fitted: Fitted, scores: _Scores) -> None:
    """Score the test set, unless the trial is judged by held-out samples alone; and the held-out samples, if any."""
    dataset, _, path = dataset_of(trial, context, registry)
    header = (data.verify if trial.judge == "test" else data.peek)(path or dataset.path)
    if header.sha256 != fitted.data.get("sha256"):
        raise DataError(f"{header.path.name} changed between training and scoring; run the same command again")
    task = dataset.spec.info(trial.scale, trial.task_params)
    test: data.Split | None = None
    if trial.judge == "test":
        test = read_test(dataset, header.path, limit_of(context))
        _score_test(test, task, fitted, scores)
    if (held := held_out_of(trial, dataset)) is not None:
        kept_back = StoredSplit(dataset, header.path, "train", np.flatnonzero(held))
        outputs = kept_back.take(np.arange(len(kept_back))).outputs
        errors = _errors(fitted.val_prediction, outputs, task, "held-out")["test_err"]
        scores.metrics["val_err"] = mean_of(errors)
        scores.samples["error_val_err"] = errors
        scores.data["n_val"] = len(errors)
    scores.data["seconds_per_sample"] = header.seconds_per_sample
    if reason := not_finite(scores.metrics):
        raise Diverged(reason)
    if test is not None and fitted.prediction is not None:  # last: they may be anybody's code
        measured = measure(registry, task, test.inputs, fitted.prediction, test.outputs, known=scores.metrics)
        _add(measured, registry, scores)


def read_test(dataset: data.Dataset, path: Path, limit: int) -> data.Split:
    """In memory, or mapped from files."""
    at_once = at_once_in_test(dataset, limit)
    if at_once is None:
        return data.read_split(dataset, path, "test")
    return spilled_split(StoredSplit(dataset, path, "test", np.arange(dataset.size.test)), at_once)


def _score_test(test: data.Split, task: TaskInfo, fitted: Fitted, scores: _Scores) -> None:
    errors = _errors(fitted.prediction, test.outputs, task, "test")
    prediction = fitted.prediction
    assert prediction is not None
    scores.data["n_test"] = len(test.inputs)
    scores.metrics = mean_errors(errors)
    if reason := not_finite(scores.metrics):
        raise Diverged(reason)
    scores.samples |= {f"error_{name}": values for name, values in errors.items()}
    if (group := task.start_of(len(prediction))) is not None:
        scores.samples["test_group"] = group
    if task.rollout:
        scores.samples["step_relative_l2"] = errors_by_step(prediction, test.outputs, task.mask).mean(axis=0)
    scores.samples |= pictures(task, test.inputs, test.outputs, prediction, errors["test_err"])
    for level, solutions in fitted.level_solutions.items():
        scores.levels.append({"level": int(level), "test_err": _mean_error(solutions, test.outputs, task)})
        scores.levels[-1]["predict_ms"] = float(fitted.level_ms[level])
        scores.levels[-1]["latency_ms"] = float(fitted.level_latency_ms[level])


def _add(measured: Measured, registry: Registry, scores: _Scores) -> None:
    """The further metrics. They don't decide the status: one without a value is left out, and the record says so."""
    scores.metrics |= measured.means
    scores.samples |= {f"error_{name}": values for name, values in measured.samples.items()}
    unmeasured = {name: NOT_FINITE for name in measured.samples if name not in measured.means}
    if unmeasured := unmeasured | measured.complaints:
        scores.provenance["unmeasured"] = unmeasured
    origins = {name: registry.metrics[name].origin for name in measured.samples}
    if foreign := {name: str(origin) for name, origin in origins.items() if origin.distribution != BUILT_IN}:
        scores.provenance["metrics"] = foreign


def _errors(prediction: np.ndarray | None, outputs: np.ndarray, task: TaskInfo, split: str) -> dict[str, np.ndarray]:
    """Errors by metric of each sample of a split, from what the model's process left."""
    if prediction is None:
        raise ValueError("the model's process left no prediction")
    if prediction.shape != outputs.shape:
        raise ValueError(f"prediction has shape {prediction.shape}, target {outputs.shape}")
    if not all_finite(prediction):
        bad = int(np.argmin(np.isfinite(prediction).reshape(len(prediction), -1).all(axis=1)))
        raise Diverged(f"the prediction of {split} sample {bad} is not finite")
    return sample_errors(prediction, outputs, task.spec.metric, task.mask)


def _mean_error(solutions: np.ndarray, outputs: np.ndarray, task: TaskInfo) -> float:
    """Mean errors over the solved samples, which are the first ones."""
    return mean_errors(sample_errors(solutions, outputs[: len(solutions)], task.spec.metric, task.mask))["test_err"]
