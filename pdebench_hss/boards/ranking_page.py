"""`statistics.md`: how trained rows stand, average ranks and break-even of a board, where they can be computed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from ..base.plain_text import markdown
from ..contract.registry import Registry
from .frames import GROUP
from .intervals import Errors
from .ladders import crossing_lines, crossings, ladder_groups, top, with_levels
from .ranking import NO_SOLVER, Ranking, average_ranks, break_even, counted
from .standing import standing, standing_page
from .text import format_error


def statistics_page(
    board: pd.DataFrame,
    registry: Registry,
    levels: pd.DataFrame | None = None,
    errors: Mapping[tuple[Any, ...], Errors] | None = None,
) -> str:
    """The page (``levels``: see `break_even`, ``errors``: see `standing`); empty if the board has too little for it."""
    parts = []
    ladder = _ladders(board, levels)
    board = top(board)  # all else is of the largest budget
    guesses, solvers = registry.models_in("guess"), registry.models_in("solver")
    parts.append(standing_page(standing(board, guesses, solvers, errors)))
    if not board[GROUP].drop_duplicates()["task"].duplicated().any():
        ranking = average_ranks(board, families=registry.families())
        if ranking.families > 1 and len(ranking.ranks) > 1:
            parts.append(_ranks(ranking))
    repaid = break_even(board, solvers, guesses, levels)
    repaid = repaid[repaid["note"] != NO_SOLVER]
    if len(repaid):
        parts.append(_break_even(repaid))
    if ladder:
        parts.append(ladder)
    return "\n".join(filter(None, parts))


def _ranks(ranking: Ranking) -> str:
    from tabulate import tabulate

    rows = [(markdown(model), f"{rank:.2f}") for model, rank in ranking.ranks.items()]
    lines = [
        "## Average ranks\n",
        f"Over {counted(ranking)}, among the models that finished all of them. Friedman's test that all are "
        f"alike: p = {ranking.p_value:.2g}. Models whose ranks differ by less than {ranking.difference:.2f} (Nemenyi, "
        "5 %) can't be told apart by them.\n",
        tabulate(rows, headers=["model", "average rank"], tablefmt="github", disable_numparse=True) + "\n",
    ]
    if ranking.left_out:
        absent = ", ".join(f"{markdown(model)} ({count})" for model, count in ranking.left_out.items())
        lines.append(f"Left out, with the number of tasks they did not finish: {absent}.\n")
    return "\n".join(lines)


def _ladders(board: pd.DataFrame, levels: pd.DataFrame | None) -> str:
    """Who overtakes whom on the ladders of a board; empty if there is none."""
    lines = []
    for group in ladder_groups(board):
        first = group.iloc[0]
        said = crossing_lines(crossings(with_levels(group, levels))) or ["no crossing that is told apart from noise"]
        lines += [f"- {markdown(str(first['task']))}: {markdown(line)}." for line in said]
    if not lines:
        return ""
    return (
        "## Error against compute\n\nWho overtakes whom as the budget grows: ahead at a smaller budget and behind at a "
        "larger one, at both with 95 % intervals that don't meet; interpolated between the budgets that were run.\n\n"
        + "\n".join(lines)
        + "\n"
    )


def _break_even(repaid: pd.DataFrame) -> str:
    from tabulate import tabulate

    rows = [
        (
            *(
                markdown(row["task"]),
                markdown(row["model"]),
                format_error(row["test_err_mean"]),
                f"{row['predict_ms']:.3g} ms",
            ),
            *(_solver(row), _count(row["break_even"]), row["note"]),
        )
        for _, row in repaid.iterrows()
    ]
    headers = ["task", "model", "error", "predict", "solver", "break-even", ""]
    return (
        "## Break-even\n\nAfter how many solves a model has repaid the making of its training data and its training, "
        "against the cheapest level of the classical solver that is at least as accurate. A model no better than a "
        "guess repays nothing. Tasks without a classical solver are left out.\n\n"
        + tabulate(rows, headers=headers, tablefmt="github", disable_numparse=True)
        + "\n"
    )


def _solver(row: pd.Series) -> str:
    if pd.isna(row["solver"]):
        return "–"
    return f"{markdown(row['solver'])}: {format_error(row['solver_err'])}, {row['solver_ms']:.3g} ms"


def _count(solves: float) -> str:
    if math.isnan(solves):
        return "–"
    return "never: not faster" if math.isinf(solves) else f"{solves:,.0f}"
