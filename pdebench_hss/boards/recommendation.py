"""Which models of a board are fast and accurate enough for a purpose, and by how much the others miss it.

A candidate is a row of a task's leaderboard, or a level of its classical solver. It qualifies if

    error <= max_error     its mean test error
    ms    <= max_ms        the median time of one answer (latency), or of a sample in batches of the best size

and ``excess`` measures how far it is from that: the larger of error / max_error and ms / max_ms, at most 1 if it
qualifies. A candidate that does may carry two warnings: the interval of its mean error reaches beyond the limit; one
answer in ten takes longer than the limit. If some records have no latency, as those of earlier versions, all rows are
judged by the time per test sample, so that one table has one measure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..base.errors import UsageError, did_you_mean
from ..contract.registry import Registry
from ..trials.status import Status
from ..trials.store import Store
from .frames import GROUP, leaderboard, solver_levels
from .writing import read_records, sorted_results

KINDS = ("model", "baseline", "solver level")
LATENCY, BATCHED, TESTED = "one input alone", "per sample, in batches of the best size", "per test sample"
COLUMNS = (
    *("model", "kind", "qualifies", "excess", "error", "err_high", "samples_within", "ms", "ms_high", "throughput"),
    *("fit_seconds", "data_seconds", "params_real", "peak_memory_mb", "note"),
)


@dataclass(frozen=True)
class Limits:
    """Limits on the time and the error of an answer; None means no limit."""

    max_ms: float | None = None
    max_error: float | None = None

    def __post_init__(self) -> None:
        if self.max_ms is None and self.max_error is None:
            raise UsageError("nothing was asked for; write --max-ms MILLISECONDS or --max-error ERROR, or both")
        for name, value in (("--max-ms", self.max_ms), ("--max-error", self.max_error)):
            if value is not None and not 0 < value < float("inf"):
                raise UsageError(f"{name} must be positive, not {value:g}")


@dataclass(frozen=True)
class Recommendation:
    """The candidates in ``table``, best first: those that qualify by their time, then the others by ``excess``.

    ``measure`` says what the milliseconds measure, ``without`` names models without a result, by reason.
    """

    task: str
    metric: str
    table: pd.DataFrame
    measure: str
    hardware: list[str]
    without: dict[str, str]

    @property
    def qualifying(self) -> pd.DataFrame:
        return self.table[self.table["qualifies"]]


def recommend(
    store: Store, registry: Registry, task: str, limits: Limits, *, batched: bool = False, setting: Sequence[str] = ()
) -> Recommendation:
    """``setting`` narrows the rows of the task: ``scale=small``, ``n_train=512`` and the like."""
    records, samples = read_records(store)
    results = sorted_results(records)
    rows = _of_task(leaderboard(results, samples), task, setting)
    levels = _like(solver_levels(records), rows.iloc[0]).drop_duplicates("model")  # the first of several seeds
    solvers = registry.models_in("solver")
    done = rows[rows["test_err_mean"].notna() & (rows["n_seeds"] == rows["n_expected"])]
    levels, done = levels.assign(kind=KINDS[2]), done.assign(kind=_kinds(done))
    if len(levels):  # includes the level of its own row
        done = done[~done["model"].str.partition("[")[0].isin(solvers)]
    candidates = pd.concat([done, levels], ignore_index=True)
    if candidates.empty:
        raise UsageError(f"no model on {task!r} has a result yet; see: pdebench-hss leaderboard {store.path}")
    times, measure = _times(candidates, batched)
    within = _samples_within(done, results, samples, limits.max_error) + [np.nan] * len(levels)
    table = _judged(candidates.assign(**times, samples_within=within), limits)
    bad = rows[~rows["model"].isin(done["model"]) & (rows["status"] != Status.OK)]
    without = {f"{row['model']}": f"{row['status']}: {row['reason']}" for _, row in bad.iterrows()}
    machines = sorted({str(name) for name in candidates["hardware"].dropna()})
    return Recommendation(task, str(candidates["metric"].iloc[0]), table, measure, machines, without)


def _of_task(board: pd.DataFrame, task: str, setting: Sequence[str]) -> pd.DataFrame:
    """The rows of one task, which must have one setting: an error with 64 samples says nothing about 512."""
    rows = board[board["task"] == task]
    if rows.empty:
        known = sorted(set(board["task"]))
        raise UsageError(f"no task {task!r} on this board.{did_you_mean(task, known)}  It has {', '.join(known)}")
    for word in setting:
        name, _, value = word.partition("=")
        if name not in GROUP[1:] or not value:
            raise UsageError(f"--where {word}: write one of {', '.join(f'{n}=...' for n in GROUP[1:])}")
        rows = rows[rows[name].map(_text) == value]
        if rows.empty:
            raise UsageError(f"--where {word}: no row of {task!r} has it")
    if len(groups := rows[GROUP].drop_duplicates()) > 1:
        differing = next(name for name in GROUP if groups[name].map(_text).nunique() > 1)
        choices = ", ".join(f"{differing}={value}" for value in sorted(groups[differing].map(_text).unique()))
        raise UsageError(f"{task!r} has rows of several settings; choose one by --where: {choices}")
    return rows


def _like(table: pd.DataFrame, row: pd.Series) -> pd.DataFrame:
    """The rows of the same task and setting."""
    alike = [all(_text(a) == _text(b) for a, b in zip(names, row[GROUP], strict=True)) for names in table[GROUP].values]
    return table[np.array(alike, dtype=bool)]


def _text(value: object) -> str:
    """As a user would type it; a missing target is None in one table and NaN in another."""
    return "none" if value is None or value != value else f"{value:g}" if isinstance(value, float) else str(value)


def _kinds(rows: pd.DataFrame) -> list[str]:
    return [KINDS[1] if free else KINDS[0] for free in rows["training_free"]]


def _times(rows: pd.DataFrame, batched: bool) -> tuple[dict[str, pd.Series], str]:
    """Milliseconds, the value that one answer in ten exceeds, and what they measure."""
    unknown = pd.Series(np.nan, index=rows.index)
    column = lambda name: rows[name].astype(float) if name in rows else unknown  # noqa: E731
    if batched:
        per_sample = (1e3 / column("throughput")).fillna(column("predict_ms"))
        return {"ms": per_sample, "ms_high": 1e3 / column("throughput_low")}, BATCHED
    if "latency_ms" in rows and rows["latency_ms"].notna().all():
        return {"ms": column("latency_ms"), "ms_high": column("latency_ms_high")}, LATENCY
    return {"ms": column("predict_ms"), "ms_high": unknown}, TESTED


def _samples_within(
    done: pd.DataFrame, results: pd.DataFrame, samples: Mapping[str, np.ndarray], limit: float | None
) -> list[float]:
    """For each row, the share of its test samples (over all seeds) whose error is within the limit."""
    identity = [*GROUP, "model"]
    keys: dict[tuple[str, ...], list[str]] = {}
    for (_, names), key in zip(results[identity].iterrows(), results["key"], strict=True):
        keys.setdefault(tuple(map(_text, names)), []).append(key)
    shares = []
    for _, names in done[identity].iterrows():
        known = [samples[key] for key in keys[tuple(map(_text, names))] if key in samples]
        shares.append(float(np.mean(np.concatenate(known) <= limit)) if known and limit is not None else np.nan)
    return shares


def _judged(rows: pd.DataFrame, limits: Limits) -> pd.DataFrame:
    rows = rows.assign(error=rows["test_err_mean"].astype(float))
    parts = [(rows["error"], limits.max_error), (rows["ms"], limits.max_ms)]
    shares = [values / limit for values, limit in parts if limit is not None]
    excess = pd.concat(shares, axis=1).max(axis=1, skipna=False)
    rows = rows.assign(excess=excess.fillna(np.inf), qualifies=excess <= 1)
    rows["note"] = [_note(row, limits) for _, row in rows.iterrows()]
    order = np.where(rows["qualifies"], rows["ms"].fillna(np.inf), rows["excess"])
    rows = rows.assign(order=order).sort_values(["qualifies", "order", "error"], ascending=[False, True, True])
    numbers = [name for name in COLUMNS if name not in ("model", "kind", "qualifies", "note")]
    return rows.reindex(columns=COLUMNS).reset_index(drop=True).astype(dict.fromkeys(numbers, float))


def _note(row: pd.Series, limits: Limits) -> str:
    """By how much it misses the limits; if it does not, any warnings."""
    error, ms = limits.max_error, limits.max_ms
    if not row["qualifies"]:
        if ms is not None and pd.isna(row["ms"]):
            return "its time is not known"
        too_wrong = error is not None and row["error"] > error
        too_slow = ms is not None and row["ms"] > ms
        misses = [f"error {row['error'] / error:.3g} times the limit"] if too_wrong and error else []
        return ", ".join([*misses, *([f"{row['ms'] / ms:.3g} times too slow"] if too_slow and ms else [])])
    careful = []
    if error is not None and row["err_high"] > error:
        careful.append(f"the interval of its error reaches {row['err_high']:.3g}")
    if ms is not None and row["ms_high"] > ms:
        careful.append(f"one answer in ten takes {row['ms_high']:.3g} ms or more")
    return "; ".join(careful)
