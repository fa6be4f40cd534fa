"""The critical-difference diagram (Demšar 2006): average ranks on a line, bars over models that can't be told apart.

Names stand left and right of the line, best on top; a bar joins models whose ranks differ by less than the critical
difference, which is drawn to scale above the axis.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..base.errors import UsageError
from ..boards.ranking import Ranking, counted
from .looks import Look
from .style import FONT, label_of, new_figure

FEWEST = 5  # families of tasks: with fewer, hardly any difference of ranks is beyond chance
ROW = 0.55  # between two names, in units of the diagram
BAR = 0.28  # between two bars


def draw(ranking: Ranking, titles: Mapping[str, str], look: Mapping[str, Look]) -> Any:
    count = len(ranking.ranks)
    if count < 2:
        raise UsageError("a critical-difference diagram needs at least two models that finished every task")
    if ranking.families < FEWEST:
        raise UsageError(
            f"a critical-difference diagram needs at least {FEWEST} families of tasks (variants of one equation are "
            f"one); here are {counted(ranking)}"
        )
    bars = ranking.indistinct if math.isfinite(ranking.difference) else []
    names_from = -0.45 - BAR * len(bars)  # names begin below the bars
    rows = -(-count // 2)
    figure = new_figure(6.8, 0.55 + 0.32 * (rows + 0.55 * len(bars)))
    axes = figure.add_subplot()
    axes.set_xlim(0.0, count + 1.0)
    axes.set_ylim(names_from - ROW * rows, 1.25)
    axes.axis("off")
    _scale(axes, count, ranking.difference)
    for place, (model, rank) in enumerate(ranking.ranks.items()):
        left = place < rows
        height = names_from - ROW * (place if left else count - 1 - place)
        side = 0.55 if left else count + 0.45
        style = look[str(model)]
        axes.plot([rank, rank, side], [0, height, height], color=style.colour, linewidth=0.9, zorder=2)
        axes.plot([rank], [0], style.marker, color=style.colour, markerfacecolor=style.face, markersize=6, zorder=4)
        text = f"{label_of(str(model), titles)}  {rank:.2f}" if left else f"{rank:.2f}  {label_of(str(model), titles)}"
        axes.text(side, height, f" {text} ", ha="right" if left else "left", va="center", color=style.colour)
    for level, group in enumerate(bars):
        ends = [float(ranking.ranks[model]) for model in group]
        height = -0.3 - BAR * level
        axes.plot([min(ends) - 0.06, max(ends) + 0.06], [height] * 2, color="0.15", linewidth=3.2, zorder=3,
                  solid_capstyle="butt")  # fmt: skip
    return figure


def _scale(axes: Any, count: int, difference: float) -> None:
    axes.plot([1, count], [0, 0], color="0.3", linewidth=0.9)
    for rank in range(1, count + 1):
        axes.plot([rank, rank], [0, 0.12], color="0.3", linewidth=0.9)
        axes.text(rank, 0.2, str(rank), ha="center", va="bottom", fontsize=FONT - 1)
    if math.isfinite(difference):
        end = 1 + min(difference, count - 1.0)
        axes.annotate(
            "", (1, 0.82), (end, 0.82), arrowprops={"arrowstyle": "|-|,widthA=0.3,widthB=0.3", "color": "0.15"}
        )
        beyond = "" if difference <= count - 1 else " (longer than the axis)"
        axes.text((1 + end) / 2, 0.92, f"critical difference {difference:.2f}{beyond}", ha="center", va="bottom",
                  fontsize=FONT - 1)  # fmt: skip


def notes(ranking: Ranking, titles: Mapping[str, str]) -> list[str]:
    lines = [
        f"Average rank over {counted(ranking)} (1 is best); bars join models that differ by less than the "
        f"critical difference (Nemenyi, 5 %). Friedman's test of no difference at all: p = {ranking.p_value:.2g}."
    ]
    if ranking.left_out:
        left = ", ".join(f"{label_of(model, titles)} ({count})" for model, count in ranking.left_out.items())
        lines.append(f"Not ranked, with the number of tasks not finished: {left}.")
    return lines
