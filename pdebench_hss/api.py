"""The Python API: the same engine as the command line, for notebooks and scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from . import data, tables
from .config import make_config
from .plugins import load_registry
from .records import Store
from .runner import Run
from .selection import check_options, choose


def run(models: str | list[str] = "all", tasks: str | list[str] = "", **options: Any) -> pd.DataFrame:
    """Run an experiment and return its results, one row per trial. Options are those of ``pdebench-hss run``.

    >>> board = run(models=["resnet", "linear"], tasks="poisson_1d", scale="smoke", seeds=2)  # doctest: +SKIP
    """
    engine = Run(make_config({"models": models, "tasks": tasks, **options}))
    return tables.results(engine.execute().records)


def leaderboard(source: pd.DataFrame | str | Path) -> pd.DataFrame:
    """One row per task and model, from a results table or from a directory of records."""
    if isinstance(source, pd.DataFrame):
        return tables.leaderboard(source)
    return tables.leaderboard(tables.results(Store(source).current()))


def load_task(name: str, scale: str = "small", seed: int = 0, jobs: int = 1, **params: Any) -> data.TaskData:
    """A task's samples in physical units, made now if they are not cached: ``load_task("heat_1d").train.inputs``."""
    registry = load_registry()
    choice = choose(name, registry.tasks, "task")[0]
    spec = registry.task(choice.name).spec
    chosen = check_options({**choice.options, **params}, spec.params, f"task {spec.name!r}")
    dataset = data.Dataset(spec, scale, chosen, seed)
    data.ensure(dataset, jobs=jobs)
    return data.load(dataset)
