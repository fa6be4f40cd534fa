"""Metrics of plugins in a run: which files the scorer loads for them, and the messages about those that fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..contract.registry import Registered, Registry
from ..trials.record import Record
from ..trials.scoring import NOT_FINITE


def scoring_files(plugin_files: Sequence[str], task_file: str, registry: Registry) -> tuple[str, ...]:
    """The files given by ``--plugin`` that the scorer loads: the task's, and those with metrics and no model.

    The scorer runs no code of models, so metrics that share a file with a model stay unmeasured (`unscored`).
    """
    loaded = {task_file, *(_files(registry.metrics) - _files(registry.models))}
    return tuple(file for file in plugin_files if str(Path(file).resolve()) in loaded)


def unscored(registry: Registry) -> list[str]:
    """Messages about metrics that the scorer never loads."""
    shared, with_task = _files(registry.metrics) & _files(registry.models), _files(registry.tasks)
    return [
        f"metric {name!r} is not measured{' on tasks of other plugins' if found.origin.file in with_task else ''}: "
        f"{found.origin.distribution} also brings a model, and the scorer loads no code of models; put the metric in a "
        "file of its own"
        for name, found in registry.metrics.items()
        if found.origin.file in shared
    ]


def complaints(record: Record) -> dict[str, str]:
    """Why metrics of a trial could not be measured; a formula without a value is not an error."""
    found = record.provenance.get("unmeasured", {})
    return {name: reason for name, reason in found.items() if reason != NOT_FINITE}


def _files(specs: Mapping[str, Registered[Any]]) -> set[str]:
    return {found.origin.file for found in specs.values()} - {""}
