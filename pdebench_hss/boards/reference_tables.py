"""The paper's two tables, filled with our numbers beside the published ones.

Rows and columns are the paper's: its equations in its order; Params and Test Err of each of its models. Under our
number stand the paper's and the ratio ours / paper. A task that was run in several ways (budgets, sizes) has a block of
rows for each; one that was not run has a block of missing cells. In CSV everything is in full precision; in Markdown
and LaTeX errors are in the paper's style (3e-3), the best bold and the second best underlined, among models all of
whose seeds ended well.

Ours and the paper's are comparable only at scale ``paper``. The note under each table says at which scale ours are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ..base.plain_text import latex, markdown
from ..trials.record import OK
from .frames import GROUP, group_line, human_count
from .published import PublishedCell, model_titles, published, published_tables

SETTINGS = ["scale", "budget", "n_train", "metric"]
CELL = ["params", "test_err", "paper_params", "paper_test_err", "ratio"]
MISSING = "–"


def paper_table(board: pd.DataFrame, name: str) -> pd.DataFrame:
    """``table_1d`` or ``table_2d`` from a leaderboard: one row per equation (and way of running it), wide."""
    cells = published_tables()[name]
    models = list(dict.fromkeys(cell.model for cell in cells))
    rows = []
    for task in dict.fromkeys(cell.task for cell in cells):
        found = board[board["task"] == task]
        groups = [group for _, group in found.groupby(GROUP, sort=False, dropna=False)] or [found]
        rows += [_row(task, group, models) for group in groups]
    columns = ["equation", "task", *SETTINGS, *(f"{model}_{value}" for model in models for value in CELL)]
    whole = ["n_train", *(column for column in columns if column.endswith("_params"))]
    return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(whole, "Int64"))


def has_rows(board: pd.DataFrame, name: str) -> bool:
    """Whether a board has any task of a table."""
    return bool(board["task"].isin({cell.task for cell in published_tables()[name]}).any())


def _row(task: str, group: pd.DataFrame, models: list[str]) -> dict[str, Any]:
    row: dict[str, Any] = {"task": task}
    if len(group):
        row |= {column: group.iloc[0][column] for column in SETTINGS}
    for model in models:
        cell = published()[task, model]
        row["equation"] = cell.equation
        row |= {f"{model}_{key}": value for key, value in _numbers(cell, group[group["model"] == model]).items()}
    return row


def _numbers(cell: PublishedCell, ours: pd.DataFrame) -> dict[str, Any]:
    numbers: dict[str, Any] = {"paper_params": cell.param_count, "paper_test_err": cell.test_err}
    if len(ours) and ours.iloc[0]["status"] == OK:
        row = ours.iloc[0]
        numbers |= {"params": row["params_real"], "test_err": row["test_err_mean"]}
        if cell.test_err and row["metric"] == cell.metric:
            numbers["ratio"] = row["test_err_mean"] / cell.test_err
    return numbers


@dataclass(frozen=True)
class _Line:
    """A printed line: whose numbers, and (params, error, mark) of each model; mark 1 is the best, 2 the second."""

    equation: str
    whose: str
    cells: list[tuple[str, float, int]]


def _lines(table: pd.DataFrame) -> list[_Line]:
    lines = []
    for _, row in table.iterrows():
        models = _models(table)
        for whose, prefix in (("ours", ""), ("paper", "paper_")):
            errors = [_number(row[f"{model}_{prefix}test_err"]) for model in models]
            params = [_number(row[f"{model}_{prefix}params"]) for model in models]
            cells = list(zip(map(_count, params), errors, _marks(errors)))
            lines.append(_Line(row["equation"] if whose == "ours" else "", whose, cells))
        ratios = [_number(row[f"{model}_ratio"]) for model in models]
        lines.append(_Line("", "ours / paper", [("", ratio, 0) for ratio in ratios]))
    return lines


def _models(table: pd.DataFrame) -> list[str]:
    return [column.removesuffix("_ratio") for column in table.columns if column.endswith("_ratio")]


def _number(value: Any) -> float:
    return math.nan if pd.isna(value) else float(value)


def _count(value: float) -> str:
    return MISSING if math.isnan(value) else human_count(value)


def _marks(errors: list[float]) -> list[int]:
    """1 for the best, 2 for the second best, 0 for the rest; equals are marked alike."""
    levels = sorted({error for error in errors if not math.isnan(error)})[:2]
    return [levels.index(error) + 1 if error in levels else 0 for error in errors]


def paper_style(value: float) -> tuple[str, int]:
    """Digits and power of ten as the paper prints them: 0.294 from a tenth on, else one digit times a power."""
    if 0.1 <= value < 1000:
        return f"{value:.3g}", 0
    digit, power = f"{value:.0e}".split("e")
    return digit, int(power)


def _plain(value: float) -> str:
    if math.isnan(value):
        return MISSING
    digits, power = paper_style(value)
    return f"{digits}e{power}" if power else digits


def to_markdown(table: pd.DataFrame, board: pd.DataFrame, name: str) -> str:
    """A Markdown page: the table and its notes."""
    from tabulate import tabulate

    around = {0: "{}", 1: "**{}**", 2: "<ins>{}</ins>"}
    titles = [model_titles()[model] for model in _models(table)]
    headers = ["Equation", "", *(f"{title} {column}" for title in titles for column in ("Params", "Test Err"))]
    rows = []
    for line in _lines(table):
        numbers = [(params, around[mark].format(_plain(error))) for params, error, mark in line.cells]
        rows.append([line.equation.replace("--", "–"), line.whose, *(text for pair in numbers for text in pair)])
    text = tabulate(rows, headers=headers, tablefmt="github", disable_numparse=True)
    notes = "\n".join(f"- {markdown(note)}" for note in _notes(table, board))
    return f"# {_title(name)}\n\n{text}\n\n**Bold**: best; <ins>underlined</ins>: second best.\n\n{notes}\n"


def to_latex(table: pd.DataFrame, board: pd.DataFrame, name: str) -> str:
    """A LaTeX table (packages booktabs and graphicx)."""
    models = _models(table)
    spans = [(3 + 2 * i, 4 + 2 * i) for i in range(len(models))]
    heads = "".join(rf" & \multicolumn{{2}}{{c}}{{{model_titles()[model]}}}" for model in models)
    rules = " ".join(rf"\cmidrule(lr){{{first}-{last}}}" for first, last in spans)
    body = []
    for number, line in enumerate(_lines(table)):
        if number and line.equation:
            body.append(r"\addlinespace")
        numbers = [f"{latex(params)} & {_tex_error(error, mark)}" for params, error, mark in line.cells]
        body.append(" & ".join([latex(line.equation), line.whose, *numbers]) + r" \\")
    caption = latex(f"{_title(name)}. " + " ".join(_notes(table, board)))
    return "\n".join(
        [
            r"% needs \usepackage{booktabs} and \usepackage{graphicx}",
            r"\begin{table*}[t]",
            r"\centering",
            r"\resizebox{\textwidth}{!}{%",
            rf"\begin{{tabular}}{{ll{' cc' * len(models)}}}",
            r"\toprule",
            rf" &{heads} \\",
            rules,
            "Equation & " + " & Params & Test Err" * len(models) + r" \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}}",
            rf"\caption{{{caption}}}",
            rf"\label{{tab:{name}}}",
            r"\end{table*}",
            "",
        ]
    )


def _tex_error(value: float, mark: int) -> str:
    if math.isnan(value):
        return "--"
    digits, power = paper_style(value)
    text = rf"{digits} \times 10^{{{power}}}" if power else digits
    return {0: rf"${text}$", 1: rf"$\mathbf{{{text}}}$", 2: rf"\underline{{${text}$}}"}[mark]


def _title(name: str) -> str:
    return f"The paper's table of {name.removeprefix('table_').upper()} problems, ours and published"


def _notes(table: pd.DataFrame, board: pd.DataFrame) -> list[str]:
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
    models = _models(table)
    incomplete = board[board["task"].isin(table["task"]) & board["model"].isin(models) & (board["status"] != OK)]
    notes += [f"{row['task']}, {row['model']}: {row['status']} ({row['reason']})." for _, row in incomplete.iterrows()]
    return notes
