"""``reproduce``: one cell of a board, made again by a stranger."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from .chosen import BoardArgument, BudgetOption, KeyOption, ModelOption, ScaleOption, SeedOption, TaskOption
from .output import PluginOption, installed

CONTRADICTION = 3
FAILED = 1


def reproduce(
    source: BoardArgument,
    task: TaskOption = None,
    model: ModelOption = None,
    seed: SeedOption = 0,
    scale: ScaleOption = None,
    budget: BudgetOption = None,
    key: KeyOption = None,
    out: Annotated[
        Path | None, typer.Option(help="Keep the new record here; the same command continues.  [default: nowhere]")
    ] = None,
    plugin: PluginOption = None,
) -> None:
    """Make one cell of a board again: check versions, make the data, train, compare. One line says if it is the same.

    Exit 0 if it is, 3 if it is not, 1 if that can't be told, with the reason.

    \b
    pdebench-hss reproduce leaderboards/small-cpu --task heat_1d --model fno \\
        --seed 1
    """
    from ..base.plain_text import visible
    from ..boards.findings import CONTRADICTED, UNCHECKED
    from ..use.choosing import choose_record, open_board

    store = open_board(source)
    record = choose_record(store, model, task, seed, key=key, scale=scale, budget=budget)

    from ..use.rerunning import line, rerun
    from .quiet import QuietReporter

    reporter = QuietReporter()
    with tempfile.TemporaryDirectory(prefix="reproduce-") as temporary:
        folder = out or Path(temporary)
        (found,) = rerun(
            [record], store, installed(plugin), folder, plugin_files=tuple(plugin or ()), reporter=reporter
        )
    print(visible(line(found)))
    if found.verdict in (CONTRADICTED, UNCHECKED):
        raise typer.Exit(CONTRADICTION if found.verdict == CONTRADICTED else FAILED)
