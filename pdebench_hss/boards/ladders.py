"""Ladders: the same model on the same task at several budgets of one kind. Is it converged, and who overtakes whom?

Change      error at a budget / error at the next smaller one - 1, for the factor that lies between the two
Converged   a doubling of the budget still lowers the error by less than `STILL`: with e the error, e' the one before
            and f the factor between their budgets,

                (e / e') ^ (1 / log2 f)  >=  1 - STILL

            It is measured on the rung below, not promised for the one above.
Crossings   one model is ahead at a budget, another at a larger one, and at both their 95 % intervals don't meet. The
            budget at which they are level is read off straight lines between the rungs, both axes logarithmic.

All functions take a leaderboard (`frames.leaderboard`) and change nothing. A rung counts if all its seeds ended well.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..contract.budget import parse_budget

STILL = 0.05
# Rows that share these are compared; together with the budget they are the columns of `frames.GROUP`.
SAME = ["task", "scale", "n_train", "params_target", "data_id", "device"]
COLUMNS = ["budget_factor", "budget_change", "converged"]
LEVEL_COLUMNS = [*SAME, "budget", "model", "metric", "test_err_mean", "training_free"]


@dataclass(frozen=True)
class Crossing:
    """``winner`` is ahead of ``loser`` from about the budget ``at`` on (of a kind: core_seconds, steps, ...)."""

    task: str
    winner: str
    loser: str
    at: float
    kind: str


def with_rungs(board: pd.DataFrame) -> pd.DataFrame:
    """The board with the kind and the amount of each row's budget as the columns ``kind`` and ``amount``."""
    budgets = {text: parse_budget(text) for text in board["budget"].unique()}
    amounts = board["budget"].map({text: float(budget.amount) for text, budget in budgets.items()})
    return board.assign(kind=board["budget"].map({t: b.kind for t, b in budgets.items()}), amount=amounts)


def has_ladders(board: pd.DataFrame) -> bool:
    """Whether any model was run on a task at several budgets of one kind."""
    if board["budget"].nunique() < 2:
        return False
    return bool(with_rungs(board).duplicated([*SAME, "model", "kind"]).any())


def with_changes(board: pd.DataFrame, higher_is_better: bool = False) -> pd.DataFrame:
    """The board with `COLUMNS` if it has ladders: what the last step of the ladder changed, for each trained row."""
    if not has_ladders(board):
        return board
    found = {column: pd.Series(np.nan, index=board.index, dtype=object) for column in COLUMNS}
    trained = with_rungs(board)[~board["training_free"].astype(bool)]
    for _, ladder in trained.groupby([*SAME, "model", "kind"], sort=False, dropna=False):
        ordered = ladder.sort_values("amount")
        for (_, before), (row, after) in itertools.pairwise(ordered.iterrows()):
            if pd.notna(before["rank"]) and pd.notna(after["rank"]):
                factor = after["amount"] / before["amount"]
                ratio = _ratio(after["test_err_mean"], before["test_err_mean"])
                found["budget_factor"][row], found["budget_change"][row] = factor, ratio - 1.0
                found["converged"][row] = is_converged(1.0 / ratio if higher_is_better and ratio else ratio, factor)
    numbers = {column: found[column].astype(float) for column in COLUMNS[:2]}
    return board.assign(**numbers, converged=found["converged"].map({True: "yes", False: "no"}))


def _ratio(after: float, before: float) -> float:
    """Of two errors; what was exact already can only stay."""
    return after / before if before > 0 else 1.0


def is_converged(ratio: float, factor: float) -> bool:
    """Of an error that a factor of the budget multiplied by ``ratio``."""
    return ratio ** (1.0 / math.log2(factor)) >= 1.0 - STILL


def change_text(row: pd.Series) -> str:
    """``no (−39 % by ×4)``; empty where there is no smaller budget to compare with."""
    change = row.get("budget_change")
    if change is None or pd.isna(change):
        return ""
    percent = f"{100 * change:+.0f}".replace("-", "−")
    return f"{row['converged']} ({percent} % by ×{row['budget_factor']:.3g})"


def top(board: pd.DataFrame) -> pd.DataFrame:
    """The rows at the largest budget of each ladder: one table per task. A board without ladders stays as it is."""
    if not has_ladders(board):
        return board
    rungs = with_rungs(board)
    largest = rungs.groupby([*SAME, "kind"], dropna=False)["amount"].transform("max")
    return board[rungs["amount"] == largest]


def ladder_groups(board: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The rows of each ladder, all models of it together, with their rungs; tables of one budget are left out."""
    if has_ladders(board):
        for _, group in with_rungs(board).groupby([*SAME, "kind"], sort=False, dropna=False):
            if group["amount"].nunique() > 1:
                yield group


def with_levels(group: pd.DataFrame, levels: pd.DataFrame | None) -> pd.DataFrame:
    """A ladder with the levels of its classical solver (`frames.solver_levels`) as further rows, alike on every rung.

    The level that the solver's own row has is not repeated.
    """
    if levels is None or levels.empty:
        return group
    first = group.iloc[0]
    mine = levels[np.logical_and.reduce([_alike(levels[column], first[column]) for column in SAME])]
    mine = mine[mine["budget"].isin(group["budget"]) & ~mine["chosen"]].drop_duplicates(["model", "budget"])
    if mine.empty:
        return group
    columns = [*LEVEL_COLUMNS, "kind", "amount"]
    more = with_rungs(mine)[columns].assign(rank=1, status="ok", reason="", n_seeds=1, n_expected=1)
    return pd.concat([group, more], ignore_index=True)


def _alike(column: pd.Series, value: Any) -> pd.Series:
    return column.isna() if pd.isna(value) else column == value


def crossings(group: pd.DataFrame) -> list[Crossing]:
    """The crossings of one ladder (`ladder_groups`), the earliest first. Two closed forms don't cross."""
    complete = group[group["rank"].notna() & (group["test_err_mean"] > 0)]
    lines = {model: rows.set_index("amount") for model, rows in complete.groupby("model", sort=True)}
    found = []
    for (one, first), (two, second) in itertools.combinations(lines.items(), 2):
        if bool(first["training_free"].all() and second["training_free"].all()):
            continue
        both = sorted(set(first.index) & set(second.index))
        for winner, at in _crossed(first.loc[both], second.loc[both]):
            ahead, behind = (one, two) if winner < 0 else (two, one)
            found.append(Crossing(str(group["task"].iloc[0]), str(ahead), str(behind), at, group["kind"].iloc[0]))
    return sorted(found, key=lambda crossing: (crossing.at, crossing.winner, crossing.loser))


def _crossed(first: pd.DataFrame, second: pd.DataFrame) -> Iterator[tuple[int, float]]:
    """Where the order of two models turns: who is ahead afterwards (-1: the first) and at which budget."""
    apart = [_sign(a, b) for (_, a), (_, b) in zip(first.iterrows(), second.iterrows(), strict=True)]
    told = [rung for rung, sign in enumerate(apart) if sign]
    for before, after in itertools.pairwise(told):
        if apart[before] != apart[after]:
            amounts = np.log(first.index.to_numpy(float)[before : after + 1])
            errors = (np.log(line["test_err_mean"].to_numpy(float)[before : after + 1]) for line in (first, second))
            yield apart[after], float(np.exp(_level(amounts, np.subtract(*errors))))


def _sign(a: pd.Series, b: pd.Series) -> int:
    """-1 if the first is ahead, 1 if the second is, 0 if their intervals meet."""
    if _bound(a, "err_high") < _bound(b, "err_low"):
        return -1
    return 1 if _bound(b, "err_high") < _bound(a, "err_low") else 0


def _bound(row: pd.Series, column: str) -> float:
    return float(row[column]) if pd.notna(row[column]) else float(row["test_err_mean"])


def _level(x: np.ndarray, difference: np.ndarray) -> float:
    """Where a broken line that ends on the other side than it began first meets zero for good."""
    turn = int(np.nonzero(np.sign(difference) != np.sign(difference[-1]))[0][-1])
    low, high = difference[turn], difference[turn + 1]
    return float(x[turn] + (x[turn + 1] - x[turn]) * low / (low - high))


def crossing_lines(found: Sequence[Crossing]) -> list[str]:
    """A line for each model that overtakes: ``mine overtakes mean at about 12, yours at about 31 core-seconds``."""
    by_winner: dict[str, list[Crossing]] = {}
    for crossing in found:
        by_winner.setdefault(crossing.winner, []).append(crossing)
    return [
        f"{winner} overtakes {', '.join(f'{c.loser} at about {_about(c.at)}' for c in own)} {unit_of(own[0].kind)}"
        for winner, own in by_winner.items()
    ]


def _about(amount: float) -> str:
    """Two digits, without an exponent where people write none: 110 and not 1.1e+02."""
    return f"{float(f'{amount:.2g}'):g}"


def unit_of(kind: str) -> str:
    return {"core_seconds": "core-seconds", "flops": "FLOPs"}.get(kind, kind)
