"""A comparison of boards as a table for a paper: a row per model, a column per task, the change with its interval.

A change that is real, by the verdict of `comparison`, is bold where it is better and underlined where it is worse.
What is within noise is plain, and a cell that could not be compared is empty, with the reason in the caption. Models
that are the same everywhere have no row: the caption names them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ..base.plain_text import latex
from .comparison import NEITHER, Comparison
from .latex_layout import MISSING, Column, Row, marked, named, ordered, table
from .verdicts import BETTER, IDENTICAL, WORSE

SAME = "identical"
FACTOR = 10  # changes from a thousand percent on are printed as factors


def comparison_latex(found: Comparison, titles: Mapping[str, str]) -> str:
    """A table for each board that was compared with the first."""
    parts = [_table(found, str(name), rows, titles) for name, rows in found.table.groupby("board", sort=False)]
    return "\n".join(parts)


def _table(found: Comparison, name: str, rows: pd.DataFrame, titles: Mapping[str, str]) -> str:
    settings = [column for column in found.cell if column != "model"]
    groups = [(names, group) for names, group in rows.groupby(settings, sort=False, dropna=False)]
    columns = [_column(dict(zip(settings, names, strict=True)), titles) for names, _ in groups]
    cells = [{str(row["model"]): _cell(row) for _, row in group.iterrows()} for _, group in groups]
    models = ordered(dict.fromkeys(map(str, rows["model"])), titles)
    same = [model for model in models if {column.get(model, MISSING) for column in cells} <= {SAME, MISSING}]
    shown = [model for model in models if model not in same] or models
    body = [Row(named(model, titles), [column.get(model, "") for column in cells]) for model in shown]
    left_out = [named(model, titles) for model in same if model not in shown]
    return table(columns, body, _caption(found, name, rows, left_out), "tab:comparison")


def _column(names: Mapping[str, Any], titles: Mapping[str, str]) -> Column:
    below = {column: str(value) for column, value in names.items() if column != "task" and pd.notna(value)}
    return Column(named(str(names["task"]), titles), below)


def _cell(row: pd.Series) -> str:
    if row["verdict"] == IDENTICAL:
        return SAME
    if row["verdict"] == NEITHER:
        return MISSING
    if pd.isna(row["change"]):
        return latex(row["verdict"]) if row["verdict"] else ""
    factor = max(abs(row["change"]), abs(row["high"]) if pd.notna(row["high"]) else 0.0) >= FACTOR
    change = marked(_share(row["change"], factor), {BETTER: 1, WORSE: 2}.get(row["verdict"], 0))
    if pd.isna(row["low"]):
        return change
    return rf"{change} \footnotesize $[{_share(row['low'], factor)}, {_share(row['high'], factor)}]$"


def _share(value: float, factor: bool) -> str:
    return rf"\times {1 + value:.3g}" if factor else f"{100 * value:+.1f}"


def _caption(found: Comparison, name: str, rows: pd.DataFrame, left_out: Sequence[str]) -> str:
    metrics = ", ".join(dict.fromkeys(map(str, rows["metric"].dropna())))
    seeds = sorted({int(n) for column in ("reference_seeds", "seeds") for n in rows[column] if n > 0})
    over = f" Seeds a side: {' to '.join(map(str, sorted({seeds[0], seeds[-1]})))}." if seeds else ""
    counts = rows["verdict"].value_counts(sort=False)
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    better = "larger values are better" if found.higher else "negative is better"
    lines = [
        latex(f"Change of the test error ({metrics}) from {found.reference} to {name} in percent, with its 95 %"),
        latex(f"interval; {better}.{over}"),
        r"\textbf{Bold}: really better; \underline{underlined}: really worse; plain: within noise or not known.",
        latex(f"Of {len(rows)} cells: {verdicts}."),
        *([latex(f"Identical wherever there is something to compare: {', '.join(left_out)}.")] if left_out else []),
        *(latex(f"{note[:1].upper()}{note[1:]}.") for note in found.notes),
    ]
    return " ".join(lines)
