"""``leaderboard``: rebuild and print the tables of a directory of records."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from .output import Format, FormatOption


def leaderboard(
    directory: Annotated[Path, typer.Argument(help="A directory that `run` wrote.")] = Path("leaderboards/latest"),
    form: FormatOption = Format.table,
) -> None:
    """Rebuild the tables of a results directory from its records, and print the leaderboard.

    Example:  pdebench-hss leaderboard leaderboards/latest --format csv
    """
    from .. import tables
    from ..errors import UsageError
    from ..records import Store
    from .display import print_board

    store = Store(directory)
    if not store.records_dir.is_dir():
        raise UsageError(
            f"{directory} holds no records; make some with: pdebench-hss run --out {directory} --tasks ..."
        )
    board, _ = tables.write_tables(store)
    if form is Format.csv:
        board.to_csv(sys.stdout, index=False, lineterminator="\n")
    elif form is Format.json:
        print(board.to_json(orient="records", indent=1, double_precision=15))
    else:
        print_board(board)
