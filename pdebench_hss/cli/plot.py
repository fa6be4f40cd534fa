"""``plot``: the figures of a board: average ranks, and error against what it costs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from .output import MetricOption, PluginOption, chosen_metric, say_left_out
from .study import FigureOption, formats_of


def plot(
    source: Annotated[
        Path, typer.Argument(metavar="BOARD", help="A directory that `run` wrote, or a results.csv or leaderboard.csv.")
    ] = Path("leaderboards/latest"),
    out: Annotated[Path | None, typer.Option(help="Where to draw.  [default: BOARD/figures]")] = None,
    figure: FigureOption = "png,pdf",
    metric: MetricOption = "",
    plugin: PluginOption = None,
) -> None:
    """Draw a board: the critical-difference diagram, and Pareto plots of error against time, parameters and FLOPs.

    \b
    pdebench-hss plot leaderboards/latest
    pdebench-hss plot leaderboards/latest --metric vrmse      (in BOARD/figures/vrmse)
    """
    from ..base.plain_text import visible
    from ..boards.reading import read_board
    from ..contract.registry import load_registry
    from ..plots import draw_board

    registry = load_registry(plugin or ())
    spec = chosen_metric(metric, registry)
    board = read_board(source, metric=spec)
    if spec is not None:
        say_left_out(spec.name, board)
    folder = out or (source if source.is_dir() else source.parent) / "figures" / metric
    paths, complaints = draw_board(board.summary, registry.titles(), folder, formats_of(figure), spec)
    for complaint in complaints:
        print(f"not drawn: {visible(complaint)}", file=sys.stderr)
    print(f"wrote {', '.join(map(str, paths)) or 'nothing'}")
    if not paths:
        raise typer.Exit(2)
