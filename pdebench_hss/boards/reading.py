"""Boards from disk: a directory of records, a results table or a leaderboard, possibly edited by somebody.

A CSV file that was edited, converted by a spreadsheet, cut short or written by another version is refused with one line
that names the file, the line and the problem. Nothing is guessed: a decimal comma read as a thousands separator would
multiply an error by a thousand. Reading never writes.
"""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd

from ..base.errors import UsageError
from ..base.plain_text import csv_text
from ..contract.metric import MetricSpec
from ..trials.status import Status
from ..trials.store import Store
from . import trust
from .frames import GROUP, LEADERBOARD_COLUMNS, OPTIONAL, RESULTS_COLUMNS, leaderboard, solver_levels
from .ladders import COLUMNS as LADDER_COLUMNS
from .metric_view import left_out, seen_by
from .writing import read_records, sorted_results

# A row needs these columns; the others may be missing and are then unknown.
COMMON = ["task", "model", "scale", "budget", "n_train", "metric", "status", "data_hash"]
NEEDED = {
    "results": [*COMMON, "seed", "test_err"],
    "leaderboard": [*COMMON, "test_err_mean", "test_err_std", "n_seeds"],
}
TEXT = {"key", "task", "equation", "model", "scale", "budget", "metric", "status", "reason", "data_hash", "hardware"}
TEXT |= {"data_id", "device", "training", "tuned_options", "converged", "deterministic", *trust.COLUMNS}
WHOLE = ("seed", "n_train", "n_seeds")
NUMBERS = {*RESULTS_COLUMNS, *LEADERBOARD_COLUMNS, *OPTIONAL, *LADDER_COLUMNS} - TEXT - {"training_free"}


@dataclass(frozen=True)
class BoardFile:
    """A board as it was found.

    results   one row per trial; None if only a leaderboard was at hand
    summary   one row per task and model
    samples   errors of each test sample by key of the trial; empty without records
    absent    if it was read through a metric: the tasks on which no trial has it
    levels    of the classical solver (`frames.solver_levels`); None without records
    """

    name: str
    summary: pd.DataFrame
    results: pd.DataFrame | None = None
    samples: Mapping[str, np.ndarray] = field(default_factory=dict)
    absent: tuple[str, ...] = ()
    levels: pd.DataFrame | None = None


def read_board(source: str | Path | pd.DataFrame, name: str = "", metric: MetricSpec | None = None) -> BoardFile:
    """A board from a directory, a CSV file, or a table in memory; through ``metric`` if one is given."""
    if isinstance(source, pd.DataFrame):
        name = name or "table"
        _check(name, source, [f"row {number}" for number in range(len(source))])
        return _from_table(source, name, metric)
    path, name = Path(source), name or str(source)
    if path.is_file():
        return _from_table(read_csv(path, metric), name, metric)
    if not path.is_dir():
        raise UsageError(f"{path}: no such file or directory")
    store = Store(path)
    if store.keys():
        records, samples = read_records(store, metric.name if metric else "test_err")
        return replace(_board(name, sorted_results(records), samples, metric), levels=solver_levels(records))
    for table in ("results.csv", "leaderboard.csv"):
        if (path / table).is_file():
            return _from_table(read_csv(path / table, metric), name, metric)
    raise UsageError(
        f"{path} holds neither records nor results.csv nor leaderboard.csv; was it written by `run --out`?"
    )


def _board(name: str, results: pd.DataFrame, samples: Mapping[str, np.ndarray], metric: MetricSpec | None) -> BoardFile:
    if metric is None:
        return BoardFile(name, leaderboard(results, samples), results, samples)
    absent = tuple(left_out(results, metric))
    results = seen_by(results, metric, name)
    summary = leaderboard(results, samples, higher_is_better=metric.higher_is_better)
    return BoardFile(name, summary, results, samples, absent)


def _from_table(table: pd.DataFrame, name: str, metric: MetricSpec | None) -> BoardFile:
    if _kind(table.columns) == "leaderboard":
        if metric is not None:
            raise UsageError(f"{name} is a leaderboard, which has one metric; give its directory or its results.csv")
        return BoardFile(name, table)
    results = table.reindex(columns=[*table.columns, *(c for c in RESULTS_COLUMNS if c not in table)])
    results["training_free"] = results["training_free"].fillna(False).astype(bool)
    return _board(name, results, {}, metric)


def read_csv(path: Path, metric: MetricSpec | None = None) -> pd.DataFrame:
    """A results or leaderboard table, checked line by line."""
    (_, header), *rows = _rows(path)
    labels = [f"line {line}" for line, _ in rows]
    table = pd.DataFrame([fields for _, fields in rows], columns=header)
    for column in header:
        if column in NUMBERS or (metric is not None and column == metric.name):
            table[column] = _numbers(path, column, table[column], labels)
        elif column in TEXT:
            table[column] = table[column].map(csv_text).where(table[column] != "", None)
    if "training_free" in table:
        table["training_free"] = table["training_free"] == "True"
    _check(str(path), table, labels)
    return table


def _rows(path: Path) -> list[tuple[int, list[str]]]:
    """Line numbers and fields, the header first; all of one length."""
    try:
        text = path.read_text(encoding="utf-8-sig")  # spreadsheets write a byte-order mark
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise UsageError(f"{path} can't be read: {reason}") from None
    reader = csv.reader(io.StringIO(text))
    try:
        rows = [(reader.line_num, fields) for fields in reader if fields]
    except csv.Error as error:
        raise UsageError(f"{path}, line {reader.line_num}: not CSV ({error})") from None
    if not rows:
        raise UsageError(f"{path} is empty")
    header = rows[0][1]
    if len(header) == 1 and (";" in header[0] or "\t" in header[0]):
        raise UsageError(f"{path} is separated by {'semicolons' if ';' in header[0] else 'tabs'}; save it with commas")
    repeated = [column for column, count in Counter(header).items() if count > 1]
    if repeated:
        raise UsageError(f"{path} has the column {repeated[0]!r} twice")
    for line, fields in rows:
        if len(fields) != len(header):
            raise UsageError(
                f"{path}, line {line}: {len(fields)} fields under a header of {len(header)}; the file is cut short, or "
                "numbers are written with decimal commas"
            )
    return rows


def _numbers(path: Path, column: str, values: pd.Series, labels: list[str]) -> pd.Series:
    numbers = []
    for label, text in zip(labels, values, strict=True):
        try:
            numbers.append(float(text) if text != "" else math.nan)
        except ValueError:
            hint = "; write decimal points" if "," in text else ""
            raise UsageError(f"{path}, {label}: {column} is {text!r}, not a number{hint}") from None
        if column in WHOLE and not numbers[-1].is_integer():
            raise UsageError(f"{path}, {label}: {column} is {text!r}, not a whole number")
    return pd.Series(numbers, index=values.index, dtype=int if column in WHOLE else float)


def _kind(columns: Iterable[str]) -> str:
    return "leaderboard" if "test_err_mean" in columns else "results"


def _check(name: str, table: pd.DataFrame, labels: list[str]) -> None:
    """Required columns are there, there are rows, cells are unique, statuses are known, every ok row has an error."""
    kind = _kind(table.columns)
    absent = [column for column in NEEDED[kind] if column not in table]
    if absent:
        raise UsageError(
            f"{name} lacks the column{'s' * (len(absent) > 1)} {', '.join(absent)}: not a table of pdebench-hss, or of "
            "another version. Rebuild it from its records: pdebench-hss leaderboard DIRECTORY"
        )
    if table.empty:
        raise UsageError(f"{name} has a header and no rows")
    identity = [c for c in [*GROUP, "model", *(["seed"] if kind == "results" else [])] if c in table]
    seen: dict[tuple[str, ...], str] = {}
    for label, (_, row) in zip(labels, table.iterrows(), strict=True):
        _check_row(f"{name}, {label}", kind, row)
        place = tuple(str(row[column]) for column in identity)
        if place in seen:
            cell = f"{row['task']}, {row['model']}"
            raise UsageError(f"{name}: {seen[place]} and {label} are the same cell ({cell}); keep one")
        seen[place] = label


def _check_row(where: str, kind: str, row: pd.Series) -> None:
    status, column = row["status"], "test_err" if kind == "results" else "test_err_mean"
    if status not in tuple(Status):
        raise UsageError(f"{where}: no status {status!r}; known: {', '.join(Status)}")
    claimed = status == Status.OK or (kind == "leaderboard" and row["n_seeds"] > 0)
    error = row[column]
    if claimed and not (math.isfinite(error) and error >= 0):
        value = "empty" if math.isnan(error) else error
        raise UsageError(f"{where} ({row['task']}, {row['model']}): {column} is {value}, but the status is {status}")
    if kind == "leaderboard":
        _check_spread(where, row)


def _check_spread(where: str, row: pd.Series) -> None:
    """A standard deviation is empty if it is unknown, otherwise a number of at least 0."""
    seeds, std = row["n_seeds"], row["test_err_std"]
    if seeds < 0:
        raise UsageError(
            f"{where} ({row['task']}, {row['model']}): n_seeds is {seeds:g}; it must be a count of 0 or more"
        )
    if std < 0 or math.isinf(std):
        raise UsageError(
            f"{where} ({row['task']}, {row['model']}): test_err_std is {std:g}; a standard deviation is 0 or more, "
            "or empty if unknown"
        )
