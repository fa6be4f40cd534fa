"""The Python API: the same engine as the command line, for notebooks and scripts."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from .boards import frames
from .boards.comparison import ComparisonWarning
from .boards.comparison import compare as compare_boards
from .boards.reading import read_board
from .contract.metric import MetricSpec
from .contract.registry import load_registry
from .data import cache
from .runs.config import make_config
from .runs.runner import Run
from .use.loading import load_model as load_model


def run(models: str | list[str] = "all", tasks: str | list[str] = "", **options: Any) -> pd.DataFrame:
    """Run an experiment and return its results, one row per trial. Options are those of ``pdebench-hss run``.

    >>> board = run(models=["resnet", "linear"], tasks="poisson_1d", scale="smoke", seeds=2)  # doctest: +SKIP
    """
    engine = Run(make_config({"models": models, "tasks": tasks, **options}))
    table = frames.results(engine.execute().records)
    table.attrs["board"] = str(engine.store.path)  # where its models are
    return table


def leaderboard(source: pd.DataFrame | str | Path, metric: str = "") -> pd.DataFrame:
    """One row per task and model, from a results table, a directory of records or a CSV file.

    ``metric``: rank by another metric than each task's own, ``"vrmse"`` say (``pdebench-hss list metrics``).
    """
    return read_board(source, metric=_metric(metric)).summary


def compare(
    reference: pd.DataFrame | str | Path,
    *others: pd.DataFrame | str | Path,
    force: bool = False,
    same_weights: bool = False,
    metric: str = "",
) -> pd.DataFrame:
    """Every further board against the first, one row per cell: change, interval, verdict.

    Boards are directories, CSV files, or tables as `run` and `leaderboard` return them. Tables have no errors by test
    sample, so directories say more. One seed can't tell how a retraining varies; ``same_weights`` says that nothing was
    trained again, and compares over test samples only. ``metric`` as of `leaderboard`.

    >>> compare("leaderboards/small-cpu", "leaderboards/latest")  # doctest: +SKIP
    """
    spec = _metric(metric)
    sources = enumerate((reference, *others), start=1)
    boards = [read_board(source, _name(source, number), spec) for number, source in sources]
    higher = spec is not None and spec.higher_is_better
    found = compare_boards(boards, force=force, same_weights=same_weights, higher=higher)
    for note in found.notes:
        warnings.warn(note, ComparisonWarning, stacklevel=2)
    return found.table


def _metric(name: str) -> MetricSpec | None:
    return load_registry().metric(name).spec if name else None


def _name(source: Any, number: int) -> str:
    return f"table {number}" if isinstance(source, pd.DataFrame) else str(source)


def load_task(name: str, scale: str = "small", seed: int = 0, jobs: int = 1, **params: Any) -> cache.TaskData:
    """A task's samples in physical units, made now if they are not cached: ``load_task(name).train.inputs``."""
    registry = load_registry()
    choice = registry.choose_tasks(name)[0]
    task = registry.task(choice.name)
    spec, chosen = task.spec.with_options({**choice.options, **params})
    return cache.obtain(
        cache.Dataset(replace(task, spec=spec), scale, chosen, seed, cache.find_source(spec)), jobs=jobs
    )
