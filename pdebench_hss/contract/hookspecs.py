"""The plugin contract: nine hooks, all optional.

A plugin is a module (or object) named by an entry point of group ``pdebench_hss``. It must be cheap to
import: no torch, no scipy. What is heavy is named by a ``"package.module:attribute"`` string and imported
when a trial needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from .metric import MetricSpec
    from .model import ModelSpec
    from .reference_table import ReferenceTable
    from .study import Study
    from .task import TaskSpec

PROJECT = "pdebench_hss"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def pdebench_hss_models() -> list[ModelSpec]:  # type: ignore[empty-body]
    """The models this plugin brings."""


@hookspec
def pdebench_hss_tasks() -> list[TaskSpec]:  # type: ignore[empty-body]
    """The tasks this plugin brings."""


@hookspec
def pdebench_hss_metrics() -> list[MetricSpec]:  # type: ignore[empty-body]
    """The metrics this plugin brings; each is recorded for every trial that it makes sense for."""


@hookspec
def pdebench_hss_studies() -> list[Study]:  # type: ignore[empty-body]
    """The studies (named sets of trials) this plugin brings."""


@hookspec
def pdebench_hss_references() -> list[ReferenceTable]:  # type: ignore[empty-body]
    """The printed tables this plugin brings, to stand beside ours on every board that has a row of them."""


@hookspec
def pdebench_hss_executors() -> dict[str, str]:  # type: ignore[empty-body]
    """Executors by name, each as ``"module:Class"``; see ``pdebench_hss.runs.executors``."""


@hookspec
def pdebench_hss_benches() -> dict[str, str]:  # type: ignore[empty-body]
    """Benchmarks of time and memory by name, each as ``"module:function"``; see ``pdebench_hss.bench.timing``."""


@hookspec
def pdebench_hss_device_checks() -> dict[str, str]:  # type: ignore[empty-body]
    """Checks for ``doctor --device`` by name, each as ``"module:function"``; see ``pdebench_hss.doctor``."""


@hookspec
def pdebench_hss_trial_finished(record: Any) -> None:
    """Called in the driver after a record is on disk: for trackers. What it raises is only reported."""
