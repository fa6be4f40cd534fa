"""Bar charts of timings: a panel per task, a bar per model, milliseconds on a logarithmic axis.

Bars of one model have one colour and one hatching in all panels, and its time is written at its end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..base.plain_text import in_figure
from .style import FONT, SETTINGS, add_heading, add_notes, label_of, matplotlib, new_figure, styles

HATCHES = ("", "///", "...", "\\\\\\", "xx", "--", "++", "oo")
PANELS_ACROSS = 3
TITLES = {
    "step": ("One training step", "forward and backward pass of one batch"),
    "forward": ("One prediction", "forward pass of one batch"),
}


def draw_timings(rows: Sequence[Mapping[str, Any]], kind: str, titles: Mapping[str, str]) -> Any:
    """``rows`` of `bench_models`, ``kind`` step or forward."""
    with matplotlib().rc_context(SETTINGS):
        return _draw(rows, kind, titles)


def _draw(rows: Sequence[Mapping[str, Any]], kind: str, titles: Mapping[str, str]) -> Any:
    tasks, models = (list(dict.fromkeys(row[key] for row in rows)) for key in ("task", "model"))
    across = min(PANELS_ACROSS, len(tasks))
    down = -(-len(tasks) // across)
    figure = new_figure(1.4 + 2.3 * across, 1.1 + down * (0.6 + 0.24 * len(models)))
    panels = figure.subplots(down, across, squeeze=False, sharey=True)
    look = styles(models, (), titles)
    for axes, task in zip(panels.flat, tasks):
        _panel(axes, [row for row in rows if row["task"] == task], models, kind, look)
        batch = max(row["batch_asked"] for row in rows if row["task"] == task)
        axes.set_title(in_figure(f"{task}, batch {batch}"), loc="left")
    for axes in list(panels.flat)[len(tasks) :]:
        axes.set_visible(False)
    for axes in list(panels.flat)[max(0, len(tasks) - across) : len(tasks)]:
        axes.set_xlabel("ms")
    for axes in panels[:, 0]:
        axes.set_yticks(range(len(models)), [label_of(model, titles) for model in models])
    panels[0, 0].set_ylim(len(models) - 0.4, -0.6)  # the first model on top
    title, subtitle = TITLES[kind]
    add_heading(figure, title, f"{subtitle}: median and quartiles; {rows[0]['hardware']}, {rows[0]['threads']} threads")
    smaller = [f"* {row['task']}, {label_of(row['model'], titles)}: {row['reason']}." for row in rows if row["reason"]]
    add_notes(figure, smaller)
    return figure


def _panel(
    axes: Any, rows: Sequence[Mapping[str, Any]], models: Sequence[str], kind: str, look: Mapping[str, Any]
) -> None:
    axes.set_xscale("log")
    axes.grid(visible=False, axis="y")
    values = [row[f"{kind}_ms"] for row in rows]
    axes.set_xlim(min(values) / 3, max(values) * 8)  # room for the numbers
    for row in rows:
        place, value = models.index(row["model"]), row[f"{kind}_ms"]
        axes.barh(
            place, value, height=0.7, color=look[row["model"]].colour, edgecolor="white", linewidth=0.0,
            hatch=HATCHES[place % len(HATCHES)],
        )  # fmt: skip
        low, high = value - row[f"{kind}_ms_low"], row[f"{kind}_ms_high"] - value
        axes.errorbar(value, place, xerr=[[low], [high]], color="0.1", linewidth=0.9, capsize=2)
        star = "*" if row["batch"] < row["batch_asked"] else ""
        label = f"{value:,.0f}{star}" if value >= 100 else f"{value:.3g}{star}"
        end = (max(value, row[f"{kind}_ms_high"]), place)
        axes.annotate(label, end, (3, 0), textcoords="offset points", va="center", fontsize=FONT - 1.5)
