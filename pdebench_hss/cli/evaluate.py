"""``evaluate``: the trained models of a board on another grid, with other parameters, on fresh samples."""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .bars import bar
from .fitted_table import fitted_table
from .output import PluginOption, installed
from .study import FigureOption, formats_of

if TYPE_CHECKING:
    import pandas as pd

    from ..contract.registry import Registry
    from ..data.cache import Dataset
    from ..use.evaluating import Condition


def evaluate(
    source: Annotated[Path, typer.Argument(metavar="BOARD", help="A directory that `run` wrote.")] = Path(
        "leaderboards/latest"
    ),
    grid: Annotated[
        str | None, typer.Option(help="Points along each axis, several with commas: 64,128 or 128x64.")
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(help="Tasks with other parameters: 'wave[speed=2],wave[speed=3]'.  [default: all, as trained]"),
    ] = None,
    data_seed: Annotated[
        str | None, typer.Option(help="Fresh draws of the data: 7 or 7,8.  [default: as in training]")
    ] = None,
    models: Annotated[str | None, typer.Option(help="Only these, as on the board.  [default: all]")] = None,
    samples: Annotated[
        int | None,
        typer.Option(help="Test samples of a condition.  [default: all in training's, else up to 32]", min=1),
    ] = None,
    interpolate: Annotated[
        bool,
        typer.Option(
            "--interpolate", help="Carry fields to the grid of a model whose weights belong to one, and back."
        ),
    ] = False,
    figure: FigureOption = "png",
    jobs: Annotated[int, typer.Option(help="Models side by side.", min=1)] = 1,
    plugin: PluginOption = None,
) -> None:
    """Evaluate trained models elsewhere, without training: another resolution, other parameters, fresh samples.

    Results go to BOARD/evaluations: a table that grows with every command, and figures of the error against resolution
    and against a parameter. Models that can't be used on another grid are rows with the reason.

    \b
    pdebench-hss evaluate leaderboards/latest --grid 32,64,128 \\
        --models fno,resnet
    pdebench-hss evaluate leaderboards/latest --task 'burgers_1d[beta=0.5]' \\
        --data-seed 7
    """
    from ..contract.selection import split
    from ..data.cache import ensure
    from ..runs.runner import RunInterrupted
    from ..use.choosing import open_board
    from ..use.evaluating import Request
    from ..use.evaluating import evaluate as run_evaluations

    formats = formats_of(figure)
    store, registry = open_board(source), installed(plugin)
    conditions = _conditions(registry, task, grid, data_seed)
    request = Request(tuple(split(models)) if models else (), samples, interpolate, tuple(plugin or ()), jobs)

    def make(dataset: Dataset) -> None:
        with bar(f"data {dataset.title}") as progress:
            ensure(dataset, jobs=jobs, plugin_files=plugin or (), progress=progress)

    rows, stopped = [], False
    try:
        with bar("evaluating") as progress:
            for row in run_evaluations(store, registry, conditions, request, make, progress):
                rows.append(row)
    except KeyboardInterrupt:
        stopped = True
    if rows:
        _finish(store.path / "evaluations", rows, registry, formats)
    if stopped:
        raise RunInterrupted(f"stopped. {len(rows)} evaluations done and kept; run the same command for the rest.")


def _conditions(registry: Registry, task: str | None, grid: str | None, data_seed: str | None) -> list[Condition]:
    from ..base.errors import UsageError
    from ..use.evaluating import Condition, parse_grids

    tasks = registry.choose_tasks(task) if task else [None]
    grids = parse_grids(grid) if grid else [None]
    try:
        seeds = [int(word) for word in data_seed.split(",")] if data_seed else [None]
    except ValueError:
        raise UsageError(f"--data-seed {data_seed}: write whole numbers, 7 or 7,8") from None
    return [Condition(*parts) for parts in product(tasks, grids, seeds)]


def _finish(folder: Path, rows: list[dict[str, object]], registry: Registry, formats: list[str]) -> None:
    """Write what was found, and print the rows of this command."""
    import pandas as pd

    from ..base.plain_text import visible
    from ..boards.evaluations import IDENTITY, add_rows
    from ..plots.elsewhere import draw_evaluations

    table = add_rows(folder, rows)
    fresh = pd.DataFrame(rows)[IDENTITY]
    _print(table.merge(fresh, on=IDENTITY))
    paths, complaints = draw_evaluations(table, registry.titles(), folder, formats) if formats else ([], [])
    for complaint in complaints:
        print(f"not drawn: {visible(complaint)}", file=sys.stderr)
    figures = [path.name for path in paths]
    print(f"wrote {folder}/evaluations.csv, evaluations.md{''.join(f', {name}' for name in figures)}")
    if (table.merge(fresh, on=IDENTITY)["status"] == "failed").any():
        raise typer.Exit(1)


def _print(table: pd.DataFrame) -> None:
    from ..base.plain_text import visible
    from ..boards.evaluations import HEADERS, display_row, measure_of

    for (task, grid, seed), rows in table.groupby(["evaluated_on", "grid", "data_seed"], sort=False):
        print(visible(f"{task} on {grid}, data seed {seed} ({measure_of(rows)})"))
        lines = [[visible(cell) for cell in display_row(row)] for _, row in rows.iterrows()]
        print(fitted_table(HEADERS, lines, rule=False) + "\n")
