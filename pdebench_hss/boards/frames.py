"""Records -> tables. Pure functions: records in, pandas out; nothing is ever edited by hand.

`results` has one row per trial, `leaderboard` one row per task and model. Rules:

* errors keep full precision; mean and standard deviation (n - 1) are over seeds, and only over those that ended well:
  a seed counts by its finite error, whatever its status claims
* ``err_low`` and ``err_high`` are the 95 % interval of the mean (`intervals`), over test samples where they are at hand
* a rank is given to models all of whose expected seeds ended well, within one task, scale, budget and train size
* ``skill`` = 1 - error / error of the best training-free baseline in the same group; 0 is "no better than that". Of
  a metric whose larger values are the better ones (`metric_view`), value / best baseline's - 1
* errors that differ by less than `ROUNDING` of the field's size are equal: they share a rank, and a skill of 0
* what failed, was skipped or has not run yet is a row with its status and reason, never averaged over
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from ..base.devices import label
from ..base.plain_text import code, markdown
from ..training.metrics import mean_of
from ..trials.record import Record
from ..trials.status import Status
from ..trials.trial import Trial
from . import trust
from .intervals import Errors, error_interval

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
OPTIONAL = ("training", "val_err", "tuned_tries", "tuned_seconds", "tuned_options", "core_seconds", *SERVING)
ALIKE = 3.0  # allowed ratio of model sizes in a table that compares methods and not sizes
ROUNDING = 1e-12  # relative to the field's size: the effect of some 10^4 roundings in double precision
GROUP = ["task", "scale", "budget", "n_train", "params_target", "data_id", "device"]


def results(records: Iterable[Record]) -> pd.DataFrame:
    """One row per trial."""
    records = list(records)
    further = further_metrics(records)
    columns = [*RESULTS_COLUMNS, *OPTIONAL, *further]
    rows = []
    for record in records:
        row = {**_row(record), **{name: record.metrics.get(name) for name in further}}
        rows.append(tuple(row[name] for name in columns))  # a dict takes four times the memory
    used = {name for place, name in enumerate(columns) if name in OPTIONAL and any(_says(row[place]) for row in rows)}
    places = [place for place, name in enumerate(columns) if name not in OPTIONAL or name in used]
    if len(places) < len(columns):
        rows = [tuple(row[place] for place in places) for row in rows]
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
        "status": record.status.value,
        "reason": record.reason,
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
        "core_seconds": record.spent.get("core_seconds") if str(trial.budget).startswith("core_seconds=") else None,
        **{name: record.serving.get(name) for name in SERVING},
    }


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
            rows.append({**row, **measured, **dict.fromkeys(SERVING), "latency_ms": level.get("latency_ms")})
    return pd.DataFrame(rows, columns=[*LEADERBOARD_COLUMNS, "latency_ms"])


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
    return pd.concat(parts or [board], ignore_index=True)[columns]


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


def to_markdown(board: pd.DataFrame) -> str:
    """One table per group, as on the screen."""
    from tabulate import tabulate

    parts = []
    for _, group in board.groupby(GROUP, sort=False, dropna=False):
        first = group.iloc[0]
        parts.append(f"## {markdown(title(first))} (`{code(first['task'])}`)\n\n{markdown(group_line(first))}\n")
        rows = [[markdown(cell) for cell in display_row(row)] for _, row in group.iterrows()]
        parts.append(tabulate(rows, headers=DISPLAY_HEADERS, tablefmt="github", disable_numparse=True) + "\n")
        if note := size_note(group):
            parts.append(f"{markdown(note)}\n")
    return "\n".join(parts)


def size_note(group: pd.DataFrame) -> str:
    """A footnote if trained models of one table differ in size by more than `ALIKE`; otherwise empty."""
    trained = group[~group["training_free"].astype(bool) & (group["params_real"] > 0)]
    sizes = trained.set_index("model")["params_real"].astype(float).sort_values(kind="stable")
    if sizes.empty or sizes.iloc[-1] <= ALIKE * sizes.iloc[0]:
        return ""
    typical = sizes.median()
    far = sizes[(sizes * ALIKE < typical) | (sizes > ALIKE * typical)]
    named = far if len(far) else sizes.iloc[[0, -1]]
    listed = ", ".join(f"{model} {human_count(count)}" for model, count in named.items())
    return f"Sizes differ by more than a factor of three: {listed}, median {human_count(typical)} parameters."


DISPLAY_HEADERS = ["#", "model", "error", "params", "fit", "predict", "skill", ""]


def title(row: pd.Series) -> str:
    """The equation's name; titles may have TeX's dash."""
    return str(row["equation"]).replace("--", "–")


def group_line(row: pd.Series) -> str:
    parts = [f"scale {row['scale']}", str(row["budget"]), _training_samples(row), str(row["metric"])]
    if pd.notna(row["params_target"]):
        parts.append(f"sizes matched to {human_count(row['params_target'])} parameters")
    if row["device"] != "cpu":
        parts.append(str(row["device"]))
    return " · ".join(parts)


def _training_samples(row: pd.Series) -> str:
    count = held_out(row)
    return f"{row['n_train']} training samples" + (f" and {count} held out" if count else "")


def held_out(row: pd.Series) -> int:
    """Training samples that were held out."""
    return int(str(row["data_id"]).partition("+val")[2] or 0)


def display_row(row: pd.Series) -> list[str]:
    """A leaderboard row formatted for readers."""
    error = format_error(row["test_err_mean"])
    if row["test_err_std"] > 0:  # closed forms don't depend on the seed
        error += f" ± {format_error(row['test_err_std'])}"
    if 0 < row["n_seeds"] < row["n_expected"]:
        error += f" ({row['n_seeds']} of {row['n_expected']} seeds)"
    params = human_count(row["params_real"]) if pd.notna(row["params_real"]) and row["params_real"] else "–"
    if params != "–" and pd.notna(row["params_target"]):
        params += f" ({100 * (row['params_real'] / row['params_target'] - 1):+.1f} %)"
    return [
        str(row["rank"]) if pd.notna(row["rank"]) else "–",
        str(row["model"]),
        error,
        params,
        _fit_time(row),
        f"{row['predict_ms']:.2g} ms" if pd.notna(row["predict_ms"]) else "–",
        format_skill(row["skill"]),
        trust.noted(training_note(row), row) if row["status"] == Status.OK else _status_text(row),
    ]


def _fit_time(row: pd.Series) -> str:
    """By the wall clock; also in core-seconds, if the budget counts those."""
    if pd.isna(row["fit_seconds"]):
        return "–"
    cores = row.get("core_seconds")
    return f"{row['fit_seconds']:.1f} s" + (f" ({cores:.1f} core-s)" if pd.notna(cores) else "")


def training_note(row: pd.Series) -> str:
    """What sets a model's training apart: the parts that are its own, and options that were chosen by tuning."""
    return "; ".join(filter(None, (own_training(row), tuning(row))))


def own_training(row: pd.Series) -> str:
    """What a model does itself instead of the core: own loss, own optimiser, trains itself."""
    own = row.get("training", "")
    return own if isinstance(own, str) else ""


def tuning(row: pd.Series) -> str:
    """The number of tries in which a model's options were chosen, their cost and the choice; empty if not tuned."""
    if pd.isna(row.get("tuned_tries")):
        return ""
    return f"{row['tuned_tries']:.0f} tries, {row['tuned_seconds']:.0f} s: {row['tuned_options']}"


def _status_text(row: pd.Series) -> str:
    return (
        str(row["reason"]) if row["status"] in (Status.SKIPPED, Status.MISSING) else f"{row['status']}: {row['reason']}"
    )


def format_error(value: float) -> str:
    """Short, but never rounded to nothing: 0.2113, 3.1e-08."""
    if pd.isna(value):
        return "–"
    return f"{value:.4f}" if 0.01 <= value < 1000 else f"{value:.2e}"


def format_skill(value: float) -> str:
    """In percent; far below zero, as a multiple of the baseline's error: 250×, 3e+12×."""
    if pd.isna(value):
        return "–"
    if value > -10:
        return f"{100 * value:+.0f}%"
    times = 1 - value
    return f"{times:.0f}×" if times < 1000 else f"{times:.0e}×"


def human_count(count: float) -> str:
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "K")):
        if count >= limit:
            return f"{count / limit:.3g}{unit}"
    return f"{count:.0f}"
