"""How the trained rows of a board stand: what they beat, and whether they can be told from each other.

    ahead       its mean error is lower than that of every such row of the same table; a row that diverged or failed is
                behind all of them
    told apart  the 95 % interval of the ratio of two errors does not hold 1. Both have the same test samples and seeds,
                and are compared pair by pair (`intervals`); rows of one seed can't be told apart
    converged   see `ladders`

Of a ladder the largest budget counts. Which models are guesses or solvers is for the registry to say; other rows
without training are formulas.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..trials.status import Status
from .frames import GROUP, is_deterministic, seed_errors
from .intervals import Errors, change_interval
from .ladders import top
from .text import format_error
from .verdicts import ALPHA

GUESS, FORMULA, SOLVER = "guess", "formula", "classical solver"
CELL = [*GROUP, "model"]
NOT_RUN = [Status.SKIPPED.value, Status.MISSING.value]


@dataclass(frozen=True)
class Share:
    count: int
    of: int

    def __str__(self) -> str:
        return f"{self.count} of {self.of}" + (f" ({100 * self.count / self.of:.0f} %)" if self.of else "")


@dataclass(frozen=True)
class Standing:
    """``ahead``: by the kind of row that is beaten, of the trained rows that have such a row beside them; ``behind``:
    the trained rows that a guess beats or equals, each with a line about it."""

    rows: int
    ahead: dict[str, Share]
    neighbours: Share
    firsts: Share
    converged: Share
    behind: dict[str, str]


def standing(
    board: pd.DataFrame,
    guesses: Collection[str],
    solvers: Collection[str],
    errors: Mapping[tuple[Any, ...], Errors] | None = None,
) -> Standing:
    """``errors``: of each cell by `place_of` it; without them nothing is said about who can be told apart."""
    rows = top(board)
    trained = ~rows["training_free"].astype(bool) & ~is_deterministic(rows) & ~rows["status"].isin(NOT_RUN)
    rows = rows.assign(
        kind=[_kind(model, guesses, solvers) for model in rows["model"]],
        trained=trained,
        error=rows["test_err_mean"].where((rows["status"] == Status.OK) & rows["rank"].notna(), np.inf),
    )
    won: dict[str, list[bool]] = {GUESS: [], FORMULA: [], SOLVER: []}
    behind: dict[str, str] = {}
    neighbours: list[bool] = []
    firsts: list[bool] = []
    for _, table in rows.groupby(GROUP, sort=False, dropna=False):
        networks = table[table["trained"]].sort_values("error", kind="stable")
        free = table[table["training_free"].astype(bool) & (table["status"] == Status.OK)]
        for kind, beaten in won.items():
            if (best := free.loc[free["kind"] == kind, "error"].min()) < math.inf:
                beaten += list(networks["error"] < best)
        behind |= _behind(networks, free[free["kind"] == GUESS])
        ranked = (
            [errors[place_of(row)] for _, row in networks[np.isfinite(networks["error"])].iterrows()] if errors else []
        )
        chances = [change_interval(one, two).p_value for one, two in itertools.pairwise(ranked)]
        neighbours += [chance < ALPHA for chance in chances if math.isfinite(chance)]
        firsts += [chance < ALPHA for chance in chances[:1] if math.isfinite(chance)]
    known = rows.loc[rows["trained"], "converged"].dropna() if "converged" in rows else pd.Series(dtype=object)
    return Standing(
        int(rows["trained"].sum()),
        {kind: _share(beaten) for kind, beaten in won.items() if beaten},
        _share(neighbours),
        _share(firsts),
        Share(int((known == "yes").sum()), len(known)),
        behind,
    )


def place_of(row: pd.Series) -> tuple[Any, ...]:
    """The cell of a row of a leaderboard."""
    return tuple(None if pd.isna(value) else value for value in row[CELL])


def errors_by_cell(trials: pd.DataFrame, samples: Mapping[str, np.ndarray]) -> dict[tuple[Any, ...], Errors]:
    """The errors of trained cells of several seeds. ``samples``: of each test sample, by the key of a trial."""
    chosen = trials[(trials["status"] == Status.OK) & ~trials["training_free"].astype(bool)]
    cells = chosen.groupby(CELL, sort=False, dropna=False)
    return {place_of(rows.iloc[0]): seed_errors(rows, samples) for _, rows in cells}


def standing_page(found: Standing) -> str:
    """A section of `statistics.md`; empty if there is nothing to say."""
    from tabulate import tabulate

    lines = [(f"ahead of every {kind}", share) for kind, share in found.ahead.items()]
    lines.append(("told apart from the next trained row", found.neighbours))
    lines.append(("tables whose first two trained rows are told apart", found.firsts))
    if found.converged.of:
        lines.append(("converged", found.converged))
    shown = [(what, str(share)) for what, share in lines if share.of]
    if not shown:
        return ""
    page = f"## How the {found.rows} trained rows stand\n\n"
    page += tabulate(shown, headers=["", "rows"], tablefmt="github", disable_numparse=True) + "\n"
    if found.behind:
        page += "\nNo better than a guess:\n\n" + "".join(f"- {line}\n" for line in found.behind.values())
    return page


def _kind(label: str, guesses: Collection[str], solvers: Collection[str]) -> str:
    name = label.partition("[")[0]
    return GUESS if name in guesses else SOLVER if name in solvers else FORMULA


def _behind(networks: pd.DataFrame, guesses: pd.DataFrame) -> dict[str, str]:
    if guesses.empty:
        return {}
    best = guesses.sort_values("error", kind="stable").iloc[0]
    return {
        f"{row['model']} on {row['task']}": f"{row['task']}: {row['model']} {_how(row)}; {best['model']} has "
        f"{format_error(best['error'])}"
        for _, row in networks[networks["error"] >= best["error"]].iterrows()
    }


def _how(row: pd.Series) -> str:
    if not np.isfinite(row["error"]):
        return f"is {row['status']} ({row['reason']})" if row["reason"] else f"is {row['status']}"
    unfinished = ", and its error still falls with the budget" if row.get("converged") == "no" else ""
    return f"has {format_error(row['error'])}{unfinished}"


def _share(found: list[bool]) -> Share:
    return Share(sum(map(bool, found)), len(found))
