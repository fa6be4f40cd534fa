"""Error against compute, one figure per task: every model along the ladder of budgets that it was given.

Trained models are lines through their budgets, with whiskers of their 95 % intervals. What is not trained (guesses,
closed forms, the levels of a classical solver) does not depend on the budget: a horizontal line. A number marks where
one model overtakes another and both sides of it are told apart from noise (`boards.ladders`); the small print names the
two. Numbers that would cover each other share one mark. What is far below all trained models is drawn on a floor, as an
arrow with its value: a solver that is exact to rounding would flatten the rest.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ..base.plain_text import in_figure
from ..boards.ladders import Crossing, change_text, crossing_lines, unit_of
from .curves import ERRORS
from .looks import Look
from .style import CARETDOWN, End, label_ends, label_of, log_ticks, new_figure, whiskers

WIDTH, HEIGHT = 7.4, 4.6
MARK = 6.5  # the size of numbers, in points
FAR = 1000.0
APART = 2.4 * MARK  # points between the centres of two marks that can be told apart


def draw(
    group: pd.DataFrame,
    found: Sequence[Crossing],
    titles: Mapping[str, str],
    look: Mapping[str, Look],
    error: str = "test error",
) -> Any:
    """``group``: one ladder with the levels of its solver (`ladders.with_levels`); ``found``: its crossings."""
    models = list(dict.fromkeys(group.sort_values("training_free", kind="stable")["model"]))
    figure = new_figure(WIDTH, HEIGHT)
    axes = figure.subplots()
    axes.set_xscale("log")
    axes.set_yscale("log")
    amounts, floor = sorted(group["amount"].unique()), floor_of(group)
    ends = []
    for model in models:
        rows = group[(group["model"] == model) & (group["test_err_mean"] >= 0)].sort_values("amount")
        if len(rows):
            line = _flat if rows["training_free"].all() else _climb
            last = line(axes, rows, amounts, look[model], floor)
            text = label_of(model, titles) + (f"  {last:.0e}" if last < floor else "")
            ends.append(End(text, amounts[-1], max(last, floor), look[model].colour))
    above = group[~group["training_free"].astype(bool) & (group["test_err_mean"] >= floor)]
    whiskers(axes, above["amount"], above["err_low"], above["err_high"], [look[m].colour for m in above["model"]])
    axes.set_xticks(amounts, [f"{amount:g}" for amount in amounts])
    axes.minorticks_off()
    axes.set_xlim(amounts[0] / 1.15, amounts[-1] * 1.08)
    axes.set_xlabel(in_figure(f"{unit_of(str(group['kind'].iloc[0]))} of training"))
    axes.set_ylabel(in_figure(ERRORS.get(error, error)))
    log_ticks(axes.yaxis)
    label_ends(figure, [(axes, ends)])
    _number(axes, group, found, floor)
    return figure


def floor_of(group: pd.DataFrame) -> float:
    """A power of ten, between one and two decades below the smallest error that is drawn to scale: of a trained model,
    or of what else has an error at most `FAR` times smaller."""
    errors = group[group["test_err_mean"] > 0]
    trained = errors.loc[~errors["training_free"].astype(bool), "test_err_mean"]
    if trained.empty:
        return 1e-6
    near = errors.loc[errors["test_err_mean"] >= trained.min() / FAR, "test_err_mean"]
    return float(10.0 ** (math.floor(math.log10(near.min())) - 1))


def _climb(axes: Any, rows: pd.DataFrame, amounts: Sequence[float], style: Look, floor: float) -> float:
    """A trained model; returns the error at its largest budget."""
    at, error = rows["amount"].to_numpy(float), rows["test_err_mean"].to_numpy(float)
    shown = np.maximum(error, floor)
    axes.plot(
        at, shown, color=style.colour, linestyle=style.line, linewidth=style.width, marker=style.marker,
        markersize=5.5, markerfacecolor=style.face, zorder=3,
    )  # fmt: skip
    for x in at[error < floor]:
        axes.plot([x], [floor], marker=CARETDOWN, color=style.colour, zorder=4)
    return float(error[-1])


def _flat(axes: Any, rows: pd.DataFrame, amounts: Sequence[float], style: Look, floor: float) -> float:
    """What does not depend on the budget; returns its error."""
    error = float(rows["test_err_mean"].iloc[-1])
    height = max(error, floor)
    axes.plot(
        [amounts[0], amounts[-1]], [height, height], color=style.colour, linestyle=style.line, linewidth=style.width,
        marker=CARETDOWN if error < floor else style.marker, markersize=5, markerfacecolor="white", markevery=[1],
        zorder=2,
    )  # fmt: skip
    return error


def _number(axes: Any, group: pd.DataFrame, found: Sequence[Crossing], floor: float) -> None:
    """Numbers the crossings in place, in the order of ``found``; the layout must be known."""
    places = []
    for crossing in found:
        rows = group[(group["model"] == crossing.winner) & (group["test_err_mean"] > 0)].sort_values("amount")
        logs = np.log(rows["amount"].to_numpy(float)), np.log(rows["test_err_mean"].to_numpy(float))
        height = float(np.exp(np.interp(np.log(crossing.at), *logs)))
        places.append((crossing.at, max(height, floor)))
    points = axes.transData.transform(np.reshape(places, (-1, 2))) * 72 / axes.figure.dpi
    for members in together(points, APART):
        x, y = np.exp(np.log([places[i] for i in members]).mean(axis=0))
        axes.text(
            x, y, ranges([i + 1 for i in members]), fontsize=MARK, ha="center", va="center", color="0.1", zorder=5,
            bbox={"boxstyle": "round,pad=0.25,rounding_size=0.7", "facecolor": "white", "edgecolor": "0.2", "lw": 0.8},
        )  # fmt: skip


def together(points: np.ndarray, least: float) -> list[list[int]]:
    """Groups of points, so that the centres of any two groups are at least ``least`` apart."""
    groups = [[i] for i in range(len(points))]
    while True:
        centres = [points[members].mean(axis=0) for members in groups]
        near = [
            (float(np.hypot(*(centres[i] - centres[j]))), i, j)
            for i, j in itertools.combinations(range(len(groups)), 2)
        ]
        distance, i, j = min(near, default=(math.inf, 0, 0))
        if distance >= least:
            return groups
        groups[i] = sorted(groups[i] + groups.pop(j))


def ranges(numbers: Sequence[int]) -> str:
    """``1–3, 5`` of 1, 2, 3, 5."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)


def notes(group: pd.DataFrame, found: Sequence[Crossing], titles: Mapping[str, str]) -> list[str]:
    """The crossings in words, by their numbers, what is drawn on the floor, and who is not converged at the end."""
    named = [
        replace(crossing, winner=label_of(crossing.winner, titles), loser=f"[{i}] {label_of(crossing.loser, titles)}")
        for i, crossing in enumerate(found, 1)
    ]
    lines = [f"{line}." for line in crossing_lines(named)] or ["No crossing that is told apart from noise."]
    if ((group["test_err_mean"] >= 0) & (group["test_err_mean"] < floor_of(group))).any():
        lines.append("Arrows: far below the others, at the error that stands beside them; not to scale.")
    last = group[group["amount"] == group["amount"].max()]
    if "converged" in last and len(still := last[last["converged"] == "no"]):
        which = ", ".join(
            f"{label_of(str(row['model']), titles)} {change_text(row).removeprefix('no ')}"
            for _, row in still.iterrows()
        )
        lines.append(f"Not converged at the largest budget: {which}.")
    return lines
