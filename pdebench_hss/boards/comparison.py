"""Compare boards cell by cell: which changes are real, which are noise, and what is missing on either side.

The first board is the reference. A cell is a task and a model; if a board has a cell in several settings (budgets,
train sizes, ...), the columns that differ belong to the cell too. Boards are comparable if metric, scale and the
content of the data agree; anything else is refused unless forced. Times are compared only on one kind of machine.

The change of a cell is that of the error of a typical seed (the geometric mean over seeds), with its interval from
`intervals`: paired over test samples and seeds where both are known. Which changes are real is decided by `verdicts`,
among all cells at once. The two errors of a row are the boards' own (arithmetic) means, as on their leaderboards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..base.errors import UsageError
from ..contract.budget import CLOCKS
from ..trials.status import Status
from .frames import GROUP, YES, is_deterministic, seed_errors
from .intervals import Errors
from .reading import BoardFile
from .verdicts import (
    ALPHA,
    BROKE,
    DIVERGES_MORE,
    MENDED,
    NOISE,
    NOT_KNOWN,
    ONE_SEED,
    UNKNOWN,
    WORSE,
    Finding,
    Outcome,
    decide,
    examine,
)

UNJUDGED = (ONE_SEED, UNKNOWN)
BROKEN = (Status.FAILED, Status.TIMEOUT, Status.OUT_OF_MEMORY)  # unlike divergence, not the luck of a seed
ONLY_REFERENCE, ONLY_OTHER, NEITHER = "only in the first", "not in the first", "in neither"

CELL = ["task", "model"]
MUST_AGREE = {"metric": "metric", "scale": "scale", "data_hash": "data"}
MAY_DIFFER = ["budget", "n_train", "params_target", "device"]  # worth a note
VALUES = [
    *("metric", "reference_err", "err", "change", "low", "high", "p_value", "p_adjusted", "verdict", "basis"),
    *("reference_seeds", "seeds", "reference_status", "status", "reason", "fit_change", "predict_change"),
    *("reference_diverged", "diverged"),
]


class ComparisonWarning(UserWarning):
    """Something a reader of a comparison should know."""


@dataclass(frozen=True)
class Comparison:
    """What came out.

    reference   the name of the first board
    table       one row per cell and compared board
    cell        the columns that name a cell
    notes       what a reader must know to judge the table
    higher      whether larger values are better
    """

    reference: str
    table: pd.DataFrame
    cell: list[str]
    notes: list[str]
    higher: bool = False

    def regressions(self, tolerance: float) -> pd.DataFrame:
        """Cells that broke, diverge more often, or whose error rose by more than the tolerance, beyond noise."""
        table = self.table
        change = -table["change"] if self.higher else table["change"]
        risen = (change > tolerance) & (table["verdict"] == WORSE)
        return table[risen | table["verdict"].isin([BROKE, DIVERGES_MORE])]

    def unjudged(self) -> pd.DataFrame:
        """Cells with results on both sides that don't show whether anything changed."""
        return self.table[self.table["verdict"].isin(UNJUDGED)]


def compare(
    boards: Sequence[BoardFile],
    *,
    force: bool = False,
    same_weights: bool = False,
    higher: bool = False,
) -> Comparison:
    """Compare every further board with the first.

    force           compare even if data, metric, scale or machine differ
    higher          the boards were read through a metric whose larger values are better
    same_weights    both boards evaluated the same trained models: only test samples are noise
    """
    if len(boards) < 2:
        raise UsageError(f"nothing to compare: {len(boards)} board given, at least 2 needed")
    cell = _cell_columns(boards)
    parts, notes = [], []
    for other in boards[1:]:
        table, remarks = _compare_two(boards[0], other, cell, force, same_weights, higher)
        parts.append(table)
        notes += [f"{other.name}: {remark}" for remark in remarks] if len(boards) > 2 else remarks
    return Comparison(boards[0].name, pd.concat(parts, ignore_index=True), cell, notes, higher)


def _cell_columns(boards: Sequence[BoardFile]) -> list[str]:
    """Task and model, and further columns needed to tell a board's own rows apart."""
    columns = [*CELL]
    for column in (c for c in GROUP if c not in CELL):
        if any(_several_ways(board.summary, column) for board in boards):
            columns.append(column)
    return columns


def _several_ways(summary: pd.DataFrame, column: str) -> bool:
    return column in summary and bool((summary.groupby(CELL)[column].nunique(dropna=False) > 1).any())


def _compare_two(
    reference: BoardFile, other: BoardFile, cell: list[str], force: bool, same_weights: bool, higher: bool
) -> tuple[pd.DataFrame, list[str]]:
    a, b = _by_cell(reference, cell), _by_cell(other, cell)
    common = [place for place in a if place in b]
    if not common:
        raise UsageError(
            f"{reference.name} and {other.name} have no cell in common: {_contents(reference)}; {_contents(other)}"
        )
    differing = [place for place in common if _disagreements(a[place].row, b[place].row)]
    if differing and not force:
        raise UsageError(_refusal(reference, other, differing, a, b))
    places = [*a, *(place for place in b if place not in a)]
    findings = decide([_examine(a.get(place), b.get(place), same_weights) for place in places], higher=higher)
    rows = []
    for place, found in zip(places, findings, strict=True):
        row = {"board": other.name, **dict(zip(cell, place, strict=True))}
        rows.append(row | _row(a.get(place), b.get(place), found, force))
    table = pd.DataFrame(rows, columns=["board", *cell, *VALUES])
    pairs = [(a[place], b[place]) for place in common]
    notes = _notes_on_boards(pairs, cell, force, bool(differing))
    return table, [*notes, *_notes_on_seeds(pairs), *_notes_on_verdicts(table, findings, same_weights)]


@dataclass(frozen=True)
class Side:
    """A cell of one board.

    row        its row of the leaderboard
    outcome    how its seeds ended
    broken     a seed failed for a reason that is not the luck of a seed
    empty      how many seeds are "ok" without a finite error; they count as diverged
    """

    row: pd.Series
    outcome: Outcome
    broken: bool
    empty: int = 0


def _by_cell(board: BoardFile, cell: list[str]) -> dict[tuple[Any, ...], Side]:
    if (board.summary["test_err_mean"] < 0).any():
        name = board.summary["metric"].iloc[0]
        raise UsageError(f"{name} has values below zero on {board.name}: changes are compared as ratios")
    columns = {*GROUP, *cell, "hardware", "fit_seconds", "predict_ms", "reason", "n_expected"}
    columns |= {"training_free", "deterministic"}
    whole = board.summary.reindex(columns=[*board.summary.columns, *columns.difference(board.summary.columns)])
    rows = {place: row for place, (_, row) in zip(_places(whole, cell), whole.iterrows(), strict=True)}
    if board.results is None:
        return {place: _side_of_summary(row) for place, row in rows.items()}
    results = board.results.reindex(columns=[*{*board.results.columns, *cell}])
    trials: dict[tuple[Any, ...], list[int]] = {}
    for number, place in enumerate(_places(results, cell)):
        trials.setdefault(place, []).append(number)
    return {place: _side_of_trials(row, results.iloc[trials[place]], board) for place, row in rows.items()}


def _side_of_summary(row: pd.Series) -> Side:
    """From a leaderboard, which has the first status that is not ok and the number of seeds that ended well."""
    seeds = int(row["n_seeds"])
    errors = Errors(row["test_err_mean"], row["test_err_std"], seeds) if seeds > 0 else None
    lost = int(row["n_expected"]) - seeds if pd.notna(row["n_expected"]) else int(not seeds)
    diverged = lost if row["status"] == Status.DIVERGED else 0
    seedless = (pd.notna(row["training_free"]) and bool(row["training_free"])) or row["deterministic"] == YES
    return Side(row, Outcome(errors, diverged, seedless), row["status"] in BROKEN)


def _side_of_trials(row: pd.Series, trials: pd.DataFrame, board: BoardFile) -> Side:
    ok = trials["status"] == Status.OK
    finite = ok & np.isfinite(trials["test_err"].astype(float))
    errors = seed_errors(trials[finite], board.samples) if finite.any() else None
    empty = int((ok & ~finite).sum())
    diverged = empty + int((trials["status"] == Status.DIVERGED).sum())
    seedless = bool(trials["training_free"].any() or is_deterministic(trials).any())
    outcome = Outcome(errors, diverged, seedless)
    return Side(row, outcome, bool(trials["status"].isin(BROKEN).any()), empty)


def _places(table: pd.DataFrame, cell: list[str]) -> list[tuple[Any, ...]]:
    """Names of cells; None instead of NaN, which is not equal to itself."""
    return [tuple(None if pd.isna(v) else v for v in values) for values in table[cell].itertuples(index=False)]


def _disagreements(a: pd.Series, b: pd.Series) -> list[str]:
    """The columns that forbid comparing two rows of one cell; a row without a result forbids nothing."""
    if not (a["n_seeds"] > 0 and b["n_seeds"] > 0):
        return []
    return [column for column in MUST_AGREE if _text(a[column]) != _text(b[column])]


def _text(value: Any) -> str:
    return "" if pd.isna(value) else str(value)


def _refusal(reference: BoardFile, other: BoardFile, differing: list[Any], a: Any, b: Any) -> str:
    place = differing[0]
    column = _disagreements(a[place].row, b[place].row)[0]
    values = [_text(side[place].row[column])[:12] or "unknown" for side in (a, b)]
    more = f", and {len(differing) - 1} more cells" if len(differing) > 1 else ""
    return (
        f"{reference.name} and {other.name} can't be compared: the {MUST_AGREE[column]} of {place[0]} differs "
        f"({values[0]} and {values[1]}){more}. Such errors are not comparable; --force compares them anyway"
    )


def _contents(board: BoardFile) -> str:
    tasks = sorted(set(board.summary["task"]))
    shown = ", ".join(tasks[:3]) + (", …" if len(tasks) > 3 else "")
    return f"{board.name} has {board.summary['model'].nunique()} models on {shown or 'nothing'}"


def _examine(a: Side | None, b: Side | None, same_weights: bool) -> Finding:
    """What is known of one cell; whether a change is real is decided later, for all cells together."""
    if a and b and a.broken != b.broken and (b if a.broken else a).outcome.tried:
        return Finding(NOT_KNOWN, MENDED if a.broken else BROKE)
    if not (a and a.outcome.tried and b and b.outcome.tried) or not (a.outcome.finite or b.outcome.finite):
        first, second = (bool(side and side.outcome.finite) for side in (a, b))
        return Finding(NOT_KNOWN, ONLY_REFERENCE if first else ONLY_OTHER if second else NEITHER)
    same_data = _text(a.row["data_hash"]) == _text(b.row["data_hash"])
    relative = a.row["metric"] == b.row["metric"] == "relative_l2"
    return examine(a.outcome, b.outcome, same_data=same_data, same_weights=same_weights, relative=relative)


def _row(a: Side | None, b: Side | None, found: Finding, force: bool) -> dict[str, Any]:
    """One row of the comparison."""
    change = found.change
    row: dict[str, Any] = {"reason": "", "verdict": found.verdict, "basis": change.basis}
    row |= {"change": change.change, "low": change.low, "high": change.high}
    row |= {"p_value": found.p_value, "p_adjusted": found.p_adjusted}
    for prefix, side in (("reference_", a), ("", b)):
        outcome = side.outcome if side else Outcome(None)
        row[f"{prefix}status"] = side.row["status"] if side else ""
        row[f"{prefix}seeds"] = outcome.finite
        row[f"{prefix}diverged"] = outcome.diverged
        row[f"{prefix}err"] = outcome.errors.mean if outcome.errors else math.nan
        if side:
            row["metric"] = side.row["metric"]
            row["reason"] = _text(side.row["reason"]) if side.row["status"] != Status.OK else row["reason"]
    if a and b and a.outcome.errors and b.outcome.errors and (force or _one_machine(a.row, b.row)):
        row["fit_change"] = _relative(a.row["fit_seconds"], b.row["fit_seconds"])
        row["predict_change"] = _relative(a.row["predict_ms"], b.row["predict_ms"])
    return row


def _one_machine(a: pd.Series, b: pd.Series) -> bool:
    return _text(a["hardware"]) == _text(b["hardware"]) != ""


def _on_a_clock(a: pd.Series, b: pd.Series) -> bool:
    """Whether training for the same time may mean a different number of steps."""
    timed = any(str(row["budget"]).partition("=")[0] in CLOCKS and not row["training_free"] for row in (a, b))
    return timed and not _one_machine(a, b)


def _relative(before: float, after: float) -> float:
    return after / before - 1 if before and before > 0 else math.nan


def _notes_on_boards(pairs: list[tuple[Side, Side]], cell: list[str], force: bool, unlike: bool) -> list[str]:
    """In what the boards differ."""
    notes = []
    if unlike:
        notes.append("forced: data, metric or scale differ, so the errors measure different things")
    for column in (c for c in MAY_DIFFER if c not in cell):
        differ = [(a.row, b.row) for a, b in pairs if _text(a.row[column]) != _text(b.row[column])]
        if differ:
            a, b = differ[0]
            values = f"{_text(a[column]) or 'none'} and {_text(b[column]) or 'none'}"
            notes.append(f"{column} differs in {_cells(len(differ))} (first: {a['task']}, {a['model']}: {values})")
    machines = [
        {_text(side.row["hardware"]) for side in sides if side.outcome.finite} for sides in zip(*pairs, strict=True)
    ]
    if machines[0] != machines[1]:
        names = " and ".join(", ".join(sorted(side)) or "none" for side in machines)
        notes.append(f"times {'compared' if force else 'left out'} across machines ({names})")
        if timed := [a.row for a, b in pairs if _on_a_clock(a.row, b.row)]:
            notes.append(
                f"{_cells(len(timed))} trained for a time that machines use differently (first: {timed[0]['task']}, "
                f"{timed[0]['model']}: {timed[0]['budget']}): a change may be the machine's"
            )
    return notes


def _notes_on_seeds(pairs: list[tuple[Side, Side]]) -> list[str]:
    """Which seeds are on one side only, diverged, or have no error."""
    notes = []
    both = [pair for pair in pairs if all(side.outcome.finite for side in pair)]
    noisy = [pair for pair in both if not all(side.outcome.repeats for side in pair)]
    if differ := [pair for pair in noisy if _seeds(pair[0]) != _seeds(pair[1])]:
        row = differ[0][0].row
        values = " and ".join(_seeds(side) for side in differ[0])
        notes.append(f"seeds differ in {_cells(len(differ))} (first: {row['task']}, {row['model']}: {values})")
    if lost := [pair for pair in pairs if any(side.outcome.diverged for side in pair)]:
        counts = " and ".join(f"{side.outcome.diverged} of {side.outcome.tried}" for side in lost[0])
        row = lost[0][0].row
        notes.append(
            f"seeds diverged in {_cells(len(lost))} (first: {row['task']}, {row['model']}: {counts}): rates of "
            "divergence are compared, and the errors of the seeds that ended well"
        )
    if empty := [side for pair in pairs for side in pair if side.empty]:
        row = empty[0].row
        notes.append(
            f"{sum(side.empty for side in empty)} seeds are ok and have no finite error; they count as diverged "
            f"(first: {row['task']}, {row['model']})"
        )
    return notes


def _seeds(side: Side) -> str:
    """The seeds that ended well; only their number, if they are not known."""
    errors = side.outcome.errors
    assert errors is not None
    return ", ".join(map(str, sorted(errors.by_seed))) if errors.by_seed else f"{errors.n_seeds} seeds"


def _notes_on_verdicts(table: pd.DataFrame, findings: list[Finding], same_weights: bool) -> list[str]:
    """What the verdicts are based on, and why some cells have none."""
    notes = []
    compared = table[table["p_value"].notna()]
    by_samples = int((compared["basis"] == "samples").sum())
    if by_samples and same_weights:
        notes.append(f"same weights: {_cells(by_samples)} compared over test samples only, not over training runs")
    elif by_samples:
        notes.append(f"{_cells(by_samples)} of closed forms compared over test samples, as no seed changes them")
    if blind := int((compared["basis"] == "seeds").sum()):
        notes.append(f"{_cells(blind)}: no errors by sample (records have them), so intervals cover seeds only")
    if single := int((table["verdict"] == ONE_SEED).sum()):
        notes.append(
            f"{_cells(single)} with one seed: the variation between trainings is unknown. Run more seeds; if both "
            "boards have the same weights, --same-weights compares over test samples"
        )
    if unknown := int((table["verdict"] == UNKNOWN).sum()):
        few = sum(found.alone and found.verdict == UNKNOWN for found in findings)
        why = [f"{few} with too few seeds that ended well"] * bool(few)
        why += [f"{unknown - few} without seeds or samples to measure noise by"] * (unknown > few)
        notes.append(f"{_cells(unknown)} can't be told: {', '.join(why)}")
    alone = sum(found.verdict == NOISE and found.p_value <= ALPHA for found in findings)
    if alone:
        changes = f"{alone} change{'s' * (alone != 1)}"
        notes.append(f"{changes} would stand alone, but not among {len(compared)} compared at once")
    return notes


def _cells(count: int) -> str:
    return f"{count} cell{'s' * (count != 1)}"
