"""The Python API: the same engine as the command line, for notebooks and scripts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from .contract.registry import load_registry
from .data import cache
from .notebook.board import Board as Board
from .notebook.board import as_file, metric_spec
from .notebook.board import compare as compare_files
from .notebook.models import Model, bring, given
from .notebook.progress import reporting
from .runs.config import make_config
from .runs.runner import Run
from .trials.store import Store
from .use.loaded import LoadedModel
from .use.loading import load_model as load_from_store

AnyBoard = Board | str | Path | pd.DataFrame
AnyPath = str | os.PathLike[str]


def run(
    models: Model | Sequence[Model] = "all",
    tasks: str | Sequence[str] = "",
    *,
    scale: str = "small",
    seeds: int | str | Sequence[int] = 1,
    budget: str | None = None,
    match_params: int | str | None = None,
    train_size: int | None = None,
    val: int | str | None = None,
    tuned: AnyPath | None = None,
    executor: str = "process",
    jobs: int | None = None,
    timeout: float | None = None,
    device: str = "auto",
    precision: str = "float32",
    cuda_graphs: bool = False,
    max_memory: str | float | None = None,
    max_resident: str | float | None = None,
    out: AnyPath = "leaderboards/latest",
    data_dir: AnyPath | None = None,
    data_seed: int = 0,
    force: bool = False,
    plugins: AnyPath | Sequence[AnyPath] = (),
    strict_plugins: bool = False,
    ddp: int = 1,
    resources: str | None = None,
    ray_address: str | None = None,
    storage: str | None = None,
    keep_models: bool = True,
    keep_models_up_to: str = "50M",
    keep_predictions: bool = False,
    shard: str | None = None,
    progress: bool | None = None,
) -> Board:
    """Run models on tasks and return the board. The same call again runs only what is missing.

    What the run is:

    models             names, globs, ``"name[width=8,lr=4e-3]"``, ``"all"``; classes (``nn.Module``) and `ModelSpec`s;
                       or a list of any of these. A class is built with the task first, and what else its ``__init__``
                       takes must have defaults: these are its hyper-parameters. It may be defined in a cell: its
                       source, with what it uses, is written to ``OUT/plugins`` as a plugin file
    tasks              names, globs, ``"name[key=value]"``, or a list of these
    scale              ``smoke`` (seconds), ``small``, ``medium`` or ``paper``
    seeds              3 means seeds 0, 1, 2; ``[0, 7]`` means those
    budget             ``"epochs=N"``, ``"steps=N"``, ``"seconds=T"``, ``"core_seconds=T"`` or ``"flops=F"`` for every
                       model; several (``"core_seconds=10,40"``) are a ladder. Default: the task's own
    match_params       resize every model to about this many parameters (``"300k"``)
    train_size, val    training samples to use; to hold out (a number, or ``"10%"``)
    tuned              a file that ``pdebench-hss tune`` wrote
    data_dir, data_seed    public files to read instead of making data; another draw of made data

    Where and how:

    out                the directory of the board
    executor, jobs, timeout    ``process``, ``inline`` or ``ray``; trials at a time; seconds for each
    device, precision, cuda_graphs, ddp, resources    as on the command line (docs/gpu.md)
    max_memory, max_resident, ray_address, storage, shard    for large data and clusters (docs/scaling.md)
    keep_models, keep_models_up_to, keep_predictions    what to keep for `load_model`
    force              run again what is there
    plugins, strict_plugins    plugin files; whether one that is broken is an error
    progress           None: a bar in a notebook and on a terminal; True: also elsewhere; False: nothing, no warnings

    >>> board = run(models=["resnet", "linear"], tasks="poisson_1d", scale="smoke", seeds=2)  # doctest: +SKIP
    >>> board.leaderboard[["model", "test_err_mean"]]                                        # doctest: +SKIP
    """
    options = {name: value for name, value in locals().items() if name not in ("models", "progress", "plugins")}
    for name in ("out", "data_dir", "tuned"):
        if isinstance(options[name], os.PathLike):
            options[name] = os.fspath(options[name])
    files = [os.fspath(path) for path in ([plugins] if isinstance(plugins, (str, os.PathLike)) else plugins)]
    found = given(models)
    config = make_config({**options, "models": found.names, "plugins": files})
    registry = load_registry(files, strict=strict_plugins)
    files += bring(found.files, registry, config.out)
    with reporting(progress) as reporter:
        outcome = Run(replace(config, plugins=files), registry, reporter).execute()
    return Board(config.out, plugins=files, keys=[record.key for record in outcome.records])


def leaderboard(source: AnyBoard, metric: str = "") -> pd.DataFrame:
    """One row per task and model, of a board, a results table, a directory of records or a CSV file.

    ``metric``: rank by another metric than each task's own, ``"vrmse"`` say (``pdebench-hss list metrics``).
    """
    return as_file(source, metric=metric_spec(metric, _plugins(source))).summary.copy()


def compare(
    reference: AnyBoard,
    *others: AnyBoard,
    force: bool = False,
    same_weights: bool = False,
    metric: str = "",
) -> pd.DataFrame:
    """Every further board against the first, one row per cell: change, interval, verdict.

    Boards are what `run` returns, directories, CSV files, or tables in memory. Tables have no errors by test sample, so
    boards and directories say more. One seed can't tell how a retraining varies; ``same_weights`` says that nothing was
    trained again, and compares over test samples only. ``metric`` as of `leaderboard`.

    >>> compare("leaderboards/small-cpu", "leaderboards/latest")  # doctest: +SKIP
    """
    spec = metric_spec(metric, _plugins(reference, *others))
    return compare_files(reference, *others, force=force, same_weights=same_weights, metric=spec)


def load_model(
    board: AnyBoard | Store,
    model: Model | None = None,
    task: str | None = None,
    seed: int | None = 0,
    *,
    device: str = "cpu",
    plugins: Sequence[AnyPath] = (),
    key: str | None = None,
    **further: Any,
) -> LoadedModel:
    """A trained model as a function of physical fields.

    ``board`` is what `run` returned, or a directory that it wrote. ``model`` and ``task`` are named as on the board,
    with options if they had any (``"net[width=16]"``); a class that was given to `run` can be given here. If that
    matches several trials, choose by ``scale``, ``budget``, ``n_train`` or another field of `pdebench_hss.Trial`, or by
    the beginning of the ``key``. Models from ``--plugin`` files need these files again in ``plugins``; a board that
    `run` returned knows its own.

    >>> net = load_model("leaderboards/latest", model="resnet", task="poisson_1d")  # doctest: +SKIP
    >>> u = net(f)  # numpy or torch, one sample or many                              # doctest: +SKIP
    """
    if not isinstance(model, str) and model is not None and isinstance(board, (str, Path)):
        board = Board(board, plugins=[os.fspath(path) for path in plugins])
    if isinstance(board, Board):
        return board.load_model(model, task, seed, device=device, plugins=plugins, key=key, **further)
    return load_from_store(board, model, task, seed, device=device, plugins=plugins, key=key, **further)  # type: ignore[arg-type]


def load_task(name: str, scale: str = "small", seed: int = 0, jobs: int = 1, **params: Any) -> cache.TaskData:
    """A task's samples in physical units, made now if they are not cached: ``load_task(name).train.inputs``.

    Printed, it says in five lines what the task is.
    """
    registry = load_registry()
    choice = registry.choose_tasks(name)[0]
    task = registry.task(choice.name)
    spec, chosen = task.spec.with_options({**choice.options, **params})
    return cache.obtain(
        cache.Dataset(replace(task, spec=spec), scale, chosen, seed, cache.find_source(spec)), jobs=jobs
    )


def _plugins(*boards: AnyBoard) -> list[str]:
    return [file for board in boards if isinstance(board, Board) for file in board.plugins]
