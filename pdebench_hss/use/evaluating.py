"""`evaluate`: the trained models of a board on other data: another grid, other parameters, fresh samples.

    board, conditions -> data of each condition -> every model's predictions and errors -> rows -> a table and figures

A condition is a task with its parameters, a grid and a seed of the data. Nothing is trained: weights and normaliser are
those of the trial. On another grid than its own, a model is built for that grid if its weights can be used there
(`ModelSpec.any_grid`). Otherwise it is refused or, on request, fields are interpolated to its own grid and back
(`regridding`). Fitted baselines are treated like any model; those that only solve simply run.

Data are made like any dataset and cached under their recipe. With the grid, parameters and seed of training they *are*
the original test samples, so the error is the recorded one, to the bit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.errors import UsageError
from ..boards.intervals import Errors, by_start, error_interval
from ..contract.registry import Registry
from ..contract.selection import Choice
from ..contract.task import TaskSpec
from ..data import cache
from ..runs.metric_plugins import scoring_files
from ..trials.record import Record
from ..trials.status import Status
from ..trials.store import Store
from .again import WEIGHTS, Again, Outcome, run_all
from .sources import Ensure, chosen, own_data, own_dataset, scored_records

SAMPLES = 32  # default number of test samples of a condition other than that of training


@dataclass(frozen=True)
class Condition:
    """Where models are evaluated; None means as in training.

    ``task`` with the options that were set in brackets; ``grid`` as points along each axis, one number for all axes.
    """

    task: Choice | None = None
    grid: tuple[int, ...] | None = None
    data_seed: int | None = None


@dataclass(frozen=True)
class Request:
    """Options besides the conditions."""

    models: tuple[str, ...] = ()
    samples: int | None = None
    interpolate: bool = False
    plugin_files: tuple[str, ...] = ()
    jobs: int = 1


def parse_grids(text: str) -> list[tuple[int, ...]]:
    """``64,128`` or ``128x64``."""
    try:
        grids = [tuple(int(n) for n in word.split("x")) for word in text.split(",")]
    except ValueError:
        raise UsageError(f"--grid {text}: write points along each axis (128), or along all of them (128x64)") from None
    if any(n < 2 for grid in grids for n in grid):
        raise UsageError(f"--grid {text}: a grid has at least 2 points along each axis")
    return grids


def evaluate(
    store: Store,
    registry: Registry,
    conditions: Sequence[Condition],
    request: Request,
    ensure: Ensure,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Iterator[dict[str, Any]]:
    """A row (`boards.evaluations.COLUMNS`) for each model and condition."""
    records = chosen(scored_records(store), request.models)
    if not records:
        raise UsageError(f"no model that was asked for has a result in {store.path}")
    todo: dict[str, tuple[Record, cache.Dataset, Again]] = {}
    for condition in conditions:
        matching = [r for r in records if condition.task is None or r.trial.task == condition.task.name]
        if not matching and condition.task is not None:
            known = ", ".join(sorted({r.trial.task for r in records}))
            raise UsageError(f"no model of {store.path} was trained on {condition.task.name!r}; it has {known}")
        for record in matching:
            dataset, work = _work(store, record, registry, condition, request, ensure)
            todo[work.id] = record, dataset, work
    items = [item for _, _, item in todo.values()]
    for item, outcome in run_all(items, request.jobs, lambda done: progress(done, len(items))):
        record, dataset, _ = todo[item.id]
        yield row_of(record, dataset, outcome, registry)


def _work(
    store: Store, record: Record, registry: Registry, condition: Condition, request: Request, ensure: Ensure
) -> tuple[cache.Dataset, Again]:
    own = own_dataset(record, registry)
    dataset = dataset_of(record, own, condition, request.samples)
    if dataset.resized is None and dataset.id == own.id:
        name = own_data(record, registry, ensure)
    else:
        ensure(dataset)
        name = dataset.path.name
    files = tuple(map(str, request.plugin_files))
    return dataset, Again(
        board=str(store.path),
        key=record.key,
        source=WEIGHTS,
        data=name,
        task_params=dataset.params,
        data_seed=dataset.seed,
        resized=dataset.resized,
        count=request.samples,
        interpolate=request.interpolate,
        plugin_files=files,
        scoring_files=scoring_files(files, dataset.task.origin.file, registry),
    )


def dataset_of(record: Record, own: cache.Dataset, condition: Condition, samples: int | None) -> cache.Dataset:
    """The data of a condition for one record: those of training if nothing differs, else a small new set."""
    params = own.params if condition.task is None else {**own.params, **_options(own.spec, condition.task)}
    seed = own.seed if condition.data_seed is None else condition.data_seed
    grid = own.size.grid if condition.grid is None else _on_all_axes(condition.grid, own.spec)
    if (dict(params), seed, grid) == (dict(own.params), own.seed, own.size.grid):
        return own
    if own.spec.generate is None:
        raise UsageError(f"task {own.spec.name!r} reads files: there is no generator to make other samples than those")
    count = samples or min(SAMPLES, own.size.test)
    elsewhere = cache.Dataset(own.task, own.scale, params, seed)
    return elsewhere.with_size(cache.Resized(grid, count))


def _options(spec: TaskSpec, choice: Choice) -> dict[str, Any]:
    if "history" in choice.options and "history" not in spec.params:
        raise UsageError("history is part of a model's shape; it can't be changed after training")
    return spec.with_options(choice.options)[1]


def _on_all_axes(grid: tuple[int, ...], spec: TaskSpec) -> tuple[int, ...]:
    return grid * spec.dim if len(grid) == 1 else grid


def row_of(record: Record, dataset: cache.Dataset, outcome: Outcome, registry: Registry) -> dict[str, Any]:
    trial = record.trial
    errors = outcome.samples.get("test_err", np.empty(0))
    group = dataset.spec.info(dataset.scale, dataset.params).start_of(len(errors)) if len(errors) else None
    mean = outcome.means.get("test_err", math.nan)
    low, high = (math.nan, math.nan)
    if len(errors):
        low, high = error_interval(Errors.of({trial.seed: mean}, {trial.seed: by_start(errors, group)}))
    status = Status.OK if outcome.means else Status.SKIPPED if outcome.refused else Status.FAILED
    changed = {name: value for name, value in dataset.params.items() if value != dataset.spec.params.get(name)}
    trained = own_dataset(record, registry)
    return {
        "task": trial.task,
        "trained_on": trial.task_label,
        "evaluated_on": Choice(trial.task, changed).label,
        "model": trial.model_label,
        "seed": trial.seed,
        "scale": trial.scale,
        "trained_grid": "x".join(map(str, trained.size.grid)),
        "grid": "x".join(map(str, dataset.size.grid)),
        "data_seed": dataset.seed,
        "n_samples": len(errors) or None,
        "how": outcome.how,
        "metric": trial.metric,
        "test_err": None if math.isnan(mean) else mean,
        "err_low": None if math.isnan(low) else low,
        "err_high": None if math.isnan(high) else high,
        "trained_err": record.metrics.get("test_err"),
        "trained_relative_l2": record.metrics.get("relative_l2"),
        "status": status.value,
        "reason": outcome.refused or outcome.failed,
        "training_free": trial.training_free,
        "data_hash": outcome.sha256,
        "data_id": dataset.id[:12],
        "key": record.key,
        "params": json.dumps(dict(dataset.params), sort_keys=True),
        "trained_params": json.dumps(dict(trained.params), sort_keys=True),
        **{name: value for name, value in outcome.means.items() if name != "test_err"},
    }
