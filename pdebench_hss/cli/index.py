"""``index``: all boards of a folder as one file for machines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .output import installed


def index(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of boards.")] = Path("leaderboards"),
    tables: Annotated[
        bool, typer.Option("--tables", help="Make the tables of the boards anew first, those that are there.")
    ] = False,
) -> None:
    """Write DIR/index.json: every cell of every board below a folder, with its trials and how far it can be trusted.

    The form is described at the top of boards/index.py and in the documentation; its schema has a number. The same
    boards give the same bytes.

    \b
    pdebench-hss index leaderboards
    pdebench-hss index leaderboards --tables  (after a change of the tables)
    """
    from ..base.errors import UsageError
    from ..boards.index import rewrite_tables, write_index

    if not folder.is_dir():
        raise UsageError(f"{folder}: no such directory")
    if tables:
        changed = rewrite_tables(folder, installed(None))
        print("".join(f"wrote {path}\n" for path in changed), end="")
    path, boards, cells = write_index(folder)
    print(f"wrote {path}: {cells} cells of {boards} boards")
