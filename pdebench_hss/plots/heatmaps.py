"""An ablation over three hyper-parameters: for each pair, the error averaged over the third.

Options of the figure in a study: ``columns``, the three hyper-parameters.

Light is low and dark is high on a map whose lightness is monotone, and the number stands in every cell, so that the
figure needs neither colour nor a look-up. Cells without a finished trial are hatched.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from ..base.plain_text import in_figure
from ..trials.status import Status
from .style import FONT, label_of, new_figure

NAMES = {"rank": "rank r", "outer_rank": "outer rank r_out", "levels": "levels t"}


def draw(table: pd.DataFrame, options: Mapping[str, Any], titles: Mapping[str, str]) -> Any:
    swept = table[table[list(options["columns"])].notna().all(axis="columns")]
    pairs = [pair[::-1] for pair in itertools.combinations(options["columns"], 2)]  # (down, across)
    means = [_means(swept, *pair) for pair in pairs]
    figure = new_figure(sum(0.42 * len(m.columns) + 1.0 for m in means) + 0.6, 0.42 * max(map(len, means)) + 1.1)
    grid = figure.subplots(1, len(pairs), squeeze=False, width_ratios=[len(m.columns) for m in means])[0]
    finite = np.concatenate([m.to_numpy(float).ravel() for m in means])
    low, high = np.nanmin(finite), np.nanmax(finite)
    for axes, (down, across), mean in zip(grid, pairs, means):
        image = _map(axes, mean, low, high)
        axes.set_xlabel(in_figure(NAMES.get(across, across)))
        axes.set_ylabel(in_figure(NAMES.get(down, down)))
    bar = figure.colorbar(image, ax=list(grid), shrink=0.8, aspect=15)
    bar.set_label("test error", fontsize=FONT - 1)
    bar.outline.set_visible(False)
    return figure


def notes(table: pd.DataFrame, options: Mapping[str, Any], titles: Mapping[str, str]) -> list[str]:
    """What a cell is, and the models beside the ablation, for scale."""
    others = table[table[list(options["columns"])].isna().any(axis="columns") & table["test_err_mean"].notna()]
    mean = "Each cell is the mean over the hyper-parameter that its map does not show."
    named = [f"{label_of(str(row.model), titles)} {row.test_err_mean:.3g}" for row in others.itertuples()]
    return [mean, *([f"For comparison: {', '.join(named)}."] if named else [])]


def _means(table: pd.DataFrame, down: str, across: str) -> pd.DataFrame:
    """Mean over everything else; a cell counts only where all of its trials ended well."""
    whole = table.assign(error=table["test_err_mean"].where(table["status"] == Status.OK))
    mean = whole.groupby([down, across])["error"].apply(lambda errors: errors.mean(skipna=False))
    return mean.unstack().sort_index(ascending=False)


def _map(axes: Any, mean: pd.DataFrame, low: float, high: float) -> Any:
    values = mean.to_numpy(float)
    axes.set_facecolor("white")
    axes.patch.set(hatch="////", edgecolor="0.8")
    image = axes.imshow(np.ma.masked_invalid(values), cmap="cividis_r", vmin=low, vmax=high, aspect="equal")
    for (i, j), value in np.ndenumerate(values):
        if np.isfinite(value):
            dark = high > low and (value - low) / (high - low) > 0.55
            text = f"{value:.3f}".lstrip("0") if value < 1 else f"{value:.2f}"
            axes.text(j, i, text, ha="center", va="center", fontsize=FONT - 2, color="white" if dark else "black")
    axes.set_xticks(range(len(mean.columns)), [f"{value:g}" for value in mean.columns])
    axes.set_yticks(range(len(mean.index)), [f"{value:g}" for value in mean.index])
    axes.grid(visible=False)
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    return image
