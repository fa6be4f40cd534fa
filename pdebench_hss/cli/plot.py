"""``plot``: the figures of a board: average ranks, and error against what it costs."""

from __future__ import annotations

import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .output import MetricOption, ModelsOption, PluginOption, TasksOption, chosen_metric, say_left_out
from .study import formats_of

if TYPE_CHECKING:
    import pandas as pd


def plot(
    source: Annotated[
        Path, typer.Argument(metavar="BOARD", help="A directory that `run` wrote, or a results.csv or leaderboard.csv.")
    ] = Path("leaderboards/latest"),
    out: Annotated[Path | None, typer.Option(help="Where to draw.  [default: BOARD/figures]")] = None,
    kind: Annotated[
        str,
        typer.Option(
            help="ranks (critical differences), pareto (error against time, size, FLOPs), compute (error against a "
            "ladder of budgets, a figure per task).  [default: all that the board has rows for]"
        ),
    ] = "",
    tasks: TasksOption = "",
    models: ModelsOption = "",
    form: Annotated[
        str, typer.Option("--format", "--figure", help="Formats of the files: png, pdf, svg, or several.")
    ] = "png,pdf",
    metric: MetricOption = "",
    plugin: PluginOption = None,
) -> None:
    """Draw a board: average ranks, error against what it costs, and error against compute along a ladder of budgets.

    \b
    pdebench-hss plot leaderboards/latest
    pdebench-hss plot leaderboards/latest --kind pareto --tasks 'poisson_*' \\
        --models fno,linear --format pdf
    pdebench-hss plot leaderboards/latest --metric vrmse  (in BOARD/figures/vrmse)
    pdebench-hss plot leaderboards/medium-cpu --kind compute
    """
    from ..base.errors import UsageError, did_you_mean
    from ..base.plain_text import visible
    from ..boards.chosen_rows import choose_rows
    from ..boards.reading import read_board
    from ..contract.registry import load_registry
    from ..contract.selection import split
    from ..plots import BOARD_KINDS, board_looks, draw_board

    kinds = split(kind)
    for name in kinds:
        if name not in BOARD_KINDS:
            hint = did_you_mean(name, BOARD_KINDS)
            raise UsageError(f"--kind {name}: no such figure.{hint}  Figures: {', '.join(BOARD_KINDS)}")
    registry = load_registry(plugin or ())
    spec = chosen_metric(metric, registry)
    board = read_board(source, metric=spec)
    if spec is not None:
        say_left_out(spec.name, board)
    folder = out or (source if source.is_dir() else source.parent) / "figures" / metric
    titles = registry.titles()
    paths, complaints = draw_board(
        choose_rows(board.summary, tasks, models),
        titles,
        folder,
        formats_of(form, "--format"),
        spec,
        kinds,
        _shown(board.levels, models),
        registry.families(),
        board_looks(board.summary, titles, board.levels),
    )
    for complaint in complaints:
        print(f"not drawn: {visible(complaint)}", file=sys.stderr)
    print(f"wrote {', '.join(map(str, paths)) or 'nothing'}")
    if not paths:
        raise typer.Exit(2)


def _shown(levels: pd.DataFrame | None, models: str) -> pd.DataFrame | None:
    """The levels of a classical solver are its variants: shown if it is."""
    from ..contract.selection import split

    if levels is None or not models or models == "all":
        return levels
    names = [item.partition("[")[0] for item in split(models)]
    solver = levels["model"].str.partition("[")[0]
    return levels[[any(fnmatchcase(name, pattern) for pattern in names) for name in solver]]
