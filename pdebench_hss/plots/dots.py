"""One panel per task, one row per model: values on a logarithmic axis. For tables and timings.

Options of the figure in a study:

    values      a list of ``{column, spread, text}``: up to three kinds of marks per row (ours, printed, ...)
    x_label     what they measure
    floor       values below it are drawn on it, as arrows
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from ..base.plain_text import in_figure
from ..trials.status import Status
from .looks import looks
from .style import FONT, label_of, log_ticks, new_figure, whiskers

KINDS = (("o", True), ("D", False), ("|", True))  # marker, filled
PANELS_ACROSS = 4


def draw(table: pd.DataFrame, options: Mapping[str, Any], titles: Mapping[str, str]) -> Any:
    tasks, models = list(dict.fromkeys(table["task"])), list(dict.fromkeys(table["model"]))
    look = looks(models, table.loc[table["training_free"], "model"], titles)
    across = min(PANELS_ACROSS, len(tasks))
    down = -(-len(tasks) // across)
    figure = new_figure(2.0 + 2.0 * across, 0.5 + down * (0.75 + 0.19 * len(models)))
    grid = figure.subplots(down, across, squeeze=False, sharey=True)
    for axes, task in zip(grid.flat, tasks, strict=False):
        rows = {str(row["model"]): row for _, row in table[table["task"] == task].iterrows()}
        _panel(axes, rows, models, options, look)
        axes.set_title(label_of(task, titles), loc="left")
    for axes in list(grid.flat)[len(tasks) :]:
        axes.set_visible(False)
    for axes in grid[:, 0]:
        axes.set_yticks(range(len(models)), [label_of(model, titles) for model in models])
        for tick, model in zip(axes.get_yticklabels(), models, strict=True):
            tick.set_color(look[model].colour)
    grid[0, 0].set_ylim(len(models) - 0.4, -0.6)  # the first model on top
    for axes in list(grid.flat)[max(0, len(tasks) - across) : len(tasks)]:
        axes.set_xlabel(in_figure(options.get("x_label", "")))
    _key(figure, options)
    return figure


def _panel(
    axes: Any, rows: Mapping[str, pd.Series], models: list[str], options: Mapping[str, Any], look: Mapping[str, Any]
) -> None:
    floor = float(options.get("floor", 0.0))
    axes.set_xscale("log")
    spreads: list[tuple[float, float, float, str]] = []
    for height, model in enumerate(models):
        if model not in rows:
            continue
        row, colour = rows[model], look[model].colour
        for value, (marker, filled) in zip(options["values"], KINDS, strict=False):
            at = row[value["column"]]
            if pd.isna(at):
                continue
            shown = max(float(at), floor)
            spread = row.get(value.get("spread", ""), np.nan)
            if pd.notna(spread) and at >= floor:
                spreads.append((height, at - spread, at + spread, colour))
            axes.plot(
                [shown], [height], "<" if at < floor else marker, color=colour, markersize=5,
                markerfacecolor=colour if filled else "white", zorder=3,
            )  # fmt: skip
        if row[[value["column"] for value in options["values"]]].isna().all():
            axes.text(0.02, height, _why(row), transform=axes.get_yaxis_transform(), va="center",
                      fontsize=FONT - 2, color="0.5")  # fmt: skip
    if spreads:
        whiskers(axes, *zip(*spreads, strict=True), along_x=True)
    axes.grid(visible=False, axis="y")
    log_ticks(axes.xaxis)


def _why(row: pd.Series) -> str:
    reason = str(row["reason"]) if row["status"] != Status.OK else "not measured"
    return in_figure(reason if len(reason) < 32 else reason[:30] + "…")


def _key(figure: Any, options: Mapping[str, Any]) -> None:
    """What the marks mean; one line, since the models have their names on the axis."""
    from matplotlib.lines import Line2D

    marks = [
        Line2D([], [], linestyle="", marker=marker, color="0.3", markerfacecolor="0.3" if filled else "white",
               markersize=5, label=in_figure(value["text"]))
        for value, (marker, filled) in zip(options["values"], KINDS, strict=False)
    ]  # fmt: skip
    figure.legend(handles=marks, loc="outside upper right", ncols=len(marks), frameon=False, fontsize=FONT - 1)
