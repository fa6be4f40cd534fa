"""``leaderboard``: rebuild and print the tables of a directory of records."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .output import (
    BoardFormat,
    BoardFormatOption,
    MetricOption,
    ModelsOption,
    PluginOption,
    TasksOption,
    chosen_metric,
    installed,
    say_left_out,
)

if TYPE_CHECKING:
    import pandas as pd


def leaderboard(
    source: Annotated[
        Path, typer.Argument(metavar="BOARD", help="A directory that `run` wrote, or a results.csv.")
    ] = Path("leaderboards/latest"),
    tasks: TasksOption = "",
    models: ModelsOption = "",
    metric: MetricOption = "",
    form: BoardFormatOption = BoardFormat.table,
    plugin: PluginOption = None,
) -> None:
    """Rebuild the tables of a results directory from its records, and print the leaderboard.

    The same records give the same files, bit for bit. From a CSV file, or with --tasks, --models or --metric, it is
    printed and nothing is written. Ranks and skills are those among all models of the board.

    \b
    pdebench-hss leaderboard leaderboards/latest --format csv
    pdebench-hss leaderboard leaderboards/latest --metric vrmse
    pdebench-hss leaderboard leaderboards/latest --tasks 'poisson_*' \\
        --models fno,resnet,linear --format latex
    """
    from ..base.plain_text import write_csv
    from ..boards.caveats import leaderboard_page
    from ..boards.chosen_rows import choose_rows
    from .display import print_board

    whole = _board(source, plugin, metric, bool(tasks or models))
    board = choose_rows(whole, tasks, models)
    if form is BoardFormat.latex:
        print(_latex(board, whole, models, plugin), end="")
    elif form is BoardFormat.csv:
        write_csv(board, sys.stdout)
    elif form is BoardFormat.json:
        print(board.to_json(orient="records", indent=1, double_precision=15))
    elif form is BoardFormat.markdown:
        print(leaderboard_page(board, installed(plugin).models_in("guess")))
    else:
        print_board(board)


def _latex(board: pd.DataFrame, whole: pd.DataFrame, models: str, plugins: list[str] | None) -> str:
    from ..boards.chosen_rows import chosen_labels
    from ..boards.latex_leaderboard import leaderboard_latex

    registry = installed(plugins)
    order = chosen_labels(models, list(dict.fromkeys(board["model"])), "model") if models else []
    return leaderboard_latex(board, registry.titles(), registry.metric_specs(), order, whole)


def _board(source: Path, plugins: list[str] | None, metric: str, some: bool) -> pd.DataFrame:
    """The board's table; written anew if it is the whole one of a directory."""
    from ..base.errors import UsageError
    from ..boards.reading import read_board
    from ..boards.writing import write_board
    from ..trials.store import Store

    if metric:
        found = read_board(source, metric=chosen_metric(metric, installed(plugins)))
        say_left_out(metric, found)
        return found.summary
    if source.is_file() or some:
        return read_board(source).summary
    store = Store(source)
    if not store.keys():
        raise UsageError(f"{source} holds no records; make some with: pdebench-hss run --out {source} --tasks ...")
    return write_board(store, installed(plugins))[0]
