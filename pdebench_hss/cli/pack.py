"""``pack``: a finished board in a handful of files."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer


class Errors(str, enum.Enum):
    all = "all"
    own = "own"


def pack(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A directory that `run` wrote.")],
    pictures: Annotated[
        bool, typer.Option("--pictures/--no-pictures", help="Keep small pictures of one trial per row, or none.")
    ] = True,
    models: Annotated[
        bool, typer.Option("--models/--no-models", help="Keep the trained models, in one file, or remove them.")
    ] = True,
    errors: Annotated[
        Errors, typer.Option(help="Keep errors by test sample of all metrics, or of the board's own error alone.")
    ] = Errors.all,
) -> None:
    """Pack a finished board: the record files, two per trial, become three. Every command reads it as before.

    Records, errors by test sample and learning curves stay as they are, to the last bit, and so do all tables. Pictures
    are made small (32 points a side, 127 colours) and kept for the first seed of each row; the others are dropped.
    With --errors own, further metrics keep their means and lose their samples, most of a large board's bytes; intervals
    of those metrics are then over seeds alone.
    Trained models become one file, which `predict` and `load_model` read as before; --no-models removes them.
    `run` on a packed board writes new records beside the pack, where they count; pack it again to take them in.

    \b
    Examples:
    pdebench-hss pack leaderboards/latest
    pdebench-hss pack leaderboards/latest --no-pictures --no-models
    pdebench-hss pack leaderboards/small-cpu --errors own
    """
    from ..base.files import human_bytes
    from ..boards.packing import pack as pack_board
    from ..trials.store import Store

    store = Store(directory)
    done = pack_board(store, pictures, models, errors is Errors.all)
    (files, size), (files_before, size_before) = done.after, done.before
    saved = f"was {files_before} files, {human_bytes(size_before)}" if done.after != done.before else "as before"
    held = f", models of {done.models}, {human_bytes(store.models.size()[1])}" if done.models else ""
    print(
        f"packed {directory}: {done.records} records in {files} files, {human_bytes(size)} ({saved}); "
        f"pictures of {done.pictures} trials kept{held}"
    )
