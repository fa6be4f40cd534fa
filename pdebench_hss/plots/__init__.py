"""Figures. A figure of a study is a function ``draw(table, options, titles) -> matplotlib Figure``.

``table`` is the study's (see `studies.study_table`) with the columns ``model_name`` and ``task_name`` (labels without
their options), ``options`` is what the study says under ``figure``, ``titles`` maps names to how they are written.
A study names a built-in kind or its own ``"package.module:function"``. A module may also have ``notes(...)``, called
with the same arguments, for lines of small print; those under ``notes`` in the options come first.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from ..base.errors import UsageError, did_you_mean
from ..base.plain_text import in_figure
from ..base.references import resolve
from ..boards.ladders import crossings, has_ladders, ladder_groups, top, with_levels
from ..boards.ranking import NO_FAMILIES, average_ranks
from .looks import Look, looks
from .style import DEVIATION, SETTINGS, add_heading, add_notes, failures, label_of, matplotlib, save

if TYPE_CHECKING:
    from ..contract.metric import MetricSpec
    from ..contract.study import Study

KINDS = {name: f"{__name__}.{name}:draw" for name in ("curves", "dots", "heatmaps")}
PARETO_COSTS = ("fit_seconds", "predict_ms", "params_real", "fit_flops")
WHISKERS = "whiskers: 95 % intervals"
BOARD_KINDS = ("ranks", "pareto", "compute")


def draw_study(study: Study, table: pd.DataFrame, titles: Mapping[str, str], paths: Sequence[Path]) -> list[Path]:
    """Draw a study's table to each path."""
    table = table.assign(**{f"{c}_name": table[c].str.partition("[")[0] for c in ("model", "task")})
    kind = str(study.figure["kind"])
    if kind not in KINDS and ":" not in kind:
        raise UsageError(f"study {study.name!r}: no figure kind {kind!r}.{did_you_mean(kind, KINDS)}")
    with matplotlib().rc_context(SETTINGS):
        if table["test_err_mean"].isna().all():
            raise UsageError(f"study {study.name!r}: no trial ended well, so there is nothing to draw")
        draw = resolve(KINDS.get(kind, kind))
        figure = draw(table, study.figure, titles)
        more = getattr(sys.modules[draw.__module__], "notes", None)
        notes = [*study.figure.get("notes", []), *(more(table, study.figure, titles) if more else [])]
        add_notes(figure, [*notes, *failures(table, titles)])
        add_heading(figure, study.title, subtitle(study, table))
        return save(figure, paths)


def subtitle(study: Study, table: pd.DataFrame) -> str:
    seeds = int(table["n_expected"].max())  # and draws of the data
    budgets = sorted(set(table["budget"]))
    parts = [f"scale {table['scale'].iloc[0]}", budgets[0] if len(budgets) == 1 else "the recipes' budgets"]
    spread = f", {DEVIATION}" if _has_whiskers(study.figure) else ""
    fewer = "deterministic" in table and (table["n_expected"] < seeds).any()
    once = " (fewer of what no seed changes)" if fewer else ""
    parts.append("one run per point" if seeds == 1 else f"{seeds} runs per point{once}{spread}")
    return " · ".join([*([study.paper] if study.paper else []), *parts])


def _has_whiskers(figure: Mapping[str, Any]) -> bool:
    return figure["kind"] == "curves" or any("spread" in value for value in figure.get("values", []))


def draw_board(
    board: pd.DataFrame,
    titles: Mapping[str, str],
    folder: Path,
    formats: Sequence[str],
    metric: MetricSpec | None = None,
    kinds: Sequence[str] = (),
    levels: pd.DataFrame | None = None,
    families: Mapping[str, str] = NO_FAMILIES,
    look: Mapping[str, Look] | None = None,
) -> tuple[list[Path], list[str]]:
    """The figures of a leaderboard, and why any of them could not be drawn.

    ``kinds``: of `BOARD_KINDS`; by default those that the board has the rows for. ``metric`` is the one that the board
    was read through, if not each task's own. ``levels``: of the classical solver (`frames.solver_levels`).
    ``families`` of tasks: see `average_ranks`. ``look`` is that of the whole board, if these are some rows of it.
    """
    drawn = board_figures(board, titles, metric, kinds, levels, families, look)
    paths, complaints = [], []
    with matplotlib().rc_context(SETTINGS):
        for name, draw in drawn:
            try:
                figure = draw()
            except UsageError as error:
                complaints.append(f"{name}: {error}")
            else:
                paths += save(figure, [folder / f"{name}.{kind}" for kind in formats])
    return paths, complaints


def board_figures(
    board: pd.DataFrame,
    titles: Mapping[str, str],
    metric: MetricSpec | None = None,
    kinds: Sequence[str] = (),
    levels: pd.DataFrame | None = None,
    families: Mapping[str, str] = NO_FAMILIES,
    look: Mapping[str, Look] | None = None,
) -> list[tuple[str, Callable[[], Any]]]:
    """The figures that `draw_board` draws: a name and a drawing each. Drawn inside ``rc_context(SETTINGS)``."""
    largest, look = top(board), look or board_looks(board, titles, levels)
    wanted = kinds or [kind for kind in BOARD_KINDS if kind != "compute" or has_ladders(board)]
    drawn: list[tuple[str, Callable[[], Any]]] = []
    if "ranks" in wanted:
        drawn.append(("critical_difference", partial(_ranks, largest, titles, look, metric, families)))
    if "pareto" in wanted:
        drawn += [(f"pareto_{cost}", partial(_pareto, largest, cost, titles, look, metric)) for cost in PARETO_COSTS]
    if "compute" in wanted:
        drawn += _ladder_figures(board, levels, titles, look, metric)
    return drawn


def board_looks(board: pd.DataFrame, titles: Mapping[str, str], levels: pd.DataFrame | None = None) -> dict[str, Look]:
    """What each model of a board looks like, in all its figures."""
    free = board.loc[board["training_free"].astype(bool), "model"]
    solvers = [] if levels is None else list(levels["model"])
    return looks([*board["model"], *solvers], [*free, *solvers], titles)


def _ladder_figures(
    board: pd.DataFrame,
    levels: pd.DataFrame | None,
    titles: Mapping[str, str],
    look: Mapping[str, Look],
    metric: MetricSpec | None,
) -> list[tuple[str, Callable[[], Any]]]:
    """A name and a drawing for each ladder; for a board without any, one that says so."""
    groups = list(ladder_groups(board))
    if not groups:
        return [("compute", _no_ladder)]
    found: dict[str, Callable[[], Any]] = {}
    for group in groups:
        name = f"compute_{re.sub('[^A-Za-z0-9.]+', '_', str(group['task'].iloc[0])).strip('_')}"
        more = sum(known.rpartition("-")[0] == name or known == name for known in found)
        found[f"{name}-{more + 1}" if more else name] = partial(_compute, group, levels, titles, look, metric)
    return list(found.items())


def _no_ladder() -> Any:
    raise UsageError("no model has several budgets of one kind; run with --budget core_seconds=10,40,160")


def _compute(
    group: pd.DataFrame,
    levels: pd.DataFrame | None,
    titles: Mapping[str, str],
    look: Mapping[str, Look],
    metric: MetricSpec | None,
) -> Any:
    from . import compute

    if metric is not None and metric.higher_is_better:
        raise UsageError(f"of {metric.name} larger values are better, and this is a figure of errors")
    whole = with_levels(group, levels) if metric is None else group  # levels have the task's own metric alone
    found = crossings(whole)
    first = group.iloc[0]
    figure = compute.draw(whole, found, titles, look, metric.title if metric else str(first["metric"]))
    add_notes(figure, [*compute.notes(whole, found, titles), *failures(group, titles)])
    seeds = int(group["n_expected"].max())
    parts = [
        f"{_subtitle(group, metric)} · {first['n_train']} training samples",
        f"{seeds} seeds" if seeds > 1 else "one seed",
        f"grey: not trained · numbers: one overtakes another · {WHISKERS}",
    ]
    add_heading(figure, f"Error against compute: {label_of(str(first['task']), titles)}", " · ".join(parts))
    return figure


def _ranks(
    board: pd.DataFrame,
    titles: Mapping[str, str],
    look: Mapping[str, Look],
    metric: MetricSpec | None,
    families: Mapping[str, str],
) -> Any:
    from . import critical_difference

    if metric is not None and metric.higher_is_better:
        board = board.assign(test_err_mean=-board["test_err_mean"])
    ranking = average_ranks(board, families=families)
    figure = critical_difference.draw(ranking, titles, look)
    add_notes(figure, critical_difference.notes(ranking, titles))
    add_heading(figure, "Average ranks", _subtitle(board, metric))
    return figure


def _pareto(
    board: pd.DataFrame, cost: str, titles: Mapping[str, str], look: Mapping[str, Look], metric: MetricSpec | None
) -> Any:
    from . import pareto

    if metric is not None and metric.higher_is_better:
        raise UsageError(f"of {metric.name} larger values are better, and a front is drawn of errors")
    figure = pareto.draw(board, cost, titles, look, metric.title if metric else "test error")
    add_notes(figure, failures(board, titles))
    about = f"{_subtitle(board, metric)} · grey line: Pareto front · {WHISKERS}"
    add_heading(figure, f"Error against {pareto.COSTS[cost]}", about)
    return figure


def _subtitle(board: pd.DataFrame, metric: MetricSpec | None) -> str:
    scales = "scale " + " and ".join(sorted(set(board["scale"])))
    return f"{in_figure(metric.title)} · {scales}" if metric else scales
