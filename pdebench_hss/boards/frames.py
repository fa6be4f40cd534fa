"""Records -> tables. Pure functions: records in, pandas out; nothing is ever edited by hand.

`results` has one row per trial, `leaderboard` one row per task and model. Rules:

* errors keep full precision; mean and standard deviation (n - 1) are over seeds, and only over those that ended well:
  a seed counts by its finite error, whatever its status claims
* what no seed changes has one run, which is complete: it is ``deterministic``, and has no deviation
* ``err_low`` and ``err_high`` are the 95 % interval of the mean (`intervals`), over test samples where they are at hand
* a rank is given to models all of whose expected seeds ended well, within one task, scale, budget and train size
* ``skill`` = 1 - error / error of the best training-free baseline in the same group; 0 is "no better than that". Of
  a metric whose larger values are the better ones (`metric_view`), value / best baseline's - 1
* the same model at several budgets is a ladder: each row says what the last step of it changed (`ladders`)
* errors that differ by less than `ROUNDING` of the field's size are equal: they share a rank, and a skill of 0
* a rollout of a trained model with a relative error above `BOUND` has diverged, whatever its record says
* what failed, was skipped or has not run yet is a row with its status and reason, never averaged over
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd

from ..base.devices import label
from ..training.metrics import mean_of
from ..trials.record import Record
from ..trials.status import Status
from ..trials.trial import Trial
from . import trust
from .intervals import Errors, error_interval
from .ladders import with_changes

# Columns as in the documentation; those that tell rows apart come first.
LEADERBOARD_COLUMNS = [
    *("task", "equation", "model", "scale", "budget", "n_train", "metric", "params_real", "params_numel"),
    *("test_err_mean", "test_err_std", "n_seeds", "n_expected", "rank", "skill", "fit_seconds", "predict_ms"),
    *("peak_memory_mb", "flops_step", "status", "reason", "data_hash", "hardware", "params_target", "data_id"),
    *("device", "err_low", "err_high", "fit_flops", "data_seconds", "training_free"),
]
METRICS = ("test_err", "relative_l2", "trajectory_l2", "rmse", "max_error")
RESULTS_COLUMNS = [
    *("key", "task", "equation", "model", "scale", "budget", "n_train", "seed", "metric"),
    *("params_real", "params_numel"),
    *METRICS,
    *("steps", "fit_seconds", "predict_ms"),
    *("peak_memory_mb", "flops_step", "status", "reason", "data_hash", "hardware", "params_target", "data_id"),
    *("device", "training_free", "fit_flops", "data_seconds"),
]
# Only if some row has a value, so that tables of boards that don't use them stay unchanged.
SERVING = (
    *("latency_ms", "latency_ms_low", "latency_ms_high"),
    *("throughput", "throughput_low", "throughput_high", "best_batch"),
)
OPTIONAL = (
    *("training", "val_err", "tuned_tries", "tuned_seconds", "tuned_options", "core_seconds", *SERVING),
    *("deterministic", "data_seed"),
)
YES = "yes"
BOUND = 10.0  # relative error of a rollout; nothing that stays near the data comes close
ROUNDING = 1e-12  # relative to the field's size: the effect of some 10^4 roundings in double precision
GROUP = ["task", "scale", "budget", "n_train", "params_target", "data_id", "device"]


def results(records: Iterable[Record]) -> pd.DataFrame:
    """One row per trial."""
    records = list(records)
    further = further_metrics(records)
    columns = [*RESULTS_COLUMNS, *OPTIONAL, *further]
    values = itemgetter(*RESULTS_COLUMNS, *OPTIONAL)  # as a tuple: a dict takes four times the memory
    rows = [(*values(_row(record)), *map(record.metrics.get, further)) for record in records]
    used = {name for place, name in enumerate(columns) if name in OPTIONAL and any(_says(row[place]) for row in rows)}
    places = [place for place, name in enumerate(columns) if name not in OPTIONAL or name in used]
    if len(places) < len(columns):
        rows = list(map(itemgetter(*places), rows))
    return pd.DataFrame(rows, columns=[columns[place] for place in places])


def _says(value: Any) -> bool:
    return value not in ("", None)


def further_metrics(records: Iterable[Record]) -> list[str]:
    """The metrics beyond the errors that every record has, sorted by name whatever the order of records."""
    return sorted({name for record in records for name in record.metrics} - {*METRICS, *OPTIONAL})


def _row(record: Record) -> dict[str, Any]:
    trial = record.trial
    return {
        "key": record.key,
        "task": trial.task_label,
        "equation": trial.equation,
        "model": trial.model_label,
        "scale": trial.scale,
        "budget": str(trial.budget),
        "n_train": trial.n_train,
        "seed": trial.seed,
        "metric": trial.metric,
        "params_real": record.parameters.get("real"),
        "params_numel": record.parameters.get("numel"),
        **{name: record.metrics.get(name) for name in METRICS},
        "steps": record.spent.get("steps"),
        "fit_seconds": record.seconds.get("fit"),
        "predict_ms": record.predict_ms,
        "peak_memory_mb": record.peak_memory / 1e6 if record.peak_memory is not None else None,
        "flops_step": record.flops_step,
        **dict(zip(("status", "reason"), ending_of(record), strict=True)),
        "data_hash": record.data.get("sha256"),
        "hardware": record.provenance.get("hardware", {}).get("id"),
        "params_target": trial.params_target,
        "data_id": trial.data_id[:12] + (f"+val{trial.val}" if trial.val else ""),
        "device": label(trial.device, trial.precision),
        "training_free": trial.training_free,
        "fit_flops": record.spent.get("flops"),
        "data_seconds": _data_seconds(record),
        "training": _training(trial),
        "val_err": record.metrics.get("val_err"),
        "tuned_tries": trial.tuned.get("tries"),
        "tuned_seconds": trial.tuned.get("seconds"),
        "tuned_options": _options(trial.tuned.get("options", {})) if trial.tuned else "",
        "deterministic": YES if trial.deterministic else "",
        "data_seed": trial.data_seed or "",
        "core_seconds": record.spent.get("core_seconds") if str(trial.budget).startswith("core_seconds=") else None,
        **{name: record.serving.get(name) for name in SERVING},
    }


def ending_of(record: Record) -> tuple[str, str]:
    """Status and reason as tables show them: a trained rollout that left every bound has diverged, finite or not."""
    error = record.metrics.get("relative_l2") or 0.0
    rollout = record.trial.metric == "trajectory_l2" or "correlation_time" in record.metrics
    if record.status is Status.OK and rollout and error > BOUND and not record.trial.training_free:
        return Status.DIVERGED.value, f"the rollout's relative error is {error:.2g}, above {BOUND:g}"
    return record.status.value, record.reason


def _training(trial: Trial) -> str:
    own = [trial.training] if trial.training else []
    if trial.unroll > 1:
        own.append(f"unrolled over {trial.unroll} steps{', detached' if trial.detach else ''}")
    return ", ".join(own)


def _options(options: Mapping[str, Any]) -> str:
    words = (f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in options.items())
    return " ".join(words) or "its defaults"


def solver_levels(records: Iterable[Record]) -> pd.DataFrame:
    """One row for each level measured by a classical solver's trial, named and grouped as on a leaderboard."""
    rows = []
    for record in records:
        row = _row(record) if record.levels else {}
        for level in record.levels:
            label = f"{record.trial.model}[level={level['level']}]"
            measured = {"model": label, "test_err_mean": level["test_err"], "predict_ms": level["predict_ms"]}
            chosen = level["level"] == record.trial.hparams.get("level")  # the one that the solver's own row has
            more = {**dict.fromkeys(SERVING), "latency_ms": level.get("latency_ms"), "chosen": chosen}
            rows.append({**row, **measured, **more})
    return pd.DataFrame(rows, columns=[*LEADERBOARD_COLUMNS, "latency_ms", "chosen"])


def _data_seconds(record: Record) -> float | None:
    """The cost of generating the training samples, in seconds of one core; zero if the model uses none."""
    if record.data.get("uses_train") is False:
        return 0.0
    per_sample, count = record.data.get("seconds_per_sample"), record.data.get("n_train")
    return per_sample * count if per_sample is not None and count is not None else None


def leaderboard(
    results: pd.DataFrame, samples: Mapping[str, np.ndarray] | None = None, *, higher_is_better: bool = False
) -> pd.DataFrame:
    """One row per task and model, best first. ``samples``: the errors of each test sample, by the key of a trial."""
    results = results[~_without_test(results)]
    used = [name for name in (*OPTIONAL, *trust.COLUMNS) if name in results]
    rows = [
        _summary(dict(zip([*GROUP, "model"], names, strict=True)), trials, samples or {})
        for names, trials in results.groupby([*GROUP, "model"], sort=False, dropna=False)
    ]
    columns = [*LEADERBOARD_COLUMNS, *used]
    board = pd.DataFrame(rows, columns=[*columns, "field_size"])
    parts = [_rank(group, higher_is_better) for _, group in board.groupby(GROUP, sort=False, dropna=False)]
    return with_changes(pd.concat(parts or [board], ignore_index=True)[columns], higher_is_better)


def is_deterministic(table: pd.DataFrame) -> pd.Series:
    """Of each row, whether its model declared that no seed changes it; tables of earlier versions don't say."""
    if "deterministic" not in table:
        return pd.Series(False, index=table.index)
    return table["deterministic"] == YES


def _without_test(results: pd.DataFrame) -> pd.Series:
    """Trials that ended well and were judged by held-out samples alone: a leaderboard is about test."""
    if "val_err" not in results:
        return pd.Series(False, index=results.index)
    return (results["status"] == Status.OK) & results["test_err"].isna() & results["val_err"].notna()


def seed_errors(trials: pd.DataFrame, samples: Mapping[str, np.ndarray]) -> Errors:
    """The errors of one cell whose trials all ended well."""
    keys = dict(zip(trials["seed"], trials["key"], strict=True))
    known = {seed: samples[key] for seed, key in keys.items() if key in samples}
    return Errors.of(dict(zip(trials["seed"], trials["test_err"], strict=True)), known)


def _summary(names: dict[str, Any], trials: pd.DataFrame, samples: Mapping[str, np.ndarray]) -> dict[str, Any]:
    counts = (trials["status"] == Status.OK) & np.isfinite(trials["test_err"].astype(float))
    good, bad = trials[counts], trials[~counts]
    shown = good if len(good) else trials
    first = shown.iloc[0]
    low, high = error_interval(seed_errors(good, samples)) if len(good) else (np.nan, np.nan)
    return {
        **names,
        **{column: first[column] for column in ("equation", "metric", "params_real", "params_numel", "flops_step")},
        **{column: _same(shown[column]) for column in ("data_hash", "hardware")},
        "test_err_mean": mean_of(good["test_err"].to_numpy(float)) if len(good) else np.nan,
        "test_err_std": _spread(good["test_err"]),
        "n_seeds": len(good),
        "n_expected": len(trials),
        **{column: shown[column].median() for column in ("fit_seconds", "predict_ms", "fit_flops", "data_seconds")},
        "err_low": low,
        "err_high": high,
        "peak_memory_mb": shown["peak_memory_mb"].max(),
        **_ending(bad),
        "training_free": bool(trials["training_free"].any()),
        "training": first.get("training", ""),
        "val_err": shown["val_err"].mean() if "val_err" in shown else np.nan,
        "core_seconds": shown["core_seconds"].median() if "core_seconds" in shown else np.nan,
        **{name: first.get(name, "") for name in ("deterministic", "data_seed")},
        **{name: first.get(name) for name in ("tuned_tries", "tuned_seconds", "tuned_options")},
        **{name: shown[name].median() for name in SERVING if name in shown},
        **trust.summary(shown),
        "field_size": (good["test_err"] / good["relative_l2"].where(good["relative_l2"] > 0)).median(),
    }


def _ending(bad: pd.DataFrame) -> dict[str, str]:
    """How a cell ended: the status and reason of its first trial without an error."""
    if bad.empty:
        return {"status": Status.OK.value, "reason": ""}
    first = bad.iloc[0]
    if first["status"] == Status.OK:
        return {"status": Status.DIVERGED.value, "reason": "the test error is not finite"}
    return {"status": str(first["status"]), "reason": str(first["reason"])}


def _spread(errors: pd.Series) -> float:
    """Standard deviation over seeds; exactly zero for equal errors, whose mean may be rounded."""
    if len(errors) < 2:
        return math.nan
    if errors.nunique() == 1:
        return 0.0
    with np.errstate(over="ignore"):
        spread = float(errors.std(ddof=1))
    if 0 < spread < math.inf:
        return spread
    largest = float(errors.max())  # squares of 1e200 or 1e-200: scale before squaring
    return float((errors / largest).std(ddof=1)) * largest


def _same(values: pd.Series) -> Any:
    """The value that all rows share; if they differ, all values, as a warning to the reader."""
    found = [str(value) for value in values.dropna().unique()]
    return "|".join(found) if found else None


def _rank(group: pd.DataFrame, higher_is_better: bool) -> pd.DataFrame:
    complete = group["n_seeds"] == group["n_expected"]
    errors = group["test_err_mean"].where(complete)
    size = group["field_size"].median()  # in the metric's own units: 1 for a relative error
    rounding = ROUNDING * (size if np.isfinite(size) else 1.0)
    group = group.assign(rank=_shared_ranks(-errors if higher_is_better else errors, rounding))
    baselines = errors[group["training_free"]]
    baseline = baselines.max() if higher_is_better else baselines.min()
    if np.isfinite(baseline) and baseline > 0:
        gain = errors / baseline - 1.0 if higher_is_better else 1.0 - errors / baseline
        group["skill"] = gain.mask((errors - baseline).abs() <= rounding, 0.0)
    return group.sort_values(["rank", "model"], na_position="last")


def _shared_ranks(errors: pd.Series, rounding: float) -> pd.Series:
    """Ranks from 1 on; errors within rounding of the first of a rank share it."""
    ranks: dict[Any, int] = {}
    first, place = -math.inf, 0
    for number, (row, error) in enumerate(errors.dropna().sort_values(kind="stable").items(), start=1):
        if error - first > rounding:
            first, place = error, number
        ranks[row] = place
    return pd.Series(ranks, dtype="Int64").reindex(errors.index)
