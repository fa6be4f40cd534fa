"""A trained model evaluated again without training: on other data, or to confirm a score.

    first half   weights -> the model, built for the data's task -> predictions of the test inputs, or of held-out ones
    second half  these or kept predictions, and the answers -> errors of each sample, by every metric

Both run like the two halves of a trial: the model's code in one process, which sees no answers, and the scoring in
another, where no code of the model has run. The normaliser is that of training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ..base import machine
from ..base.errors import DataError, PdebenchError, UsageError
from ..base.files import BadFile
from ..contract import traits
from ..contract.registry import Registry
from ..contract.task import TaskInfo
from ..data import blind
from ..data import cache as data
from ..data.dataset import Resized
from ..data.spilling import spilled
from ..data.stored import StoredSplit
from ..metrics.measuring import measure
from ..training.evaluation import Predictor
from ..training.metrics import mean_errors, mean_of, sample_errors
from ..training.trial_device import torch_device
from ..trials import predictions, warm, weights
from ..trials.fitting import held_out_of
from ..trials.keeping import build, build_seed, normalizer_from
from ..trials.record import Record
from ..trials.scoring import read_test
from ..trials.store import Store
from ..trials.training_pairs import at_once_in_test
from ..trials.trial import Trial
from ..workers import exchange
from ..workers.events import Crashed, Done, Ended, Failed
from ..workers.jobs import Job
from ..workers.pool import WorkerPool
from .loading import model_spec, task_info
from .regridding import carry, refusal

HERE = "pdebench_hss.use.again"
WEIGHTS, KEPT = "weights", "predictions"  # sources of predictions
REBUILT, INTERPOLATED = "on this grid", "interpolated"  # ways to evaluate a model on another grid than its own


@dataclass(frozen=True)
class Again:
    """What to compute: plain values from which a worker finds everything.

    ``data`` names the file in the cache, ``resized`` is its size if that differs from the scale's; the first ``count``
    test samples are used, all if None. ``held_out`` asks for the samples of train that the trial held out as well;
    these are always predicted from the weights. ``scoring_files`` are the plugin files that the scorer may load.
    """

    board: str
    key: str
    source: str
    data: str
    task_params: Mapping[str, Any]
    data_seed: int
    resized: Resized | None = None
    count: int | None = None
    interpolate: bool = False
    held_out: bool = False
    plugin_files: tuple[str, ...] = ()
    scoring_files: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return f"{self.key} {self.data} {self.count} {self.source}"


@dataclass(frozen=True)
class Outcome:
    """Errors by metric, of each sample and their means; or why there are none: the model or its data were ``refused``,
    or something ``failed``. ``no_val`` says why there is no error of held-out samples, if they were asked for."""

    means: dict[str, float] = field(default_factory=dict)
    samples: dict[str, np.ndarray] = field(default_factory=dict)
    how: str = ""
    sha256: str = ""
    refused: str = ""
    failed: str = ""
    no_val: str = ""


def run_all(work: Sequence[Again], jobs: int, done: Callable[[int], None]) -> Iterator[tuple[Again, Outcome]]:
    """Each with its outcome, in the order in which they end; ``done`` is called with the number that have."""
    named = {item.id: item for item in work}
    side_by_side = max(1, min(jobs, len(named)))
    limit = machine.free_memory() // (2 * side_by_side)  # as in a trial (`trials.training_pairs`)
    todo = [
        Job(item.id, f"{HERE}:predict", {"work": item, "limit": limit}, then=f"{HERE}:score")
        if item.source == WEIGHTS or item.held_out
        else Job(item.id, f"{HERE}:score", {"work": item, "limit": limit})
        for item in named.values()
    ]
    count = 0
    with WorkerPool(side_by_side, preload=(HERE,)) as pool:
        for event in pool.run(todo):
            if isinstance(event, Ended):
                count += 1
                done(count)
                yield named[event.job.id], _outcome(event)


def _outcome(event: Ended) -> Outcome:
    if isinstance(event, Done):
        return Outcome(**event.value)
    if isinstance(event, Failed):
        failure = event.failure
        return Outcome(failed=failure.message if failure.expected else f"{failure.kind}: {failure.message}")
    return Outcome(failed=f"crashed: {event.reason}" if isinstance(event, Crashed) else "it took too long")


# --- in the model's process -------------------------------------------------------------------------------------------


def predict(emit: Any, work: Again, limit: int) -> dict[str, Any]:
    """The first half: predictions, or why there are none. Inputs that take more bytes than ``limit`` with what is made
    of them are predicted in parts."""
    registry = warm.registry(work.plugin_files)
    store = Store(work.board)
    record = store.read(work.key, ())[0]
    torch.set_num_threads(int(record.provenance.get("threads") or 1))
    try:
        dataset = _dataset(work, record, registry)
        predictor = _predictor(work, record, store, registry, dataset)
    except (PdebenchError, BadFile) as error:
        return {"refused": str(error)}
    if work.source == KEPT:
        return _of_held_out(work, record, dataset, predictor)
    found = _of_held_out(work, record, dataset, predictor) if work.held_out else {}
    at_once, path = at_once_in_test(dataset, limit), data.data_dir() / work.data
    samples = blind.load(dataset, dataset.spec.cases, path, apart=work.plugin_files, test_at_once=at_once)
    assert samples.test_inputs is not None
    inputs = samples.test_inputs[: work.count]
    here, trained = samples.task, predictor.task
    how = REBUILT if trained.grid == here.grid else INTERPOLATED

    def answer(fields: np.ndarray) -> np.ndarray:
        return predictor(fields) if how == REBUILT else carry(predictor(carry(fields, here, trained)), trained, here)

    if at_once is None:
        return {**found, "prediction": answer(inputs), "how": how}
    return {**found, "prediction": spilled(map(answer, predictor.parts(inputs, at_once)), len(inputs)), "how": how}


def _of_held_out(work: Again, record: Record, dataset: data.Dataset, predictor: Predictor) -> dict[str, Any]:
    try:
        return {"val_prediction": predictor(_held_out(work, record.trial, dataset).inputs)}
    except Exception as error:  # of the model's code, on which kept predictions don't depend
        if work.source == WEIGHTS:
            raise
        return {"refused": f"{type(error).__name__}: {error}".splitlines()[0]}


def _predictor(work: Again, record: Record, store: Store, registry: Registry, dataset: data.Dataset) -> Predictor:
    """The model on the grid of the data, if its weights can be used there; else on its own grid, if fields may be
    interpolated; raises `UsageError` if not."""
    trial = record.trial
    spec, trained = model_spec(trial, record, registry), task_info(trial, record, registry)
    here = dataset.spec.info(dataset.scale, dataset.params)
    description, content = store.models.read(record)
    state = weights.from_bytes(content, description["weights"].get("tensors") or {})
    task = here
    if here.grid == trained.grid:
        model = build(trial, spec, here, state)
    elif spec.any_grid:
        model = _elsewhere(record, spec, here, trained, state)
    elif not work.interpolate:
        raise UsageError(
            f"its weights belong to a grid of {_sides(trained)}; --interpolate carries fields there and back"
        )
    elif reason := refusal(here):
        raise UsageError(reason)
    else:
        task, model = trained, build(trial, spec, trained, state)
    closed = traits.is_closed_form(type(model))
    cuda = trial.device == "cuda" and torch.cuda.is_available() and not closed
    device = torch_device("cuda" if cuda else "cpu", 0)
    if isinstance(model, nn.Module):
        model.to(device).eval()
    normalizer = normalizer_from(description.get("normalizer"), trained)
    return Predictor(model, task, normalizer, trial.optimizer.batch, device, trial.precision)


def _elsewhere(record: Record, spec: Any, here: TaskInfo, trained: TaskInfo, state: Mapping[str, Any]) -> Any:
    """The model for another grid. Its state must have the shapes of the trained one: the author's claim is checked."""
    try:
        with weights.own_random_numbers(build_seed(record.trial)):
            model = spec.make_elsewhere(here, trained, record.trial.hparams)
    except ValueError as error:  # on a grid that is too coarse for it, say
        raise UsageError(f"it can't be built on {_sides(here)}: {error}") from None
    shapes = {name: tensor.shape for name, tensor in weights.state_of(model).items()}
    if shapes != {name: tensor.shape for name, tensor in state.items()}:
        raise UsageError(f"its weights have other shapes on {_sides(here)} than on {_sides(trained)}")
    weights.restore(model, state)
    return model


def _sides(task: TaskInfo) -> str:
    return "x".join(map(str, task.grid))


# --- in the scorer's process ------------------------------------------------------------------------------------------


def score(emit: Any, work: Again, limit: int, left: str = "") -> dict[str, Any]:
    """The second half: the fields of `Outcome`."""
    registry = warm.registry(work.scoring_files)
    record = Store(work.board).read(work.key, ())[0]
    dataset = _dataset(work, record, registry)
    path = data.data_dir() / work.data
    header, test = data.verify(path), read_test(dataset, path, limit)
    test = data.Split(test.inputs[: work.count], test.outputs[: work.count])
    found = exchange.view(left)["value"] if left else {}
    refused = str(found.get("refused", ""))[:2000]
    if work.source == KEPT:
        try:
            prediction = predictions.read(_kept_file(work, record), record, test.outputs.shape)
        except BadFile as error:
            return {"refused": str(error)}
    elif refused:
        return {"refused": refused}
    else:
        prediction = found["prediction"]
    how = str(found.get("how", ""))
    if prediction.shape != test.outputs.shape:
        raise DataError(f"the prediction has shape {prediction.shape}, the answers {test.outputs.shape}")
    if not np.isfinite(prediction).all():
        return {"failed": "a prediction is not finite", "how": how}
    task = dataset.spec.info(dataset.scale, dataset.params)
    errors = sample_errors(prediction, test.outputs, task.spec.metric, task.mask)
    further = measure(registry, task, test.inputs, prediction, test.outputs, known=errors)
    means, samples = {**mean_errors(errors), **further.means}, {**errors, **further.samples}
    if work.held_out and not refused:
        outputs = _held_out(work, record.trial, dataset).outputs
        samples["val_err"] = sample_errors(found["val_prediction"], outputs, task.spec.metric, task.mask)["test_err"]
        means["val_err"] = mean_of(samples["val_err"])
    return {"means": means, "samples": samples, "how": how, "sha256": header.sha256, "no_val": refused}


def _kept_file(work: Again, record: Record) -> Path:
    return Store(work.board).predictions.path(record)


def _held_out(work: Again, trial: Trial, dataset: data.Dataset) -> data.Split:
    """The samples of train that the trial held out: drawn again, by its task and seeds."""
    held = held_out_of(trial, dataset)
    assert held is not None
    kept_back = StoredSplit(dataset, data.data_dir() / work.data, "train", np.flatnonzero(held))
    return kept_back.take(np.arange(len(kept_back)))


def _dataset(work: Again, record: Record, registry: Registry) -> data.Dataset:
    trial, task = record.trial, registry.task(record.trial.task)
    if trial.history != task.spec.history:
        task = replace(task, spec=replace(task.spec, history=trial.history))
    return data.Dataset(task, trial.scale, work.task_params, work.data_seed).with_size(work.resized)
