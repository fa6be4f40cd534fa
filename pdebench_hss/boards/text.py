"""Leaderboard rows -> what people read: the Markdown page, the cells of a row, numbers at their right length."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from ..base.plain_text import code, markdown
from ..trials.status import Status
from . import trust
from .frames import GROUP, is_deterministic
from .ladders import change_text

INTERVAL = "95 % interval"
ALIKE = 3.0  # allowed ratio of model sizes in a table that compares methods and not sizes


def to_markdown(board: pd.DataFrame) -> str:
    """One table per group, as on the screen, and with the 95 % intervals of errors, for which a page has room."""
    from tabulate import tabulate

    parts = []
    for _, group in board.groupby(GROUP, sort=False, dropna=False):
        first = group.iloc[0]
        parts.append(f"## {markdown(title(first))} (`{code(first['task'])}`)\n\n{markdown(group_line(first))}\n")
        headers = display_headers(group, intervals=True)
        rows = [[markdown(cell) for cell in display_row(row, headers)] for _, row in group.iterrows()]
        parts.append(tabulate(rows, headers=headers, tablefmt="github", disable_numparse=True) + "\n")
        parts += [f"{markdown(note)}\n" for note in (seed_note(group), size_note(group)) if note]
    return "\n".join(parts)


def seed_note(group: pd.DataFrame) -> str:
    """Which rows are of one run because no seed changes them; empty where all are of one."""
    if not (group["n_expected"] > 1).any():
        return ""
    once = group.loc[is_deterministic(group) & (group["n_seeds"] > 0), "model"]
    return f"Deterministic, so run once and not once a seed: {', '.join(once)}." if len(once) else ""


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


def display_headers(group: pd.DataFrame, *, intervals: bool = False) -> list[str]:
    """The columns of a table; whether rows are converged only if a smaller budget is there to tell."""
    known = "budget_change" in group and group["budget_change"].notna().any()
    interval = [INTERVAL] if intervals and "err_low" in group and group["err_low"].notna().any() else []
    return [
        "#",
        "model",
        "error",
        *interval,
        "params",
        "fit",
        "predict",
        "skill",
        *(["converged"] if known else []),
        "",
    ]


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


def display_row(row: pd.Series, headers: Sequence[str] = ()) -> list[str]:
    """A leaderboard row formatted for readers, under the ``headers`` of its table."""
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
        *([interval_text(row)] if INTERVAL in headers else []),
        params,
        _fit_time(row),
        f"{row['predict_ms']:.2g} ms" if pd.notna(row["predict_ms"]) else "–",
        format_skill(row["skill"]),
        *([change_text(row) or "–"] if "converged" in headers else []),
        trust.noted(training_note(row), row) if row["status"] == Status.OK else _status_text(row),
    ]


def interval_text(row: pd.Series) -> str:
    """The 95 % interval of the error, or a dash if it is not known."""
    low, high = row["err_low"], row["err_high"]
    if pd.isna(low) or pd.isna(high):
        return "–"
    return f"[{format_error(low)}, {format_error(high)}]"


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
