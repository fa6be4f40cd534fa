"""Evaluations on other data: ``evaluations/evaluations.csv`` and ``.md``, one row for each model and condition.

If a condition is evaluated again its new rows replace the old ones, so the table never holds two answers to one
question. It is derived from weights and recipes and can be deleted at any time.

``ratio`` is the relative error here over that on the training condition. Relative, because a metric that is a norm of
the whole field grows with the number of points whatever the model does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from ..base.errors import UsageError
from ..base.files import replacing, write_text
from ..base.plain_text import code, csv_text, markdown, write_csv
from ..trials.status import Status
from .text import format_error

COLUMNS = (
    *("task", "trained_on", "evaluated_on", "model", "seed", "scale", "trained_grid", "grid", "data_seed", "n_samples"),
    *(
        "how",
        "metric",
        "test_err",
        "err_low",
        "err_high",
        "trained_err",
        "trained_relative_l2",
        "status",
        "reason",
        "training_free",
    ),
    *("data_hash", "data_id", "key", "params", "trained_params"),
)
IDENTITY = ["key", "data_id"]
ORDER = ["task", "evaluated_on", "grid_points", "data_seed", "trained_on", "test_err", "model", "seed"]
NUMBERS = ("seed", "data_seed", "n_samples", "test_err", "err_low", "err_high", "trained_err", "trained_relative_l2")
TEXT = tuple(name for name in COLUMNS if name not in (*NUMBERS, "training_free"))


def add_rows(folder: Path, rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Add these rows and write the whole table as CSV and Markdown."""
    fresh = pd.DataFrame(list(rows))
    table = pd.concat([read(folder), fresh], ignore_index=True) if (folder / "evaluations.csv").exists() else fresh
    table = _sorted(table.drop_duplicates(IDENTITY, keep="last"))
    with replacing(folder / "evaluations.csv") as temporary:
        write_csv(table, temporary)
    write_text(folder / "evaluations.md", to_markdown(table))
    return table


def read(folder: Path) -> pd.DataFrame:
    """The table as it was written, in full precision."""
    path = folder / "evaluations.csv"
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
        if absent := [name for name in COLUMNS if name not in table]:
            raise ValueError(f"it lacks the column {absent[0]}")
        for name in table.columns:
            if name in TEXT:
                table[name] = table[name].map(csv_text)
            elif name == "training_free":
                table[name] = table[name] == "True"
            else:
                kind = int if name in ("seed", "data_seed") else float
                table[name] = [kind(text) if text else math.nan for text in table[name]]
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} can't be read ({str(error).splitlines()[0]}); delete it and evaluate again") from None
    return table


def points(grid: Any) -> int:
    """Along the first axis of ``128x128``."""
    return int(str(grid).partition("x")[0])


def _sorted(table: pd.DataFrame) -> pd.DataFrame:
    further = sorted(name for name in table.columns if name not in COLUMNS)
    ordered = table.assign(grid_points=table["grid"].map(points)).sort_values(ORDER, na_position="last", kind="stable")
    return ordered[[*COLUMNS, *further]].reset_index(drop=True)


def to_markdown(table: pd.DataFrame) -> str:
    """One table for each condition."""
    from tabulate import tabulate

    parts = ["# Evaluations", "Trained models on other data, without training. Made by `pdebench-hss evaluate`."]
    for (task, grid, seed), rows in table.groupby(["evaluated_on", "grid", "data_seed"], sort=False):
        samples = rows["n_samples"].dropna()
        count = f" · {int(samples.max())} samples" if len(samples) else ""
        about = f"{markdown(measure_of(rows))} · data seed {seed}{count}"
        lines = [[markdown(cell) for cell in display_row(row)] for _, row in rows.iterrows()]
        parts += [f"## `{code(task)}` on {markdown(grid)}", about]
        parts.append(tabulate(lines, headers=HEADERS, tablefmt="github", disable_numparse=True))
    return "\n\n".join(parts) + "\n"


def measure_of(rows: pd.DataFrame) -> str:
    """The metric of a table's errors, and of its ratios where that is another one."""
    metric = str(rows["metric"].iloc[0])
    return metric if metric == RELATIVE else f"{metric}; ratio: of {RELATIVE}"


RELATIVE = "relative_l2"
HEADERS = ["model", "seed", "trained on", "error", "95 % interval", "where it was trained", "ratio", ""]


def display_row(row: pd.Series) -> list[str]:
    error, known = row["test_err"], pd.notna(row["test_err"])
    return [
        str(row["model"]),
        str(row["seed"]),
        f"{row['trained_on']} {row['trained_grid']}",
        format_error(error) if known else "–",
        f"[{format_error(row['err_low'])}, {format_error(row['err_high'])}]" if pd.notna(row["err_low"]) else "",
        format_error(row["trained_err"]),
        f"×{row['relative_l2'] / row['trained_relative_l2']:.3g}" if known and row["trained_relative_l2"] > 0 else "",
        _note(row),
    ]


def _note(row: pd.Series) -> str:
    if row["status"] != Status.OK:
        return str(row["reason"]) if row["status"] == Status.SKIPPED else f"{row['status']}: {row['reason']}"
    return "interpolated to its own grid and back" if row["how"] == "interpolated" else ""
