"""Error of trained models against resolution and against a parameter of the task, from a table of evaluations.

One figure for each task and setting that was trained: lines are models, points are means over seeds and draws of the
data, whiskers one standard deviation over seeds. All points have the same draws, so that they differ in nothing else. A
dotted line marks where the models were trained. What was refused or failed is in the small print.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ..base.errors import UsageError
from ..boards.evaluations import points
from ..trials.status import Status
from . import curves
from .style import DEVIATION, SETTINGS, add_heading, add_notes, label_of, matplotlib, save

FLOOR = 1e-8
POINTS = "points"


def draw_evaluations(
    table: pd.DataFrame, titles: Mapping[str, str], folder: Path, formats: Sequence[str]
) -> tuple[list[Path], list[str]]:
    """What was written; and why anything could not be drawn."""
    paths, complaints = [], []
    try:
        library = matplotlib()
    except UsageError as error:  # the table is there all the same
        return [], [str(error)]
    with library.rc_context(SETTINGS):
        for name, rows, x, label, trained in _figures(table):
            try:
                figure = _draw(rows, x, label, trained, titles)
            except UsageError as error:
                complaints.append(f"{name}: {error}")
            else:
                paths += save(figure, [folder / f"{name}.{kind}" for kind in formats])
    return paths, complaints


def _figures(table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame, str, str, float]]:
    """Name, rows with the column that varies, its name, what it is called, and where the models were trained."""
    for (trained_on, grid), rows in table.groupby(["trained_on", "trained_grid"], sort=False):
        stem = re.sub(r"[^A-Za-z0-9_.=-]+", "_", str(trained_on)).strip("_")
        same = rows[rows["params"] == rows["trained_params"]]
        if same["grid"].nunique() > 1:
            along = same.assign(points=same["grid"].map(points))
            yield f"{stem}_resolution", along, POINTS, "points along an axis", points(grid)
        for name, values in _varied(rows[rows["grid"] == grid]):
            along = rows[rows["grid"] == grid].assign(**{name: values}).dropna(subset=[name])
            trained = json.loads(rows["trained_params"].iloc[0]).get(name)
            yield f"{stem}_{name}", along, name, name, trained


def _varied(rows: pd.DataFrame) -> Iterator[tuple[str, pd.Series]]:
    """The parameters that take several positive values while all others are as in training."""
    params = rows["params"].map(json.loads)
    for name in sorted({name for found in params for name in found}):
        values = [
            _positive(found.get(name)) if {**found, name: None} == {**json.loads(before), name: None} else math.nan
            for found, before in zip(params, rows["trained_params"], strict=True)
        ]
        if len({value for value in values if value > 0}) > 1:
            yield name, pd.Series(values, index=rows.index)


def _positive(value: Any) -> float:
    """A number that has a place on a logarithmic axis, or NaN."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
    return float(value) if good else math.nan


def _draw(rows: pd.DataFrame, x: str, label: str, trained: float | None, titles: Mapping[str, str]) -> Any:
    rows, others = _same_draws(rows, x)
    good = _answered(rows)
    if good.empty:
        raise UsageError("no model has an error there, so there is nothing to draw")
    # Against resolution the relative error: a norm of the whole field grows with its points by itself.
    column, metric = ("relative_l2", "relative_l2") if x == POINTS else ("test_err", good["metric"].iloc[0])
    by_seed = good.groupby(["model", x, "seed"], sort=False)[column].mean().reset_index()
    summary = by_seed.groupby(["model", x], sort=False)[column].agg(["mean", "std"]).reset_index()
    summary = summary.rename(columns={"mean": "test_err_mean", "std": "test_err_std"})
    free = set(good.loc[good["training_free"].astype(bool), "model"])
    summary = summary.assign(
        metric=metric,
        model_name=summary["model"].str.partition("[")[0],
        training_free=summary["model"].isin(free),
    )
    figure = curves.draw(summary, {"x": x, "x_label": label, "line": "model", "floor": FLOOR}, titles)
    if trained is not None:
        figure.axes[0].axvline(trained, color="0.55", linewidth=0.8, linestyle=(0, (1, 2)), zorder=1)
    add_notes(figure, _notes(rows, x, titles) + others)
    title = f"{label_of(str(rows['trained_on'].iloc[0]), titles)}: error against {label}"
    counts = sorted({int(n) for n in good["n_samples"].dropna()})
    seeds = good["seed"].nunique()
    about = f"trained once, evaluated on {' or '.join(map(str, counts))} samples · dotted: where models were trained"
    add_heading(figure, title, about + (f" · {seeds} seeds, {DEVIATION}" if seeds > 1 else ""))
    return figure


def _answered(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[(rows["status"] == Status.OK) & rows["test_err"].notna()]


def _same_draws(rows: pd.DataFrame, x: str) -> tuple[pd.DataFrame, list[str]]:
    """The rows of those draws of the data on which all was evaluated, or of the one on which most was; and a note if
    others are left out."""
    seen: dict[int, set[Any]] = {}
    for draw, *point in zip(*(rows[name] for name in ("data_seed", "model", x, "seed")), strict=True):
        seen.setdefault(draw, set()).add(tuple(point))
    fullest = max(sorted(seen), key=lambda draw: len(seen[draw]))
    kept = [draw for draw in sorted(seen) if seen[draw] == seen[fullest]]
    if len(kept) == len(seen):
        return rows, []
    left_out = sorted({*seen} - {*kept})
    note = f"Samples of data seed {_and(kept)}; not all of this was evaluated on data seed {_and(left_out)}."
    return rows[rows["data_seed"].isin(kept)], [note]


def _and(numbers: Sequence[int]) -> str:
    return " and ".join(map(str, numbers))


def _notes(rows: pd.DataFrame, x: str, titles: Mapping[str, str]) -> list[str]:
    notes = []
    good = _answered(rows)
    carried = good[good["how"] == "interpolated"]
    if len(carried):
        names = ", ".join(label_of(name, titles) for name in dict.fromkeys(carried["model"]))
        notes.append(f"Fields interpolated to the model's own grid and back: {names}.")
    bad = rows[rows["status"] != Status.OK]
    for reason, found in bad.groupby("reason", sort=False):
        alike: dict[str, list[str]] = {}  # models by where they have no point
        for name, places in found.groupby("model", sort=False)[x]:
            without = sorted({*places} - {*good.loc[good["model"] == name, x]})  # interpolated by a later command, say
            if without:
                alike.setdefault(", ".join(f"{value:g}" for value in without), []).append(label_of(str(name), titles))
        notes += [f"{', '.join(names)} at {at}: {reason}" for at, names in alike.items()]
    return notes
