"""Timings of a bench: a panel per task, a row per model, milliseconds on a logarithmic axis.

Marks and no bars, because the length of a bar means nothing on a logarithmic axis. A whisker spans the quartiles. All
marks of a panel are of one batch: a model that needed a smaller one has its time written in its row, and no mark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..base.plain_text import in_figure
from .looks import Look, looks
from .style import FONT, SETTINGS, add_heading, add_notes, label_of, log_ticks, matplotlib, new_figure, whiskers

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
    look = looks(models, (), titles)
    for axes, task in zip(panels.flat, tasks, strict=False):
        mine = [row for row in rows if row["task"] == task]
        _panel(axes, mine, models, kind, look)
        axes.set_title(in_figure(f"{label_of(task, titles)}, batch {mine[0]['batch_asked']}"), loc="left")
    for axes in list(panels.flat)[len(tasks) :]:
        axes.set_visible(False)
    for axes in list(panels.flat)[max(0, len(tasks) - across) : len(tasks)]:
        axes.set_xlabel("ms")
    for axes in panels[:, 0]:
        axes.set_yticks(range(len(models)), [label_of(model, titles) for model in models])
        for tick, model in zip(axes.get_yticklabels(), models, strict=True):
            tick.set_color(look[model].colour)
    panels[0, 0].set_ylim(len(models) - 0.4, -0.6)  # the first model on top
    title, subtitle = TITLES[kind]
    machine = f"{rows[0]['hardware']}, {rows[0]['threads']} thread{'s' * (rows[0]['threads'] > 1)}"
    add_heading(figure, title, f"{subtitle}: median, and a line from quartile to quartile · {machine}")
    add_notes(figure, [f"{row['task']}, {label_of(row['model'], titles)}: {row['reason']}." for row in _unlike(rows)])
    return figure


def _unlike(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Rows of another batch than the task's."""
    return [row for row in rows if row["batch"] != row["batch_asked"]]


def _panel(
    axes: Any, rows: Sequence[Mapping[str, Any]], models: Sequence[str], kind: str, look: Mapping[str, Look]
) -> None:
    axes.set_xscale("log")
    unlike = _unlike(rows)
    alike = [row for row in rows if row not in unlike]
    for row in alike:
        place, value, style = models.index(row["model"]), row[f"{kind}_ms"], look[row["model"]]
        axes.plot([value], [place], style.marker, color=style.colour, markersize=6, zorder=3)
        end = (max(value, row[f"{kind}_ms_high"]), place)
        axes.annotate(_number(value), end, (6, 0), textcoords="offset points", va="center", fontsize=FONT - 1.5)
    for row in unlike:
        text = f"batch {row['batch']}: {_number(row[f'{kind}_ms'])}"
        axes.text(0.04, models.index(row["model"]), text, transform=axes.get_yaxis_transform(), va="center",
                  fontsize=FONT - 1.5, color="0.35")  # fmt: skip
    if alike:
        values = [row[f"{kind}_ms"] for row in alike]
        axes.set_xlim(min(values) / 2, max(values) * 5)  # room for the numbers
        low, high = ([row[f"{kind}_ms_{end}"] for row in alike] for end in ("low", "high"))
        places = [models.index(row["model"]) for row in alike]
        whiskers(axes, places, low, high, [look[row["model"]].colour for row in alike], along_x=True)
        log_ticks(axes.xaxis)


def _number(milliseconds: float) -> str:
    return f"{milliseconds:,.0f}" if milliseconds >= 100 else f"{milliseconds:.3g}"
