"""The data that a record was scored on, found in the cache or made again, and which records can be scored again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from ..base.errors import UsageError
from ..contract.registry import Registry
from ..data import cache
from ..trials.record import Record
from ..trials.status import Status
from ..trials.store import Store

Ensure = Callable[[cache.Dataset], object]  # make a dataset if it is not there


def scored_records(store: Store) -> list[Record]:
    """The current records of a board that ended well and were judged by test samples."""
    return [r for r in store.current() if r.status is Status.OK and r.trial.judge == "test"]


def own_dataset(record: Record, registry: Registry) -> cache.Dataset:
    """The recipe of a record's data by the installed task; raises `UsageError` if that is not installed."""
    trial = record.trial
    if trial.task not in registry.tasks:
        raise UsageError(f"task {trial.task!r} is not installed (give its file with --plugin, or install its package)")
    task = registry.task(trial.task)
    if trial.history != task.spec.history:
        task = replace(task, spec=replace(task.spec, history=trial.history))
    if trial.scale not in task.spec.scales:
        raise UsageError(f"task {trial.task!r} has no scale {trial.scale!r} any more")
    source = cache.find_source(task.spec) if task.spec.files else None
    return cache.Dataset(task, trial.scale, trial.task_params, trial.data_seed, source)


def own_data(record: Record, registry: Registry, ensure: Ensure) -> str:
    """The name of the cached file with the data that a record was scored on; raises `UsageError` if there is none and
    it can't be made."""
    dataset, wanted = own_dataset(record, registry), record.data.get("sha256")
    path = dataset.path.with_name(dataset.path.name.replace(dataset.id[:10], record.trial.data_id[:10]))
    if not path.exists():
        if dataset.id != record.trial.data_id:
            raise UsageError("its data are not those that the task makes here: another version of it, or public files")
        ensure(dataset)
    if (found := cache.peek(path).sha256) != wanted:
        raise UsageError(f"the data have another content here (sha256 {found[:12]}, scored on {str(wanted)[:12]})")
    return path.name


def chosen(records: Iterable[Record], models: Iterable[str]) -> list[Record]:
    """The records of the named models, by name or label; all if none is named."""
    wanted = set(models)
    return [r for r in records if not wanted or wanted & {r.trial.model, r.trial.model_label}]
