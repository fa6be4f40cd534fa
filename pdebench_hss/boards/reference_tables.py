"""Printed tables (`contract.reference_table`) with our numbers next to the printed ones.

Rows and columns are the printed table's: its equations in its order; Params and Test Err of each of its models. Below
our number are the paper's and the ratio ours / paper. A task that was run in several settings (budgets, sizes) has a
block of rows for each; one that was not run has a block of missing cells. CSV has full precision. In Markdown and LaTeX
errors are short (3e-3), with the best bold and the second best underlined among models all of whose seeds ended well.

Ours and the paper's are comparable only at scale ``paper``. The note under each table says at which scale ours are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ..base.plain_text import latex, markdown
from ..contract.reference_table import Printed, ReferenceRow, ReferenceTable
from ..trials.status import Status
from .frames import GROUP
from .text import group_line, human_count

SETTINGS = ["scale", "budget", "n_train", "metric"]
CELL = ["params", "test_err", "paper_params", "paper_test_err", "ratio"]
MISSING = "–"


def filled(reference: ReferenceTable, board: pd.DataFrame) -> pd.DataFrame:
    """A printed table with the numbers of a leaderboard: one wide row per equation (and setting)."""
    rows = []
    for row in reference.rows:
        found = board[board["task"] == row.task]
        groups = [group for _, group in found.groupby(GROUP, sort=False, dropna=False)] or [found]
        rows += [_row(row, group, reference.models) for group in groups]
    columns = ["equation", "task", *SETTINGS, *(f"{model}_{value}" for model in reference.models for value in CELL)]
    whole = ["n_train", *(column for column in columns if column.endswith("_params"))]
    return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(whole, "Int64"))


def has_rows(reference: ReferenceTable, board: pd.DataFrame) -> bool:
    """Whether a board has any task of a table."""
    return bool(board["task"].isin({row.task for row in reference.rows}).any())


def _row(printed: ReferenceRow, group: pd.DataFrame, models: Iterable[str]) -> dict[str, Any]:
    row: dict[str, Any] = {"task": printed.task, "equation": printed.equation}
    if len(group):
        row |= {column: group.iloc[0][column] for column in SETTINGS}
    for model in models:
        numbers = _numbers(printed.cells.get(model, Printed()), printed.metric, group[group["model"] == model])
        row |= {f"{model}_{key}": value for key, value in numbers.items()}
    return row


def _numbers(cell: Printed, metric: str, ours: pd.DataFrame) -> dict[str, Any]:
    numbers: dict[str, Any] = {"paper_params": cell.param_count, "paper_test_err": cell.test_err}
    if len(ours) and ours.iloc[0]["status"] == Status.OK:
        row = ours.iloc[0]
        numbers |= {"params": row["params_real"], "test_err": row["test_err_mean"]}
        if cell.test_err and row["metric"] == metric:
            numbers["ratio"] = row["test_err_mean"] / cell.test_err
    return numbers


@dataclass(frozen=True)
class _Line:
    """A printed line: whose numbers, and (params, error, mark) of each model; mark 1 is the best, 2 the second."""

    equation: str
    whose: str
    cells: list[tuple[str, float, int]]


def _lines(reference: ReferenceTable, table: pd.DataFrame) -> list[_Line]:
    lines, models = [], list(reference.models)
    for _, row in table.iterrows():
        for whose, prefix in (("ours", ""), ("paper", "paper_")):
            errors = [_number(row[f"{model}_{prefix}test_err"]) for model in models]
            params = [_number(row[f"{model}_{prefix}params"]) for model in models]
            cells = list(zip(map(_count, params), errors, _marks(errors), strict=True))
            lines.append(_Line(row["equation"] if whose == "ours" else "", whose, cells))
        ratios = [_number(row[f"{model}_ratio"]) for model in models]
        lines.append(_Line("", "ours / paper", [("", ratio, 0) for ratio in ratios]))
    return lines


def _number(value: Any) -> float:
    return math.nan if pd.isna(value) else float(value)


def _count(value: float) -> str:
    return MISSING if math.isnan(value) else human_count(value)


def _marks(errors: list[float]) -> list[int]:
    """1 for the best, 2 for the second best, 0 for the rest; equal values get the same mark."""
    levels = sorted({error for error in errors if not math.isnan(error)})[:2]
    return [levels.index(error) + 1 if error in levels else 0 for error in errors]


def short_style(value: float) -> tuple[str, int]:
    """Digits and power of ten as papers print errors: 0.294 from a tenth on, else one digit times a power."""
    if 0.1 <= value < 1000:
        return f"{value:.3g}", 0
    digit, power = f"{value:.0e}".split("e")
    return digit, int(power)


def _plain(value: float) -> str:
    if math.isnan(value):
        return MISSING
    digits, power = short_style(value)
    return f"{digits}e{power}" if power else digits


def to_markdown(reference: ReferenceTable, table: pd.DataFrame, board: pd.DataFrame) -> str:
    """A Markdown page: the table and its notes."""
    from tabulate import tabulate

    around = {0: "{}", 1: "**{}**", 2: "<ins>{}</ins>"}
    titles = [f"{markdown(title)} {column}" for title in reference.models.values() for column in ("Params", "Test Err")]
    headers = ["Equation", "", *titles]
    rows = []
    for line in _lines(reference, table):
        numbers = [(params, around[mark].format(_plain(error))) for params, error, mark in line.cells]
        rows.append(
            [markdown(line.equation.replace("--", "–")), line.whose, *(text for pair in numbers for text in pair)]
        )
    text = tabulate(rows, headers=headers, tablefmt="github", disable_numparse=True)
    notes = "\n".join(f"- {markdown(note)}" for note in _notes(reference, table, board))
    return (
        f"# {markdown(_title(reference))}\n\n{text}\n\n**Bold**: best; <ins>underlined</ins>: second best.\n\n{notes}\n"
    )


def to_latex(reference: ReferenceTable, table: pd.DataFrame, board: pd.DataFrame) -> str:
    """A LaTeX table (packages booktabs and graphicx)."""
    titles = list(reference.models.values())
    spans = [(3 + 2 * i, 4 + 2 * i) for i in range(len(titles))]
    heads = "".join(rf" & \multicolumn{{2}}{{c}}{{{latex(title)}}}" for title in titles)
    rules = " ".join(rf"\cmidrule(lr){{{first}-{last}}}" for first, last in spans)
    body = []
    for number, line in enumerate(_lines(reference, table)):
        if number and line.equation:
            body.append(r"\addlinespace")
        numbers = [f"{latex(params)} & {_tex_error(error, mark)}" for params, error, mark in line.cells]
        body.append(" & ".join([latex(line.equation), line.whose, *numbers]) + r" \\")
    caption = latex(f"{_title(reference)}. " + " ".join(_notes(reference, table, board)))
    return "\n".join(
        [
            r"% needs \usepackage{booktabs} and \usepackage{graphicx}",
            r"\begin{table*}[t]",
            r"\centering",
            r"\resizebox{\textwidth}{!}{%",
            rf"\begin{{tabular}}{{ll{' cc' * len(titles)}}}",
            r"\toprule",
            rf" &{heads} \\",
            rules,
            "Equation & " + " & Params & Test Err" * len(titles) + r" \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}}",
            rf"\caption{{{caption}}}",
            rf"\label{{tab:{reference.name}}}",
            r"\end{table*}",
            "",
        ]
    )


def _tex_error(value: float, mark: int) -> str:
    if math.isnan(value):
        return "--"
    digits, power = short_style(value)
    text = rf"{digits} \times 10^{{{power}}}" if power else digits
    return {0: rf"${text}$", 1: rf"$\mathbf{{{text}}}$", 2: rf"\underline{{${text}$}}"}[mark]


def _title(reference: ReferenceTable) -> str:
    source = reference.source[:1].upper() + reference.source[1:]
    return f"{source}'s table of {reference.title}, ours and published"


def _notes(reference: ReferenceTable, table: pd.DataFrame, board: pd.DataFrame) -> list[str]:
    """At which scale ours were run, row by row, and why cells are missing."""
    run = table[table["scale"].notna()]
    scales = ", ".join(dict.fromkeys(run["scale"]))
    notes = [f"Ours at scale {scales}; the published numbers at the paper's own, so ratios compare unlike things."]
    if scales == "paper":
        notes = ["Ours at scale paper, the published setting."]
    for task in dict.fromkeys(run["task"]):
        for _, group in board[board["task"] == task].groupby(GROUP, sort=False, dropna=False):
            notes.append(f"{task}: {group_line(group.iloc[0])}.")
    absent = table["task"][table["scale"].isna()]
    if len(absent):
        notes.append(f"Not run: {', '.join(absent)}.")
    mine = board["task"].isin(table["task"]) & board["model"].isin(list(reference.models))
    incomplete = board[mine & (board["status"] != Status.OK)]
    notes += [f"{row['task']}, {row['model']}: {row['status']} ({row['reason']})." for _, row in incomplete.iterrows()]
    return notes
