"""A leaderboard as a whole: average ranks, Pareto fronts, and when a trained model has paid for itself.

Ranks       models are ranked on each of N tasks and the ranks averaged (ties share their mean). Two of k models differ
            at level alpha if their average ranks differ by more than Nemenyi's critical difference

                CD = q_alpha sqrt(k (k + 1) / (6 N)),      q_alpha = studentised range (k, infinity) / sqrt(2)

            (Demšar, "Statistical comparisons of classifiers over multiple data sets", JMLR 2006.) Ranks need complete
            rows: a model that did not finish every task is left out and named, never given a rank for what it skipped.
            N counts families of tasks (`TaskSpec.family`), because the variants of one equation are no independent
            evidence: in a family of several tasks, models are ranked by their average rank over these.
Pareto      a row is on the front of its task if no other is at least as good in error and in cost, and better in one.
Break-even  a trained model costs its training data and its training once and t_model per solve; the classical solver
            of equal accuracy costs t_solver per solve. The first is cheaper from

                n = (t_data + t_fit) / (t_solver - t_model)      solves on; never, if it is not faster.

            The solver of equal accuracy is the cheapest of its levels that is at least as accurate as the model. That
            needs all levels: with one alone, a model would be compared with a solver that is far more accurate. And a
            model that is no better than a guess (the mean, or no change) repays nothing.

All functions take a leaderboard (a DataFrame as `tables.leaderboard` makes it) and change nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pandas as pd

from ..base.errors import UsageError
from ..trials.status import Status
from .frames import GROUP

NO_FAMILIES: Mapping[str, str] = MappingProxyType({})
COSTS = ("fit_seconds", "predict_ms", "params_real", "flops_step", "fit_flops", "peak_memory_mb")


@dataclass(frozen=True)
class Ranking:
    """Average ranks over tasks, best first.

    ranks       model -> average rank; index ``model``
    tasks       the tasks that were ranked on
    families    how many families these belong to: the N above
    left_out    model -> how many tasks of the board it did not finish
    difference  Nemenyi's critical difference; NaN with fewer than two models or families
    p_value     Friedman's test of "all models are alike"; NaN likewise
    """

    ranks: pd.Series
    tasks: list[str]
    families: int
    left_out: dict[str, int]
    difference: float
    p_value: float

    @property
    def indistinct(self) -> list[list[str]]:
        return indistinct(self.ranks, self.difference)


def counted(ranking: Ranking) -> str:
    """``12 tasks``; where some are variants of one equation, ``15 tasks of 9 families, each with one vote``."""
    tasks = f"{len(ranking.tasks)} task{'s' * (len(ranking.tasks) != 1)}"
    if ranking.families == len(ranking.tasks):
        return tasks
    return f"{tasks} of {ranking.families} famil{'ies' if ranking.families != 1 else 'y'}, each with one vote"


def average_ranks(
    board: pd.DataFrame,
    models: Sequence[str] | None = None,
    alpha: float = 0.05,
    families: Mapping[str, str] = NO_FAMILIES,
) -> Ranking:
    """Rank the models that finished every task; or ``models``, on the tasks that all of them finished.

    ``families``: task name -> family (`Registry.families`); a task that is not in it is a family of its own.
    """
    errors = _errors_by_task(board)
    if models is None:
        chosen = errors.dropna(axis="columns")
    else:
        unknown = [model for model in models if model not in errors]
        if unknown:
            raise UsageError(f"no model {unknown[0]!r} on the board; it has {', '.join(map(str, errors))}")
        chosen = errors[list(models)].dropna(axis="index")
    votes = _votes(chosen, families)
    ranks = votes.mean().sort_values(kind="stable").rename("average_rank")
    n, k = votes.shape
    absent = errors.isna().sum()
    return Ranking(
        ranks,
        [str(task) for task in chosen.index],
        n,
        {str(model): int(count) for model, count in absent.items() if model not in chosen},
        critical_difference(k, n, alpha) if k > 1 and n > 1 else math.nan,
        _friedman(votes) if k > 1 and n > 1 else math.nan,
    )


def _votes(errors: pd.DataFrame, families: Mapping[str, str]) -> pd.DataFrame:
    """Families x models: the ranks that each family gives. Settings in brackets are variants, too."""
    names = [str(task).partition("[")[0] for task in errors.index]
    family = pd.Series([families.get(name, name) for name in names], index=errors.index, dtype=object)
    within = errors.rank(axis="columns").groupby(family, sort=False).mean()
    return within.round(9).rank(axis="columns")  # thirds of a rank are equal if they are equal but for rounding


def _errors_by_task(board: pd.DataFrame) -> pd.DataFrame:
    """Tasks x models, NaN where a model did not finish all its seeds. A task must have been run in one setting only."""
    ways = board[GROUP].drop_duplicates()
    several = ways["task"][ways["task"].duplicated()]
    if len(several):
        task = several.iloc[0]
        columns = [c for c in GROUP if ways.loc[ways["task"] == task, c].nunique(dropna=False) > 1]
        raise UsageError(
            f"{task} is on the board in several ways ({', '.join(columns)} differ); ranks need one: filter the board"
        )
    complete = board[board["rank"].notna()]
    errors = complete.pivot(index="task", columns="model", values="test_err_mean")
    return errors.reindex(index=board["task"].unique(), columns=sorted(board["model"].unique()))


def critical_difference(k: int, n: int, alpha: float = 0.05) -> float:
    """Nemenyi's: average ranks of ``k`` models over ``n`` tasks that differ by more are different at level alpha."""
    from scipy.stats import studentized_range

    return float(studentized_range.ppf(1 - alpha, k, math.inf) / math.sqrt(2) * math.sqrt(k * (k + 1) / (6 * n)))


def _friedman(votes: pd.DataFrame) -> float:
    """Iman and Davenport's form of Friedman's test, with average ranks for ties; p-value."""
    from scipy.stats import f

    n, k = votes.shape
    ranks = votes.to_numpy()
    between = n * np.square(ranks.mean(axis=0) - (k + 1) / 2).sum()
    total = np.square(ranks - (k + 1) / 2).sum()
    if total == 0:
        return 1.0  # every task a tie
    if between == total:
        return 0.0  # every task in the same order
    statistic = (n - 1) * between / (total - between)
    return float(f.sf(statistic, k - 1, (k - 1) * (n - 1)))


def indistinct(ranks: pd.Series, difference: float) -> list[list[str]]:
    """The longest runs of two or more models whose ranks lie within the critical difference: the bars of the plot."""
    ordered = ranks.sort_values(kind="stable")
    runs: list[tuple[int, int]] = []
    for start, first in enumerate(ordered):
        stop = int((ordered <= first + difference).sum())
        if stop - start > 1 and (not runs or stop > runs[-1][1]):
            runs.append((start, stop))
    return [[str(model) for model in ordered.index[start:stop]] for start, stop in runs]


def pareto(board: pd.DataFrame, x: str) -> pd.DataFrame:
    """The rows that have an error and a cost ``x``, with a column ``on_front``; each task is a front of its own."""
    if x not in COSTS:
        raise UsageError(f"no cost {x!r}; costs: {', '.join(COSTS)}")
    rows = board[(board["status"] == Status.OK) & board[x].notna() & board["test_err_mean"].notna()]
    on_front = pd.Series(False, index=rows.index)
    for _, group in rows.groupby(GROUP, sort=False, dropna=False):
        costs, errors = group[x].to_numpy(float), group["test_err_mean"].to_numpy(float)
        no_worse = (costs[:, None] <= costs) & (errors[:, None] <= errors)  # [i, j]: row i is no worse than row j
        better = (costs[:, None] < costs) | (errors[:, None] < errors)
        on_front.loc[group.index] = ~np.any(no_worse & better, axis=0)
    return rows.assign(on_front=on_front)


NO_SOLVER = "no classical solver on the board"
SOLVER_COLUMNS = ["model", "test_err_mean", "predict_ms", "hardware"]
BREAK_EVEN_COLUMNS = [
    *(*GROUP, "model", "test_err_mean", "data_seconds", "fit_seconds", "predict_ms"),
    *("solver", "solver_err", "solver_ms", "break_even", "note"),
]


def break_even(
    board: pd.DataFrame, solvers: Sequence[str], guesses: Sequence[str] = (), levels: pd.DataFrame | None = None
) -> pd.DataFrame:
    """After how many solves each model has repaid its data and its training against the solver of equal accuracy.

    ``solvers`` are the classical ones; ``guesses`` are what a model has to beat before its speed counts.
    ``levels`` has a row per level of a solver that a trial measured (`frames.solver_levels`).
    ``break_even`` is infinite where the model is not faster, and NaN where ``note`` says why there is none.
    """
    rows = []
    finished = board[board["status"] == Status.OK]
    for _, group in finished.groupby(GROUP, sort=False, dropna=False):
        name = group["model"].str.partition("[")[0]
        classical = _levels_of(group[name.isin(solvers)], levels)
        guess = group[name.isin(guesses)]
        for _, row in group[~name.isin([*solvers, *guesses])].iterrows():
            rows.append({**row[BREAK_EVEN_COLUMNS[: len(GROUP) + 5]], **_repaid(row, classical, guess)})
    return pd.DataFrame(rows, columns=BREAK_EVEN_COLUMNS)


def _levels_of(solvers: pd.DataFrame, levels: pd.DataFrame | None) -> pd.DataFrame:
    """The solver's rows on the board and all levels that its trials measured; each is a solver to compare with."""
    rows = solvers[SOLVER_COLUMNS]
    if levels is None or levels.empty or solvers.empty:
        return rows
    first = solvers.iloc[0]
    same = np.logical_and.reduce([(levels[c] == first[c]) | (levels[c].isna() & pd.isna(first[c])) for c in GROUP])
    return pd.concat([levels.loc[same, SOLVER_COLUMNS], rows], ignore_index=True)


def _repaid(row: pd.Series, solvers: pd.DataFrame, guesses: pd.DataFrame) -> dict[str, object]:
    if solvers.empty:
        return {"break_even": math.nan, "note": NO_SOLVER}
    better = guesses[guesses["test_err_mean"] <= row["test_err_mean"]]
    if len(better):
        return {"break_even": math.nan, "note": f"no better than {better.iloc[0]['model']}"}
    if len(solvers) == 1:
        return {"break_even": math.nan, "note": "one level of the solver was measured; a cheaper one may do"}
    able = solvers[(solvers["test_err_mean"] <= row["test_err_mean"]) & solvers["predict_ms"].notna()]
    if able.empty:
        return {"break_even": math.nan, "note": "no level of the solver is this accurate"}
    best = able.loc[able["predict_ms"].idxmin()]
    found = {"solver": best["model"], "solver_err": best["test_err_mean"], "solver_ms": best["predict_ms"]}
    if row["hardware"] != best["hardware"]:
        return {**found, "break_even": math.nan, "note": "timed on another machine than the solver"}
    for column, what in (("data_seconds", "making the data"), ("fit_seconds", "training"), ("predict_ms", "a solve")):
        if pd.isna(row[column]):
            return {**found, "break_even": math.nan, "note": f"how long {what} took is not recorded"}
    saved = (best["predict_ms"] - row["predict_ms"]) / 1e3
    invested = row["data_seconds"] + row["fit_seconds"]
    return {**found, "break_even": invested / saved if saved > 0 else math.inf, "note": ""}
