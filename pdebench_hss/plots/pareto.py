"""Error against cost, one panel per task: who is on the Pareto front.

The front is a staircase: to its upper right everything is beaten in both error and cost. Every model has its name at
the panel's right edge, near the height of its point. Whiskers are 95 % intervals. Errors below `FLOOR` are drawn on it,
as arrows with their value: a closed form that is exact to rounding would flatten everything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from ..base.errors import UsageError
from ..base.plain_text import in_figure
from ..boards.frames import GROUP
from ..boards.ranking import pareto
from .looks import Look
from .style import CARETDOWN, End, label_ends, label_of, log_ticks, new_figure, whiskers

COSTS = {
    "fit_seconds": "training time in s",
    "predict_ms": "prediction time in ms per sample",
    "params_real": "parameters",
    "flops_step": "FLOPs of a training step",
    "fit_flops": "FLOPs of training",
    "peak_memory_mb": "peak memory in MB",
}
PANELS_ACROSS = 3
FLOOR = 1e-6


def draw(
    board: pd.DataFrame, cost: str, titles: Mapping[str, str], look: Mapping[str, Look], error: str = "test error"
) -> Any:
    # What costs nothing (a solver's parameters) has no place on a logarithmic axis and takes no part in the front.
    points = pareto(board[(board[cost] > 0) & (board["test_err_mean"] > 0)], cost)
    if points.empty:
        raise UsageError(f"no row of the board has both an error and {cost}, so there is nothing to draw")
    groups = [group for _, group in points.groupby(GROUP, sort=False, dropna=False)]
    across = min(PANELS_ACROSS, len(groups))
    down = -(-len(groups) // across)
    figure = new_figure(3.5 * across + 0.3, 2.4 * down + 0.2)
    grid = figure.subplots(down, across, squeeze=False)
    for axes, group in zip(grid.flat, groups, strict=False):
        _panel(axes, group, cost, look)
        axes.set_title(_title(group, groups, titles), loc="left")
        axes.set_xlabel(in_figure(COSTS.get(cost, cost)))
        axes.set_ylabel(in_figure(error))
    for axes in list(grid.flat)[len(groups) :]:
        axes.set_visible(False)
    label_ends(
        figure, [(axes, _names(group, cost, look, titles)) for axes, group in zip(grid.flat, groups, strict=False)]
    )
    return figure


def _names(group: pd.DataFrame, cost: str, look: Mapping[str, Look], titles: Mapping[str, str]) -> list[End]:
    ends = []
    for _, row in group.iterrows():
        error = row["test_err_mean"]
        text = label_of(row["model"], titles) + (f"  {error:.0e}" if error < FLOOR else "")
        ends.append(End(text, row[cost], max(error, FLOOR), look[row["model"]].colour))
    return ends


def _panel(axes: Any, group: pd.DataFrame, cost: str, look: Mapping[str, Look]) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    for _, row in group.iterrows():
        style, below = look[row["model"]], row["test_err_mean"] < FLOOR
        axes.plot(
            [row[cost]], [max(row["test_err_mean"], FLOOR)], linestyle="", zorder=3,
            marker=CARETDOWN if below else style.marker, markersize=7 if row["on_front"] else 5,
            color=style.colour, markerfacecolor=style.face,
        )  # fmt: skip
    front = group[group["on_front"]].sort_values(cost)
    axes.margins(0.12)
    axes.step(front[cost], front["test_err_mean"].clip(FLOOR), where="post", color="0.55", linewidth=1.0, zorder=1)
    above = group[group["test_err_mean"] >= FLOOR]
    whiskers(axes, above[cost], above["err_low"], above["err_high"], [look[m].colour for m in above["model"]])
    log_ticks(axes.xaxis)
    log_ticks(axes.yaxis)


def _title(group: pd.DataFrame, groups: list[pd.DataFrame], titles: Mapping[str, str]) -> str:
    """The task; if it occurs more than once, also its train size and budget."""
    first = group.iloc[0]
    alike = [g for g in groups if g.iloc[0]["task"] == first["task"]]
    more = f" · {first['n_train']} samples · {first['budget']}" if len(alike) > 1 else ""
    return label_of(str(first["task"]), titles) + in_figure(more)
