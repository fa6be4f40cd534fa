"""From a fitted model to the files its trial leaves, and how the judge's half checks them.

    model's process     state -> bytes, if it is not too large and a copy made of them gives the same answers
    scorer's process    plain, of the stated size, readable -> the record carries it to the runner, which writes it

The copy is built as `load_model` will build it. So a model that holds part of what it learned outside of its state is
refused here, with that reason, and can't give different answers later.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from ..base.files import BadFile, human_bytes
from ..base.hashing import seed_from
from ..contract.model import ModelSpec
from ..contract.task import TaskInfo
from ..training.evaluation import Predictor
from ..training.metrics import all_finite
from ..training.normalization import Affine, Normalizer
from . import weights
from .artefacts import LARGEST_DESCRIPTION
from .weights import NotKept

if TYPE_CHECKING:
    from .fitted import Fitted
    from .trial import Trial

KEPT = {"weights", "tensors", "normalizer", "fields"}
SAME = 1e-3  # allowed difference of a copy's answers, relative to their largest value: a GPU may sum in another order


def build_seed(trial: Trial) -> int:
    """The seed of the random numbers that a model is built with."""
    return seed_from("init", trial.model, trial.task, trial.seed)


def build(trial: Trial, spec: ModelSpec, task: TaskInfo, state: Mapping[str, Any]) -> Any:
    """The model of a trial from its state; raises `BadFile` if the state belongs to another model."""
    with weights.own_random_numbers(build_seed(trial)):
        model = spec.make(task, trial.hparams)
    weights.restore(model, state)
    return model


def keep(fitted: Fitted, trial: Trial, spec: ModelSpec, predict: Predictor, inputs: np.ndarray, limit: int) -> None:
    """Store the model of ``predict`` in what a trial leaves, or the reason why not. Scores don't depend on it."""
    assert fitted.prediction is not None
    if not all_finite(fitted.prediction):
        return  # its status will not be ok
    try:
        state = weights.state_of(predict.model)
        if (size := weights.size_of(state)) > limit:
            raise NotKept(f"it has {human_bytes(size)}, and --keep-models-up-to is {human_bytes(limit)}")
        content, table = weights.to_bytes(state)
        _check_copy(content, table, trial, spec, predict, inputs, fitted.prediction)
        fitted.model = {
            "weights": np.frombuffer(content, np.uint8),
            "tensors": table,
            "normalizer": plain_normalizer(predict.normalizer),
            "fields": fields_of(predict.task),
        }
    except NotKept as reason:
        fitted.model_lost = str(reason)
    except Exception as error:  # of the model's own methods
        fitted.model_lost = f"{type(error).__name__}: {error}".splitlines()[0][:300]


def _check_copy(
    content: bytes,
    table: weights.Table,
    trial: Trial,
    spec: ModelSpec,
    predict: Predictor,
    inputs: np.ndarray,
    prediction: np.ndarray,
) -> None:
    """On the last batch of test; for a rollout, its first step only."""
    solves = hasattr(predict.model, "solve")
    if solves and not table:
        return  # it has learned nothing
    model = build(trial, spec, predict.task, weights.from_bytes(content, table))
    if isinstance(model, nn.Module):
        model.to(predict.device)
    copy = Predictor(model, predict.task, predict.normalizer, predict.batch, predict.device, predict.precision)
    start = (len(inputs) - 1) // predict.batch * predict.batch
    found = copy(inputs[start:]) if solves else copy(inputs[start:], steps=1)
    expected = prediction[start:, : found.shape[1]]  # (batch, steps or channels, ...)
    if not np.abs(found - expected).max() <= SAME * max(float(np.abs(expected).max()), 1e-300):
        raise NotKept("a copy with its state_dict() gives other answers: part of what it learned is not in it")


def plain_normalizer(normalizer: Normalizer) -> dict[str, dict[str, list[float]]]:
    sides = {"inputs": normalizer.inputs, "outputs": normalizer.outputs}
    return {side: {"shift": a.shift.tolist(), "scale": a.scale.tolist()} for side, a in sides.items()}


def normalizer_from(plain: Any, task: TaskInfo) -> Normalizer:
    """The same from JSON; raises `BadFile` if it is not one for the task's channels."""
    try:
        sides = [
            Affine(*(np.array(plain[side][name], dtype=np.float64) for name in ("shift", "scale")))
            for side in ("inputs", "outputs")
        ]
    except (TypeError, KeyError, ValueError):
        raise BadFile("its normaliser is damaged") from None
    for affine, channels in zip(sides, (task.in_channels, task.out_channels), strict=True):
        values = np.stack([affine.shift, affine.scale]) if affine.shift.shape == affine.scale.shape else np.empty(0)
        if values.shape != (2, channels) or not np.isfinite(values).all() or not (values[1] > 0).all():
            raise BadFile("its normaliser is damaged")
    return Normalizer(*sides)


def fields_of(task: TaskInfo) -> dict[str, Any]:
    """The fields that a model of this task takes and gives, one sample of each."""
    return {
        "inputs": [task.in_channels, *task.grid],
        "outputs": [task.out_channels, *task.grid],
        "steps": task.size.steps if task.rollout else 0,
    }


def checked(kept: Mapping[str, Any], limit: int) -> dict[str, Any]:
    """What the model's process left of its model, if it can be stored; raises `NotKept` if not."""
    content, rest = kept["weights"], {name: kept[name] for name in KEPT - {"weights"}}
    if not (isinstance(content, np.ndarray) and content.dtype == np.uint8 and content.ndim == 1):
        raise NotKept("its process did not leave its weights as bytes")
    if len(content) > limit + LARGEST_DESCRIPTION:  # the header counts, too
        raise NotKept(f"its process left {human_bytes(len(content))}, more than it may")
    try:
        if len(json.dumps(rest, allow_nan=False)) > LARGEST_DESCRIPTION // 2:
            raise NotKept("its description is too long")
        weights.from_bytes(content.tobytes(), rest["tensors"])
    except (ValueError, TypeError, RecursionError) as error:  # a BadFile is a ValueError
        raise NotKept(f"what its process left of it can't be read ({error})"[:300]) from None
    return {**rest, "weights": content}
