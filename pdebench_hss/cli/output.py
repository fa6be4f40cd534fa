"""Tables on the terminal, as CSV, Markdown or JSON: one function for everything that lists."""

from __future__ import annotations

import csv
import enum
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .fitted_table import fitted_table

if TYPE_CHECKING:
    from ..boards.reading import BoardFile
    from ..contract.metric import MetricSpec
    from ..contract.registry import Registry


class Format(str, enum.Enum):
    table = "table"
    csv = "csv"
    markdown = "markdown"
    json = "json"


class BoardFormat(str, enum.Enum):
    """Tables of boards end up in papers, too."""

    table = "table"
    csv = "csv"
    markdown = "markdown"
    json = "json"
    latex = "latex"


FormatOption = Annotated[Format, typer.Option("--format", help="How to print.")]
BoardFormatOption = Annotated[BoardFormat, typer.Option("--format", help="How to print; latex is for a paper.")]
PluginOption = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin",
        metavar="FILE",
        help="Load a plugin (.py) or a task of arrays (.yaml) from a file.",
    ),
]
TasksOption = Annotated[
    str, typer.Option("--tasks", help="Only these tasks of the board, e.g. my_task,'my_*'.  [default: all]")
]
ModelsOption = Annotated[
    str, typer.Option("--models", help="Only these models of the board, e.g. net,'net[width=16]'.  [default: all]")
]
MetricOption = Annotated[
    str, typer.Option("--metric", help="Another metric than each task's own; see: pdebench-hss list metrics.")
]
StrictOption = Annotated[bool | None, typer.Option("--strict-plugins", help="A broken plugin is an error.")]


def print_rows(
    rows: Sequence[dict[str, Any]], columns: Sequence[str], form: Format, *, optional: Sequence[str] = ()
) -> None:
    """Print rows of plain values; missing ones are empty in CSV and null in JSON, ``optional`` as in `fitted_table`."""
    from ..base.plain_text import csv_cell, markdown, visible

    if form is Format.json:
        print(json.dumps([{c: row.get(c) for c in columns} for row in rows], indent=1))
    elif form is Format.csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(["" if row.get(c) is None else csv_cell(row[c]) for c in columns] for row in rows)
    else:
        plain = markdown if form is Format.markdown else visible
        cells = [["" if row.get(c) is None else plain(row[c]) for c in columns] for row in rows]
        if form is Format.markdown:
            from tabulate import tabulate

            print(tabulate(cells, headers=list(columns), tablefmt="github", disable_numparse=True))
        else:
            print(fitted_table(columns, cells, optional=optional))


def installed(plugins: Sequence[str] | None, *, strict: bool | None = False) -> Registry:
    """What is installed, and what the given files bring; broken plugins are warned about."""
    from ..contract.registry import load_registry

    registry = load_registry(plugins or (), strict=bool(strict))
    warn_broken(registry)
    return registry


def chosen_metric(name: str, registry: Registry) -> MetricSpec | None:
    """The metric that was asked for, and what it means on stderr; None for each task's own."""
    if not name:
        return None
    spec = registry.metric(name).spec
    print(f"{spec.name}: {spec.formula} ({spec.direction} is better)", file=sys.stderr)
    return spec


def say_left_out(name: str, board: BoardFile) -> None:
    """Which tasks a board has and a table through a metric does not."""
    from ..base.plain_text import visible

    if board.absent:
        shown = ", ".join(board.absent[:5]) + (f" and {len(board.absent) - 5} more" if len(board.absent) > 5 else "")
        print(visible(f"{board.name}: no {name} on {shown}"), file=sys.stderr)


def warn_broken(registry: Registry) -> None:
    for broken in registry.broken:
        warn(str(broken))


def warn(message: str) -> None:
    from ..base.plain_text import visible

    print(f"warning: {visible(message)}", file=sys.stderr)
