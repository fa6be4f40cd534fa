"""Compare boards cell by cell: which changes are real, which are noise, and what is missing on either side.

The first board is the reference. A cell is a task and a model; where a board has a cell in several ways (budgets, train
sizes, ...), what tells them apart belongs to the cell too. Boards are comparable where metric, scale and the content
of the data agree; anything else is refused unless forced. Times are compared only on one kind of machine.

A change is the ratio of the two test errors minus 1, with its interval and p-value from `intervals`: paired over test
samples and seeds where both are known. Many cells are compared at once, so p-values are adjusted (Benjamini and
Hochberg): of the changes called ``better`` or ``worse``, 5 % are expected to be false.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from .board_files import BoardFile
from .errors import UsageError
from .intervals import Errors, change_interval
from .records import OK, SKIPPED
from .tables import GROUP, seed_errors

ALPHA = 0.05
BETTER, WORSE, NOISE, IDENTICAL = "better", "worse", "within noise", "identical"
UNKNOWN = "can't tell"  # one seed each and no errors by sample: no measure of noise
BROKE, MENDED = "broke", "mended"
ONLY_REFERENCE, ONLY_OTHER, NEITHER = "only in the first", "not in the first", "in neither"

CELL = ["task", "model"]
MUST_AGREE = {"metric": "metric", "scale": "scale", "data_hash": "data"}
MAY_DIFFER = ["budget", "n_train", "params_target", "device"]  # worth a note
VALUES = [
    *("metric", "reference_err", "err", "change", "low", "high", "p_value", "p_adjusted", "verdict", "basis"),
    *("reference_seeds", "seeds", "reference_status", "status", "reason", "fit_change", "predict_change"),
]


class ComparisonWarning(UserWarning):
    """Something a reader of a comparison should know."""


@dataclass(frozen=True)
class Comparison:
    """What came out.

    reference   the name of the first board
    table       one row per cell and compared board
    cell        the columns that name a cell
    notes       what a reader must know to believe the table
    """

    reference: str
    table: pd.DataFrame
    cell: list[str]
    notes: list[str]

    def regressions(self, tolerance: float) -> pd.DataFrame:
        """Cells that broke, or whose error rose by more than the tolerance and not by noise (as far as is known)."""
        table = self.table
        risen = (table["change"] > tolerance) & table["verdict"].isin([WORSE, UNKNOWN])
        return table[risen | (table["verdict"] == BROKE)]


def compare(boards: Sequence[BoardFile], *, force: bool = False) -> Comparison:
    """Compare every further board with the first."""
    if len(boards) < 2:
        raise UsageError(f"nothing to compare: {len(boards)} board given, at least 2 needed")
    cell = _cell_columns(boards)
    parts, notes = [], []
    for other in boards[1:]:
        table, remarks = _compare_two(boards[0], other, cell, force)
        parts.append(table)
        notes += [f"{other.name}: {remark}" for remark in remarks] if len(boards) > 2 else remarks
    return Comparison(boards[0].name, pd.concat(parts, ignore_index=True), cell, notes)


def _cell_columns(boards: Sequence[BoardFile]) -> list[str]:
    """Task and model, and what else is needed to tell a board's own rows apart."""
    columns = [*CELL]
    for column in (c for c in GROUP if c not in CELL):
        if any(_several_ways(board.summary, column) for board in boards):
            columns.append(column)
    return columns


def _several_ways(summary: pd.DataFrame, column: str) -> bool:
    return column in summary and bool((summary.groupby(CELL)[column].nunique(dropna=False) > 1).any())


def _compare_two(
    reference: BoardFile, other: BoardFile, cell: list[str], force: bool
) -> tuple[pd.DataFrame, list[str]]:
    a, b = _by_cell(reference, cell), _by_cell(other, cell)
    common = [place for place in a if place in b]
    if not common:
        raise UsageError(
            f"{reference.name} and {other.name} have no cell in common: {_contents(reference)}; {_contents(other)}"
        )
    differing = [place for place in common if _disagreements(a[place], b[place])]
    if differing and not force:
        raise UsageError(_refusal(reference, other, differing, a, b))
    errors_a, errors_b = _errors(reference, cell), _errors(other, cell)
    rows = []
    for place in [*a, *(place for place in b if place not in a)]:
        row = {"board": other.name, **dict(zip(cell, place))}
        row |= _judge(a.get(place), b.get(place), errors_a.get(place), errors_b.get(place), force)
        rows.append(row)
    table = _adjusted(pd.DataFrame(rows, columns=["board", *cell, *VALUES]))
    return table, _notes(table, [(a[place], b[place]) for place in common], cell, force, bool(differing))


def _by_cell(board: BoardFile, cell: list[str]) -> dict[tuple[Any, ...], pd.Series]:
    columns = {*GROUP, *cell, "hardware", "fit_seconds", "predict_ms", "reason"}
    whole = board.summary.reindex(columns=[*board.summary.columns, *columns.difference(board.summary.columns)])
    return {place: row for place, (_, row) in zip(_places(whole, cell), whole.iterrows())}


def _places(table: pd.DataFrame, cell: list[str]) -> list[tuple[Any, ...]]:
    """Names of cells; None instead of NaN, which is not equal to itself."""
    return [tuple(None if pd.isna(v) else v for v in values) for values in table[cell].itertuples(index=False)]


def _errors(board: BoardFile, cell: list[str]) -> dict[tuple[Any, ...], Errors]:
    """All that is known of each cell's errors, for cells that have any."""
    if board.results is None:
        rows = board.summary[board.summary["n_seeds"] > 0]
        values = rows[["test_err_mean", "test_err_std", "n_seeds"]].itertuples(index=False)
        return {place: Errors(mean, std, int(n)) for place, (mean, std, n) in zip(_places(rows, cell), values)}
    good = board.results[board.results["status"] == OK].reindex(columns=[*{*board.results.columns, *cell}])
    by_cell: dict[tuple[Any, ...], list[int]] = {}
    for number, place in enumerate(_places(good, cell)):
        by_cell.setdefault(place, []).append(number)
    return {place: seed_errors(good.iloc[numbers], board.samples) for place, numbers in by_cell.items()}


def _disagreements(a: pd.Series, b: pd.Series) -> list[str]:
    """In what two rows of one cell must not be compared; rows without a result have nothing to disagree about."""
    if not (a["n_seeds"] > 0 and b["n_seeds"] > 0):
        return []
    return [column for column in MUST_AGREE if _text(a[column]) != _text(b[column])]


def _text(value: Any) -> str:
    return "" if pd.isna(value) else str(value)


def _refusal(reference: BoardFile, other: BoardFile, differing: list[Any], a: Any, b: Any) -> str:
    place = differing[0]
    column = _disagreements(a[place], b[place])[0]
    values = [_text(row[place][column])[:12] or "unknown" for row in (a, b)]
    more = f", and {len(differing) - 1} more cells" if len(differing) > 1 else ""
    return (
        f"{reference.name} and {other.name} can't be compared: the {MUST_AGREE[column]} of {place[0]} differs "
        f"({values[0]} and {values[1]}){more}. Errors of unlike things say nothing about models; --force goes on"
    )


def _contents(board: BoardFile) -> str:
    tasks = sorted(set(board.summary["task"]))
    shown = ", ".join(tasks[:3]) + (", …" if len(tasks) > 3 else "")
    return f"{board.name} has {board.summary['model'].nunique()} models on {shown or 'nothing'}"


def _judge(
    a: pd.Series | None, b: pd.Series | None, errors_a: Errors | None, errors_b: Errors | None, force: bool
) -> dict[str, Any]:
    """One row of the comparison; whether a change is real is decided later, among all of them."""
    known = next(row for row in (b, a) if row is not None)
    row: dict[str, Any] = {"metric": known["metric"], "reason": "", "basis": ""}
    for prefix, side, errors in (("reference_", a, errors_a), ("", b, errors_b)):
        row[f"{prefix}status"] = side["status"] if side is not None else ""
        row[f"{prefix}seeds"] = errors.n_seeds if errors else 0
        row[f"{prefix}err"] = errors.mean if errors else math.nan
        if side is not None and side["status"] != OK:
            row["reason"] = _text(side["reason"])
    row["verdict"] = _presence(a, b, errors_a, errors_b)
    if errors_a and errors_b and a is not None and b is not None:
        same_data = _text(a["data_hash"]) == _text(b["data_hash"])
        found = change_interval(errors_a, errors_b, same_data=same_data)
        row |= {"change": found.change, "low": found.low, "high": found.high}
        row |= {"p_value": found.p_value, "basis": found.basis}
        if row["verdict"] == "" and _identical(errors_a, errors_b):
            row |= {"verdict": IDENTICAL, "low": 0.0, "high": 0.0, "p_value": math.nan}
        if force or (_text(a["hardware"]) == _text(b["hardware"]) != ""):
            row["fit_change"] = _relative(a["fit_seconds"], b["fit_seconds"])
            row["predict_change"] = _relative(a["predict_ms"], b["predict_ms"])
    return row


def _presence(a: pd.Series | None, b: pd.Series | None, errors_a: Errors | None, errors_b: Errors | None) -> str:
    """The verdict where there is nothing, or more than numbers, to compare; empty otherwise."""
    fine_a, fine_b = (row is not None and row["status"] == OK for row in (a, b))
    tried_a, tried_b = (row is not None and row["status"] not in (OK, SKIPPED, "missing") for row in (a, b))
    if fine_a and tried_b:
        return BROKE
    if tried_a and fine_b:
        return MENDED
    if errors_a and errors_b:
        return ""
    return ONLY_REFERENCE if errors_a else ONLY_OTHER if errors_b else NEITHER


def _identical(a: Errors, b: Errors) -> bool:
    if a.by_seed and b.by_seed:
        return a.by_seed == b.by_seed
    return (a.mean, a.n_seeds) == (b.mean, b.n_seeds) and (a.std == b.std or math.isnan(a.std + b.std))


def _relative(before: float, after: float) -> float:
    return after / before - 1 if before and before > 0 else math.nan


def _adjusted(table: pd.DataFrame) -> pd.DataFrame:
    """Decide what is real, among everything that was compared at once."""
    open_ = table["verdict"] == ""
    tested = open_ & table["p_value"].notna()
    table.loc[tested, "p_adjusted"] = benjamini_hochberg(table.loc[tested, "p_value"].to_numpy(float))
    real = tested & (table["p_adjusted"] <= ALPHA)
    table.loc[open_ & ~tested, "verdict"] = UNKNOWN
    table.loc[tested & ~real, "verdict"] = NOISE
    table.loc[real, "verdict"] = np.where(table.loc[real, "change"] < 0, BETTER, WORSE)
    return table


def benjamini_hochberg(p_values: np.ndarray) -> np.ndarray:
    """Adjusted p-values: rejecting those below alpha keeps the expected share of false discoveries below alpha."""
    count = len(p_values)
    order = np.argsort(p_values)
    scaled = p_values[order] * count / np.arange(1, count + 1)
    adjusted = np.empty(count)
    adjusted[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return adjusted


def _notes(table: pd.DataFrame, pairs: list[Any], cell: list[str], force: bool, unlike: bool) -> list[str]:
    notes = []
    if unlike:
        notes.append("forced: data, metric or scale differ, and so do the errors' meanings")
    for column in (c for c in MAY_DIFFER if c not in cell):
        differ = [(a, b) for a, b in pairs if _text(a[column]) != _text(b[column])]
        if differ:
            a, b = differ[0]
            values = f"{_text(a[column]) or 'none'} and {_text(b[column]) or 'none'}"
            notes.append(f"{column} differs in {len(differ)} cells (first: {a['task']}, {a['model']}: {values})")
    compared = table[table["basis"].notna() & table["p_value"].notna()]
    if (few := int((compared["basis"] == "samples").sum())) > 0:
        notes.append(f"{few} cells have one seed: their intervals cover the test samples, not another training run")
    if (blind := int((compared["basis"] == "seeds").sum())) > 0:
        notes.append(f"{blind} cells have no errors by sample (records have them): their intervals cover seeds only")
    if (unknown := int((table["verdict"] == UNKNOWN).sum())) > 0:
        notes.append(f"{unknown} cells have neither seeds nor samples to tell noise by")
    alone = (table["verdict"] == NOISE) & ((table["low"] > 0) | (table["high"] < 0))
    if alone.any():
        notes.append(f"{int(alone.sum())} changes would stand alone, but not among {len(compared)} compared at once")
    machines = [{_text(row["hardware"]) for row in side if row["n_seeds"] > 0} for side in zip(*pairs)]
    if machines[0] != machines[1]:
        names = " and ".join(", ".join(sorted(side)) or "none" for side in machines)
        notes.append(f"times {'compared' if force else 'left out'} across machines ({names})")
    return notes
