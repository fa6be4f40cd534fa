"""`Board`: the results of a run, or of a directory, that show themselves."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from ..base.errors import UsageError, did_you_mean
from ..boards import frames
from ..boards.chosen_rows import choose_rows, chosen_labels
from ..boards.comparison import ComparisonWarning
from ..boards.comparison import compare as compare_boards
from ..boards.latex_leaderboard import leaderboard_latex
from ..boards.reading import BoardFile, read_board
from ..contract.metric import MetricSpec
from ..contract.registry import load_registry
from . import pages
from .figures import showing_itself
from .models import Model, trained_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..use.loaded import LoadedModel


class Board:
    """Results as tables. In a notebook it shows itself, with the best of each table marked.

    ``source`` is a directory that `run` wrote, a results.csv or leaderboard.csv, or such a table in memory; ``metric``
    another metric than each task's own; ``plugins`` files that brought models or tasks. The tables are those of the
    moment: a board does not change when its directory does.

    leaderboard    one row per task and model: mean, spread, rank, skill, times, status (a DataFrame)
    results        one row per trial (a DataFrame)
    models, tasks  the names on it

    >>> board = Board("leaderboards/small-cpu")                   # doctest: +SKIP
    >>> board.leaderboard[["task", "model", "test_err_mean"]]     # doctest: +SKIP
    """

    def __init__(
        self,
        source: str | Path | pd.DataFrame,
        *,
        metric: str = "",
        plugins: Sequence[str | Path] = (),
        keys: Collection[str] | None = None,
    ) -> None:
        self.path = None if isinstance(source, pd.DataFrame) else Path(source)
        self.plugins = tuple(map(str, plugins))
        self._metric = metric_spec(metric, self.plugins)
        self._file = _only(read_board(source, metric=self._metric), keys, self._metric)
        self._elsewhere = 0 if keys is None else _trials_in(self.path) - len(keys)

    @property
    def leaderboard(self) -> pd.DataFrame:
        return self._file.summary.copy()

    @property
    def results(self) -> pd.DataFrame:
        if self._file.results is None:
            raise UsageError(f"{self._file.name} is a leaderboard; results are in the directory, or in its results.csv")
        table = self._file.results.copy()
        if self.path is not None:
            table.attrs["board"] = str(self.path)  # where its models are
        return table

    @property
    def models(self) -> list[str]:
        return list(dict.fromkeys(self._file.summary["model"]))

    @property
    def tasks(self) -> list[str]:
        return list(dict.fromkeys(self._file.summary["task"]))

    def compare(
        self, *others: Board | str | Path | pd.DataFrame, force: bool = False, same_weights: bool = False
    ) -> pd.DataFrame:
        """Other boards against this one, one row per cell: change, interval, verdict. See `pdebench_hss.compare`."""
        return compare(self, *others, force=force, same_weights=same_weights, metric=self._metric)

    def load_model(
        self, model: Model | None = None, task: str | None = None, seed: int | None = 0, **further: Any
    ) -> LoadedModel:
        """A trained model of this board as a function of physical fields. See `pdebench_hss.load_model`."""
        from ..use.loading import load_model

        if self.path is None or not self.path.is_dir():
            raise UsageError(
                "this board does not know the directory that its models are in; open that: Board(DIRECTORY)"
            )
        plugins = [*self.plugins, *further.pop("plugins", ())]
        if model is not None and not isinstance(model, str):
            model, files = trained_file(model, self.path)
            plugins = list(dict.fromkeys([*plugins, *files]))
        loaded = load_model(self.path, model, task, seed, plugins=plugins, **further)
        if self._file.results is not None and loaded.record.key not in set(self._file.results["key"]):
            raise UsageError(
                f"a later run has replaced this trial in {self.path}; open it again: Board({str(self.path)!r})"
            )
        return loaded

    def plot(
        self,
        kind: str = "pareto",
        *,
        tasks: str | Sequence[str] = "",
        models: str | Sequence[str] = "",
        against: str = "fit_seconds",
    ) -> Figure:
        """A figure of this board (matplotlib); ``.savefig("board.pdf")`` writes it.

        kind            ``"pareto"``: error against what it costs; ``"compute"``: error along a ladder of budgets, of
                        one task; ``"ranks"``: average ranks over tasks, with critical differences
        tasks, models   some of the board, as `choose_rows` reads them: names, globs, lists of these
        against         of ``pareto``: ``fit_seconds``, ``predict_ms``, ``params_real`` or ``fit_flops``
        """
        from ..plots import BOARD_KINDS, PARETO_COSTS, board_figures, board_looks
        from ..plots.style import SETTINGS, matplotlib

        _check("kind", kind, BOARD_KINDS)
        _check("against", against, PARETO_COSTS)
        whole, levels = self._file.summary, self._file.levels
        rows = choose_rows(whole, _spelled(tasks), _spelled(models))
        registry = load_registry(self.plugins)
        titles = registry.titles()
        look = board_looks(whole, titles, levels)
        shown = levels if not models else None  # the classical solver's, which are no rows of the board
        found = board_figures(rows, titles, self._metric, [kind], shown, registry.families(), look)
        drawn = [draw for name, draw in found if kind != "pareto" or name == f"pareto_{against}"]
        if len(drawn) > 1:
            names = ", ".join(dict.fromkeys(rows["task"]))
            raise UsageError(f"kind {kind!r} is one figure for each task; say which: tasks=...  ({names})")
        with matplotlib().rc_context(SETTINGS):
            return showing_itself(drawn[0]())

    def to_latex(self, *, tasks: str | Sequence[str] = "", models: str | Sequence[str] = "") -> str:
        """The leaderboard as a table for a paper; ``tasks`` and ``models`` choose as in `plot`, and order it."""
        registry, whole = load_registry(self.plugins), self._file.summary
        rows = choose_rows(whole, _spelled(tasks), _spelled(models))
        order = chosen_labels(models, list(dict.fromkeys(rows["model"])), "model") if models else []
        return leaderboard_latex(rows, registry.titles(), registry.metric_specs(), order, whole)

    def __repr__(self) -> str:
        return pages.to_text(self._file.summary, self._footer())

    def _repr_html_(self) -> str:
        return pages.to_html(self._file.summary, self._footer())

    def _footer(self) -> str:
        place = f"{self._file.name}: " if self.path is not None else ""
        count = len(self._file.results) if self._file.results is not None else 0
        trials = f"{count} trial{'s' * (count != 1)}" if count else "a leaderboard"
        more = f"; {self._elsewhere} more there: Board({str(self.path)!r})" if self._elsewhere > 0 else ""
        return f"{place}{trials}{more}"


def compare(
    reference: Board | str | Path | pd.DataFrame,
    *others: Board | str | Path | pd.DataFrame,
    force: bool = False,
    same_weights: bool = False,
    metric: MetricSpec | None = None,
) -> pd.DataFrame:
    """Every further board against the first."""
    sides = [as_file(source, number, metric) for number, source in enumerate((reference, *others), start=1)]
    higher = metric is not None and metric.higher_is_better
    found = compare_boards(sides, force=force, same_weights=same_weights, higher=higher)
    for note in found.notes:
        warnings.warn(note, ComparisonWarning, stacklevel=3)
    return found.table


def as_file(source: Board | str | Path | pd.DataFrame, number: int = 1, metric: MetricSpec | None = None) -> BoardFile:
    """A board in any form, read through a metric."""
    if isinstance(source, Board):
        if source._metric == metric:
            return source._file
        if source.path is None:
            raise UsageError("this board was read through another metric; open it again with Board(..., metric=...)")
        keys = None if source._file.results is None else list(source._file.results["key"])
        return _only(read_board(source.path, metric=metric), keys, metric)
    return read_board(source, f"table {number}" if isinstance(source, pd.DataFrame) else str(source), metric)


def metric_spec(name: str, plugins: Sequence[str] = ()) -> MetricSpec | None:
    """A metric by its name; None for each task's own."""
    return load_registry(plugins).metric(name).spec if name else None


def _only(file: BoardFile, keys: Collection[str] | None, metric: MetricSpec | None) -> BoardFile:
    """Some trials of a board, in this order, ranked among themselves."""
    if keys is None or file.results is None:
        return file
    places = {key: place for place, key in enumerate(keys)}
    results = file.results[file.results["key"].isin(list(places))]
    results = results.iloc[results["key"].map(places).argsort(kind="stable")].reset_index(drop=True)
    higher = metric is not None and metric.higher_is_better
    return replace(file, results=results, summary=frames.leaderboard(results, file.samples, higher_is_better=higher))


def _trials_in(path: Path | None) -> int:
    from ..trials.store import Store

    return len(Store(path).plan()) if path is not None else 0


def _spelled(names: str | Sequence[str]) -> str:
    return names if isinstance(names, str) else ",".join(names)


def _check(what: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise UsageError(f"no {what} {name!r}.{did_you_mean(name, known)}  There is: {', '.join(known)}")
