"""``compare``: boards against a reference, cell by cell."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..base.errors import UsageError
from .fitted_table import fitted_table
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

    from ..boards.comparison import Comparison

REGRESSION = 3


def compare(
    boards: Annotated[
        list[Path], typer.Argument(help="Directories, results.csv or leaderboard.csv; the first is the reference.")
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Compare even if data, metric, scale or machine differ.")
    ] = False,
    same_weights: Annotated[
        bool,
        typer.Option("--same-weights", help="The boards share trained weights: compare over test samples only."),
    ] = False,
    fail: Annotated[
        bool, typer.Option("--fail-on-regression", help="Exit 3 if a cell really got worse; one seed can't tell.")
    ] = False,
    tol: Annotated[str, typer.Option(help="By how much an error may rise: 5% or 0.05.")] = "0%",
    tasks: TasksOption = "",
    models: ModelsOption = "",
    metric: MetricOption = "",
    form: BoardFormatOption = BoardFormat.table,
    plugin: PluginOption = None,
) -> None:
    """Compare boards with a first one: per cell the change with its interval, and whether it is real.

    With --tasks or --models fewer cells are shown; what is real is still decided among all cells of the boards.

    \b
    pdebench-hss compare leaderboards/small-cpu leaderboards/latest
    pdebench-hss compare before.csv after.csv --fail-on-regression --tol 5%
    pdebench-hss compare leaderboards/small-cpu leaderboards/latest \\
        --metric vrmse
    pdebench-hss compare leaderboards/small-cpu leaderboards/latest \\
        --tasks 'poisson_*' --format latex
    """
    tolerance = parse_tolerance(tol)

    from ..base.plain_text import visible
    from ..boards.chosen_rows import choose_rows
    from ..boards.comparison import compare as compare_boards
    from ..boards.reading import read_board

    spec = chosen_metric(metric, installed(plugin)) if metric else None
    sides = [read_board(path, metric=spec) for path in boards]
    for side in sides:
        say_left_out(metric, side)
    higher = spec is not None and spec.higher_is_better
    found = compare_boards(sides, force=force, same_weights=same_weights, higher=higher)
    found = replace(found, table=choose_rows(found.table, tasks, models))
    if form is BoardFormat.latex:
        from ..boards.latex_comparison import comparison_latex

        print(comparison_latex(found, installed(plugin).titles()), end="")
    else:
        _print(found, form)
    said = sys.stdout if form in (BoardFormat.table, BoardFormat.markdown) else sys.stderr
    for note in found.notes:
        print(f"note: {visible(note)}", file=said)
    if fail:
        _fail_on_regression(found, tolerance)


def _fail_on_regression(found: Comparison, tolerance: float) -> None:
    """Cells that could not be judged are not regressions, but they are counted and reported."""
    if len(unjudged := found.unjudged()):
        print(f"not judged: {_named(unjudged)}; run more seeds on both boards", file=sys.stderr)
    if len(worse := found.regressions(tolerance)):
        cells = _named(worse, f" broken or worse by more than {100 * tolerance:g} %")
        print(f"regression: {cells}", file=sys.stderr)
        raise typer.Exit(REGRESSION)


def _named(table: pd.DataFrame, what: str = "") -> str:
    """How many cells, and the first of them."""
    from ..base.plain_text import visible

    cells = ", ".join(visible(f"{row['task']} {row['model']}") for _, row in table.head(5).iterrows())
    more = f" and {len(table) - 5} more" if len(table) > 5 else ""
    return f"{len(table)} cell{'s' * (len(table) > 1)}{what}: {cells}{more}"


def parse_tolerance(text: str) -> float:
    """``5%`` or ``0.05``."""
    try:
        value = float(text.rstrip().removesuffix("%")) / (100 if text.rstrip().endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise UsageError(f"--tol {text}: write a share that is not negative, such as 5% or 0.05")
    return value


def _print(found: Comparison, form: BoardFormat) -> None:
    from ..base.plain_text import markdown, visible, write_csv

    if form is BoardFormat.csv:
        write_csv(found.table, sys.stdout)
    elif form is BoardFormat.json:
        print(found.table.to_json(orient="records", indent=1, double_precision=15))
    else:
        from tabulate import tabulate

        from ..boards.comparison import NEITHER
        from ..boards.verdicts import IDENTICAL

        gap = "\n" if form is BoardFormat.markdown else ""  # Markdown needs empty lines around a table
        for board, table in found.table.groupby("board", sort=False):
            print(visible(f"{found.reference} → {board}") + gap)
            shown = table[~table["verdict"].isin([IDENTICAL, NEITHER])]  # they are counted below
            if len(shown):
                plain = markdown if form is BoardFormat.markdown else visible
                rows = [[plain(text) for text in _row(row, found.cell)] for _, row in shown.iterrows()]
                headers = [*found.cell, "error", "change", "95 % interval", "", "fit", "predict"]
                if form is BoardFormat.markdown:
                    print(tabulate(rows, headers=headers, tablefmt="github", disable_numparse=True) + gap)
                else:
                    print(fitted_table(headers, rows, optional=("fit", "predict"), rule=False))
            counts = table["verdict"].value_counts(sort=False)
            print(f"{len(table)} cells: {', '.join(f'{count} {verdict}' for verdict, count in counts.items())}")


def _row(row: pd.Series, cell: list[str]) -> list[str]:
    from ..boards.comparison import ONLY_OTHER, ONLY_REFERENCE
    from ..boards.text import format_error
    from ..boards.verdicts import BROKE, MENDED

    errors = f"{format_error(row['reference_err'])} → {format_error(row['err'])}"
    why = f" ({row['reason']})" if row["reason"] else ""
    absent = row["verdict"] in (BROKE, MENDED, ONLY_REFERENCE, ONLY_OTHER)
    ratio = max(abs(row["change"]), abs(row["high"])) >= 10  # a thousand percent reads better as a factor
    interval = f"[{_share(row['low'], ratio)}, {_share(row['high'], ratio)}]" if row["low"] == row["low"] else ""
    return [
        *("–" if row[column] is None or row[column] != row[column] else str(row[column]) for column in cell),
        *(errors, _share(row["change"], ratio), interval, row["verdict"] + (why if absent else "")),
        *(_share(row["fit_change"]), _share(row["predict_change"])),
    ]


def _share(value: Any, ratio: bool = False) -> str:
    if value is None or value != value:
        return ""
    text = f"×{1 + value:.3g}" if ratio or abs(value) >= 10 else f"{100 * value:+.1f} %"
    return text.replace("-", "−")
