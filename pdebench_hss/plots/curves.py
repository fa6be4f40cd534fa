"""Error against something that is varied (train size, beta), one line per model or per value of a column.

Options of the figure in a study:

    x           the column along the horizontal axis; ``reverse: true`` turns it round
    line        what a line is: ``model`` (default; ``model_name`` if x is an option of the models) or a column
    panel       a column with one panel per value; baselines that belong to no panel are in all of them
    everywhere  models that are drawn in every panel
    floor       errors below it are drawn on it, as arrows with their value: exact methods would flatten the rest
    marks       ``{factor: 3, text: ...}``: a dotted line at x = 3 times the series' value
    timing      true: a second panel with the time of a training step
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from ..base.errors import UsageError
from ..base.plain_text import in_figure
from .looks import Look, looks, series
from .style import CARETDOWN, FONT, End, label_ends, label_of, log_ticks, new_figure, whiskers

LABELS = {"n_train": "training samples", "beta": "β"}
ERRORS = {"relative_l2": "relative L2 error on the test set", "trajectory_l2": "L2 trajectory error on the test set"}


def draw(table: pd.DataFrame, options: Mapping[str, Any], titles: Mapping[str, str]) -> Any:
    line, panel = _line_column(table, options), options.get("panel")
    everywhere = list(options.get("everywhere", []))
    shared = table["model_name"].isin(everywhere)
    values = list(dict.fromkeys(table.loc[~shared, panel])) if panel else [None]
    look = _styles(table, line, shared, titles)
    timing = bool(options.get("timing"))
    figure = new_figure(4.6 * len(values) + 0.6 + (3.0 if timing else 0), 3.6)
    columns = figure.subplots(
        1, len(values) + timing, squeeze=False, width_ratios=[1.0] * len(values) + [0.7] * timing
    )[0]
    ends = []
    for axes, value in zip(columns, values, strict=False):
        rows = table if value is None else table[(table[panel] == value) | shared]
        ends.append(_panel(axes, rows, options, titles, look))
        if value is not None:
            axes.set_title(label_of(str(value), titles), loc="left", pad=14 if options.get("marks") else None)
    _same_limits(columns[: len(values)])
    if timing:
        _step_times(columns[-1], table, titles, look)
    label_ends(figure, list(zip(columns, ends, strict=False)))
    return figure


def _line_column(table: pd.DataFrame, options: Mapping[str, Any]) -> str:
    """Along an axis of widths, ``net[width=4]`` names a point and ``net`` the line."""
    varied = table["model"].str.contains(rf"[\[,]{options['x']}=").any()
    return str(options.get("line", "model_name" if varied else "model"))


def _styles(table: pd.DataFrame, line: str, shared: pd.Series, titles: Mapping[str, str]) -> dict[str, Look]:
    """By series name; what stands in every panel, and baselines, are grey."""
    names = _series(table, line, shared)
    if line.startswith("model"):
        return looks(names, names[shared | table["training_free"]], titles)
    return series(names, names[shared])


def _series(table: pd.DataFrame, line: str, shared: pd.Series) -> pd.Series:
    own = table[line].astype(str) if line.startswith("model") else f"{line} = " + table[line].astype(str)
    return own.where(~shared, table["model_name"])


def _panel(
    axes: Any, table: pd.DataFrame, options: Mapping[str, Any], titles: Mapping[str, str], look: Mapping[str, Look]
) -> list[End]:
    """Draw one panel; returns the names that belong to the ends of its lines."""
    x, line, floor = options["x"], _line_column(table, options), float(options.get("floor", 0.0))
    shared = table["model_name"].isin(options.get("everywhere", []))
    axes.set_xscale("log")
    axes.set_yscale("log")
    ends = []
    names = _series(table, line, shared)
    for name in dict.fromkeys(names):
        rows = table[(names == name) & table["test_err_mean"].notna()]
        if rows.empty:
            continue
        if rows[x].duplicated().any():
            raise UsageError(
                f"the line {name!r} has several points at one {x}; the figure needs a line or panel for each"
            )
        rows = rows.sort_values(x, ascending=not options.get("reverse"))
        end = _line(axes, rows, x, look[name], floor)
        ends.append(End(_end_text(name, rows, floor, titles), *end, look[name].colour))
    above = table[table["test_err_mean"] >= floor]
    colours = [look[name].colour for name in names[above.index]]
    low, high = (above["test_err_mean"] + sign * above["test_err_std"] for sign in (-1, 1))
    whiskers(axes, above[x], low, high, colours)
    if marks := options.get("marks"):
        _marks(axes, table[~shared], line, marks, look)
    _ticks(axes, sorted(table[x].unique()))
    axes.set_xlabel(in_figure(options.get("x_label", LABELS.get(x, x))))
    metric = str(table["metric"].iloc[0])
    axes.set_ylabel(in_figure(ERRORS.get(metric, metric)))
    if options.get("reverse"):
        axes.invert_xaxis()
    return ends


def _line(axes: Any, rows: pd.DataFrame, x: str, style: Look, floor: float) -> tuple[float, float]:
    """One series; returns its last point, the one at the right."""
    at = rows[x].to_numpy(float)
    error = rows["test_err_mean"].to_numpy(float)
    below = error < floor
    shown = np.where(below, floor, error)
    axes.plot(at, shown, color=style.colour, linestyle=style.line, linewidth=style.width, zorder=2 + style.filled)
    for where, marker in ((~below, style.marker), (below, CARETDOWN)):
        axes.plot(
            at[where], shown[where], linestyle="", marker=marker, color=style.colour, markerfacecolor=style.face,
            markersize=5, zorder=4,
        )  # fmt: skip
    return at[-1], shown[-1]


def _end_text(name: str, rows: pd.DataFrame, floor: float, titles: Mapping[str, str]) -> str:
    last = float(rows["test_err_mean"].iloc[-1])
    return label_of(name, titles) + (f"  {last:.0e}" if last < floor else "")


def _marks(axes: Any, table: pd.DataFrame, line: str, marks: Mapping[str, Any], look: Mapping[str, Look]) -> None:
    """A dotted line, with the series' value at its head, where theory expects something of each series."""
    for value in dict.fromkeys(table[line].dropna()):
        colour = look[f"{line} = {value}"].colour
        at = float(marks["factor"]) * float(value)
        axes.axvline(at, color=colour, linewidth=0.8, linestyle=(0, (1, 2)), zorder=1)
        axes.text(at, 1.0, f"{value:g}", transform=axes.get_xaxis_transform(), ha="center", va="bottom", color=colour,
                  fontsize=FONT - 1)  # fmt: skip
    axes.set_title(in_figure(f"dotted: {marks['text']}"), loc="right", fontsize=FONT - 1, color="0.35", pad=14)


def _ticks(axes: Any, values: list[float]) -> None:
    """The values that were run, as written, as long as there is room; powers of ten beyond that."""
    if len(values) <= 8 and max(values) <= 1e5 and min(values) >= 1e-3:
        axes.set_xticks(values, [f"{value:g}" for value in values])
        axes.minorticks_off()


def _same_limits(panels: Any) -> None:
    limits = [axes.get_ylim() for axes in panels]
    for axes in panels:
        axes.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
        axes.grid(visible=True, which="major")
        log_ticks(axes.yaxis)


def _step_times(axes: Any, table: pd.DataFrame, titles: Mapping[str, str], look: Mapping[str, Look]) -> None:
    """Milliseconds of a training step (forward and backward), the fastest on top."""
    times = table.groupby("model", sort=False)["step_ms"].median().dropna().sort_values(ascending=False)
    axes.set_xlim(times.min() / 2, times.max() * 3)
    axes.grid(visible=False, axis="y")
    for row, (model, milliseconds) in enumerate(times.items()):
        style = look[str(model)]
        axes.plot([milliseconds], [row], style.marker, color=style.colour, markersize=7)
        axes.annotate(f"{milliseconds:.3g}", (milliseconds, row), (6, 0), textcoords="offset points", va="center")
    axes.set_xscale("log")
    axes.set_yticks(range(len(times)), [label_of(str(model), titles) for model in times.index])
    axes.set_ylim(-0.6, len(times) - 0.4)
    axes.set_xlabel("ms per training step")
    log_ticks(axes.xaxis)
