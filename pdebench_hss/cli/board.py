"""``leaderboard``: rebuild and print the tables of a directory of records."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .output import Format, FormatOption, MetricOption, PluginOption, chosen_metric, installed, say_left_out

if TYPE_CHECKING:
    import pandas as pd


def leaderboard(
    source: Annotated[
        Path, typer.Argument(metavar="BOARD", help="A directory that `run` wrote, or a results.csv.")
    ] = Path("leaderboards/latest"),
    metric: MetricOption = "",
    form: FormatOption = Format.table,
    plugin: PluginOption = None,
) -> None:
    """Rebuild the tables of a results directory from its records, and print the leaderboard.

    The same records give the same files, bit for bit. From a CSV file, or with --metric, it is printed and nothing is
    written.

    \b
    pdebench-hss leaderboard leaderboards/latest --format csv
    pdebench-hss leaderboard leaderboards/latest --metric vrmse
    """
    from ..base.plain_text import write_csv
    from ..boards.caveats import leaderboard_page
    from .display import print_board

    board = _board(source, plugin, metric)
    if form is Format.csv:
        write_csv(board, sys.stdout)
    elif form is Format.json:
        print(board.to_json(orient="records", indent=1, double_precision=15))
    elif form is Format.markdown:
        print(leaderboard_page(board))
    else:
        print_board(board)


def _board(source: Path, plugins: list[str] | None, metric: str) -> pd.DataFrame:
    from ..base.errors import UsageError
    from ..boards.reading import read_board
    from ..boards.writing import write_board
    from ..trials.store import Store

    if metric:
        found = read_board(source, metric=chosen_metric(metric, installed(plugins)))
        say_left_out(metric, found)
        return found.summary
    if source.is_file():
        return read_board(source).summary
    store = Store(source)
    if not store.keys():
        raise UsageError(f"{source} holds no records; make some with: pdebench-hss run --out {source} --tasks ...")
    return write_board(store, installed(plugins))[0]
