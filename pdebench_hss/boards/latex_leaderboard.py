r"""A leaderboard as a table for a paper: a row per model, a column per task, mean $\pm$ standard deviation.

Digits follow one rule: in a column all errors from 0.01 to 1000 have the same number of decimals, enough to show the
smallest standard deviation, from two to four; other errors have two decimals and a power of ten, which mean and
deviation share. A deviation is never rounded to zero. The best is bold and the second best underlined among all rows
shown, baselines included. Nothing is left out in silence: the caption says what the numbers are, in which units, under
which budget, why cells are empty, and which models of the board are not shown.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from ..base.plain_text import latex
from ..contract.budget import parse_budget
from ..contract.metric import MetricSpec
from .frames import GROUP
from .ladders import unit_of
from .latex_layout import MISSING, Column, Row, marked, named, ordered, table
from .text import human_count

FEW, MANY = 2, 4  # decimals of a column
UNITS = {"1": "no unit", "field": "in the units of the solution"}
# Said once if all columns share it, else written above each; with what it is called there.
SETTINGS = {
    "scale": "scale",
    "budget": "budget",
    "n_train": "training samples",
    "params_target": "parameters",
    "device": "device",
    "metric": "metric",
}


def leaderboard_latex(
    board: pd.DataFrame,
    titles: Mapping[str, str],
    metrics: Iterable[MetricSpec] = (),
    models: Sequence[str] = (),
    whole: pd.DataFrame | None = None,
) -> str:
    """``board``: the rows to show (`choose_rows`) of the ``whole`` board; ``models``: their order, if it matters."""
    groups = [group for _, group in board.groupby(GROUP, sort=False, dropna=False)]
    varied = [name for name in SETTINGS if len({_text(group[name].iloc[0]) for group in groups}) > 1]
    known = {spec.name: spec for spec in metrics}
    columns = [_column(group.iloc[0], varied, known) for group in groups]
    reasons = _reasons(board)
    cells = [_cells(group, reasons) for group in groups]
    free = set(board.loc[board["training_free"].astype(bool), "model"])
    order = models or ordered(dict.fromkeys(board["model"]), titles)
    rows = [Row(named(m, titles), [column.get(m, MISSING) for column in cells], m in free) for m in _last(order, free)]
    notes = [*_what(board, varied, known), *_notes(board, reasons, titles), *_hidden(board, whole, titles)]
    return table(columns, rows, " ".join(notes), "tab:leaderboard")


def _last(models: Sequence[str], free: set[str]) -> list[str]:
    """Baselines come last."""
    return [m for m in models if m not in free] + [m for m in models if m in free]


def _column(first: pd.Series, varied: Sequence[str], metrics: Mapping[str, MetricSpec]) -> Column:
    options = str(first["task"]).partition("[")[2].rstrip("]")
    head = str(first["equation"]).replace("--", "–") + (f" ({options})" if options else "")
    return Column(head, {SETTINGS[name]: _value(first, name, metrics) for name in varied})


def _value(row: pd.Series, name: str, metrics: Mapping[str, MetricSpec]) -> str:
    """A setting below a head, beside its name."""
    value = row[name]
    if name == "metric":
        return metrics[value].title if value in metrics else str(value)
    if name == "budget":
        budget = parse_budget(str(value))
        return f"{budget.amount:g} {unit_of(budget.kind)}"
    if name == "params_target":
        return human_count(value) if pd.notna(value) else "not matched"
    return str(value)


def _said(row: pd.Series, name: str) -> str:
    """A setting that all columns share, in words."""
    words = {"scale": "scale {}", "n_train": "{} training samples", "params_target": "sizes matched to {} parameters"}
    return words.get(name, "{}").format(_value(row, name, {}))


def _text(value: Any) -> str:
    return "" if pd.isna(value) else str(value)


# ---------------------------------------------------------------- numbers


def _cells(group: pd.DataFrame, reasons: Sequence[str]) -> dict[str, str]:
    """The cells of a column by model; an empty one has the number of its reason."""
    decimals = decimals_of(group["test_err_mean"], group["test_err_std"])
    places = sorted(set(group["rank"].dropna()))[:2]  # equal errors share a rank, and so a mark
    found = {}
    for _, row in group.iterrows():
        if pd.isna(row["test_err_mean"]):
            found[str(row["model"])] = f"{MISSING}$^{{{reasons.index(_reason(row)) + 1}}}$"
            continue
        mark = places.index(row["rank"]) + 1 if pd.notna(row["rank"]) and row["rank"] in places else 0
        number = number_text(row["test_err_mean"], row["test_err_std"], decimals)
        found[str(row["model"])] = marked(number, mark) + (r"$^\dagger$" if row["n_seeds"] < row["n_expected"] else "")
    return found


def _is_plain(value: float) -> bool:
    return 0.01 <= abs(value) < 1000 or value == 0


def decimals_of(means: Iterable[float], deviations: Iterable[float]) -> int:
    """Decimals of a column: those of the first digit of its smallest deviation, within bounds."""
    pairs = zip(means, deviations, strict=True)
    first = [-math.floor(math.log10(std)) for mean, std in pairs if _is_plain(mean) and std > 0 and math.isfinite(std)]
    return min(max(max(first, default=3), FEW), MANY)


def number_text(mean: float, deviation: float, decimals: int) -> str:
    r"""``0.213 \pm 0.004`` or ``(3.10 \pm 0.20) \times 10^{-8}``, without the dollars."""
    power = 0 if _is_plain(mean) else math.floor(math.log10(abs(mean)))
    if power and abs(float(f"{mean / 10.0**power:.2f}")) >= 10:  # 9.999e-5 is 1.00e-4
        power += 1
    digits, unit = (2, 10.0**power) if power else (decimals, 1.0)
    text = f"{mean / unit:.{digits}f}"
    if deviation > 0:
        rounded = f"{deviation / unit:.{digits}f}"
        least = 10.0**-digits
        text += rf" \pm {rounded if float(rounded) else f'{{<}}{least:.{digits}f}'}"
        return rf"({text}) \times 10^{{{power}}}" if power else text
    return rf"{text} \times 10^{{{power}}}" if power else text


# ---------------------------------------------------------------- the caption


def _what(board: pd.DataFrame, varied: Sequence[str], metrics: Mapping[str, MetricSpec]) -> list[str]:
    """What the numbers are, and under which settings all of them were made."""
    first = board.iloc[0]
    measures = "; ".join(_measure(name, metrics) for name in dict.fromkeys(board["metric"]))
    usual = {"metric": True, "device": first["device"] == "cpu", "params_target": pd.isna(first["params_target"])}
    common = [_said(first, name) for name in SETTINGS if name not in varied and not usual.get(name, False)]
    trained = board[~board["training_free"].astype(bool)]
    seeds = sorted({int(n) for n in (trained if len(trained) else board)["n_expected"]})
    over = f"{seeds[0]} seed{'s' * (seeds[0] > 1)}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]} seeds"
    spread = rf"mean $\pm$ standard deviation over {over}" if seeds[-1] > 1 else "one seed"
    lines = [f"{with_formulas(measures)}: {spread}."]
    if common:
        said = ", ".join(common)
        lines.append(f"{latex(said[:1].upper() + said[1:])}.")
    lines.append(r"\textbf{Bold}: best; \underline{underlined}: second best.")
    if board["training_free"].any() and len(trained):
        lines.append("Below the line: baselines, which are not trained.")
    return lines


def with_formulas(text: str) -> str:
    r"""Plain text as LaTeX, with ``||p - t||``, ``^2`` and ``1e-7`` as formulas."""
    parts, end = [], 0
    for found in re.finditer(r"\|\|(?P<norm>[\w +-]+)\|\||\^(?P<power>\d+)|\b1e(?P<ten>-?\d+)\b", text):
        norm, power, ten = found.groups()
        formula = rf"\|{latex(norm)}\|" if norm else f"^{{{power}}}" if power else f"10^{{{int(ten)}}}"
        parts += [latex(text[end : found.start()]), f"${formula}$"]
        end = found.end()
    return "".join([*parts, latex(text[end:])])


def _measure(name: str, metrics: Mapping[str, MetricSpec]) -> str:
    if name not in metrics:
        return name
    spec = metrics[name]
    unit = UNITS.get(spec.unit, f"in {spec.unit}")
    better = ", larger is better" if spec.higher_is_better else ""
    return f"{spec.title} ({spec.formula}; {unit}{better})"


def _reason(row: pd.Series) -> str:
    return row["reason"] if isinstance(row["reason"], str) and row["reason"] else str(row["status"])


def _reasons(board: pd.DataFrame) -> list[str]:
    """Why cells are empty, each reason once."""
    return list(dict.fromkeys(_reason(row) for _, row in board[board["test_err_mean"].isna()].iterrows()))


def _notes(board: pd.DataFrame, reasons: Sequence[str], titles: Mapping[str, str]) -> list[str]:
    """What is said about incomplete and empty cells."""
    some = board[(board["n_seeds"] > 0) & (board["n_seeds"] < board["n_expected"])]
    counts = [
        f"{named(row['model'], titles)} on {row['task']} {row['n_seeds']} of {row['n_expected']}"
        for _, row in some.iterrows()
    ]
    notes = [rf"$^{{{number}}}$~{latex(reason)}." for number, reason in enumerate(reasons, start=1)]
    if counts:
        notes.append(rf"$^\dagger$~Only the seeds that ended well, and not ranked: {latex(', '.join(counts))}.")
    return notes


def _hidden(board: pd.DataFrame, whole: pd.DataFrame | None, titles: Mapping[str, str]) -> list[str]:
    """Models of the same tables that are not shown, and on how many of them one of these is better than all shown."""
    if whole is None:
        return []
    shown, best = set(board["model"]), 0
    same = whole.merge(board[GROUP].drop_duplicates(), on=GROUP, how="inner")
    hidden = [str(model) for model in dict.fromkeys(same.loc[same["n_seeds"] > 0, "model"]) if model not in shown]
    if not hidden:
        return []
    groups = [group for _, group in same.groupby(GROUP, sort=False, dropna=False)]
    for group in groups:
        ranks = group.set_index("model")["rank"].dropna()
        inside, outside = (ranks[ranks.index.isin(names)] for names in (list(shown), hidden))
        best += len(outside) > 0 and (len(inside) == 0 or outside.min() < inside.min())
    note = f"Not shown: {', '.join(named(m, titles) for m in hidden)}"
    return [
        latex(
            f"{note}; one of these is better than all shown on {best} of {len(groups)} tasks." if best else f"{note}."
        )
    ]
