"""Options of every command that takes a trained model from a board, and the model they choose."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ..use.loaded import LoadedModel

BoardArgument = Annotated[Path, typer.Argument(metavar="BOARD", help="A directory that `run` wrote.")]
ModelOption = Annotated[
    str | None, typer.Option(help="A model of the board, e.g. net or net[width=16].  [default: the only one]")
]
TaskOption = Annotated[str | None, typer.Option(help="A task of the board.  [default: the only one]")]
SeedOption = Annotated[int, typer.Option(help="The seed of the trial.")]
ScaleOption = Annotated[str | None, typer.Option(help="The scale of the trial, where the board has several.")]
BudgetOption = Annotated[str | None, typer.Option(help="The budget of the trial, likewise.")]
KeyOption = Annotated[str | None, typer.Option(help="The beginning of the trial's key, instead of all of these.")]


def load_chosen(
    board: Path,
    model: str | None,
    task: str | None,
    seed: int,
    scale: str | None,
    budget: str | None,
    key: str | None,
    *,
    device: str = "cpu",
    plugin: list[str] | None = None,
) -> LoadedModel:
    from ..use.choosing import choose_record, open_board

    store = open_board(board)  # a mistyped name should not wait until torch is imported
    record = choose_record(store, model, task, seed, key=key, scale=scale, budget=budget)

    from ..use.loading import from_record
    from .output import installed

    return from_record(store, record, installed(plugin), device)
