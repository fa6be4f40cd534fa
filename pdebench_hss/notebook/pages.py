"""A leaderboard as HTML for a cell, and as text for a terminal: full tables for a few, a line or a row each for many.

The HTML is one fragment that needs nothing from anywhere, with colours that follow the theme of the notebook.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from html import escape

import pandas as pd

from ..base.plain_text import visible
from ..boards.caveats import caveats
from ..boards.frames import GROUP
from ..boards.text import display_headers, display_row, format_error, group_line, size_note, title

FEW = 4  # tables that are shown in full; more are one table with a row each
STYLE = """<style>
.pdebench-hss {max-width: 100%; overflow-x: auto}
.pdebench-hss table {border-collapse: collapse; margin: 0.2em 0 0.6em; font-variant-numeric: tabular-nums}
.pdebench-hss caption {text-align: left; font-weight: bold; padding: 0.3em 0; white-space: nowrap}
.pdebench-hss caption small {font-weight: normal; opacity: 0.75}
.pdebench-hss th, .pdebench-hss td {text-align: right; padding: 0.2em 0.7em; white-space: nowrap; border: 0}
.pdebench-hss thead th {border-bottom: 1px solid; vertical-align: bottom}
.pdebench-hss .text {text-align: left}
.pdebench-hss .note {text-align: left; white-space: normal; min-width: 12em; opacity: 0.75}
.pdebench-hss .best {font-weight: bold; background: rgba(0, 158, 115, 0.18)}
.pdebench-hss p {margin: 0.3em 0; opacity: 0.75; max-width: 60em}
</style>"""


def groups_of(board: pd.DataFrame) -> list[pd.DataFrame]:
    """What is compared with each other: the rows of one task, scale, budget and so on."""
    return [group for _, group in board.groupby(GROUP, sort=False, dropna=False)]


def to_html(board: pd.DataFrame, footer: str) -> str:
    """The tables with the best of each marked, what there is to say against them, and where they are."""
    groups = groups_of(board)
    tables = [_full_table(group) for group in groups] if len(groups) <= FEW else [_wide_table(groups)]
    care = caveats(board)
    notes = [f"Read with care: {'; '.join(care)}."] if care else []
    paragraphs = "".join(f"<p>{_text(line)}</p>" for line in (*notes, footer))
    return f'{STYLE}<div class="pdebench-hss">{"".join(tables)}{paragraphs}</div>'


def _full_table(group: pd.DataFrame) -> str:
    """One table with all that a reader of a leaderboard is shown."""
    first, headers = group.iloc[0], display_headers(group)
    kinds = ["text" if name == "model" else "note" if name == "" else "" for name in headers]
    rows = []
    for _, row in group.iterrows():
        best = row["rank"] == 1
        cells = zip(headers, kinds, display_row(row, headers), strict=True)
        rows.append("".join(_cell(text, "best" if best and name in ("model", "error") else "", kind)
                            for name, kind, text in cells))  # fmt: skip
    caption = f"{_text(title(first))} ({_text(first['task'])})<br><small>{_text(group_line(first))}</small>"
    note = f"<p>{_text(size)}</p>" if (size := size_note(group)) else ""
    return _table(caption, list(zip(headers, kinds, strict=True)), rows) + note


def _wide_table(groups: Sequence[pd.DataFrame]) -> str:
    """One row for each task and setting, one column for each model: errors."""
    models = _models(groups)
    settings = _differing(groups)
    rows = []
    for group in groups:
        by_model = {row["model"]: row for _, row in group.iterrows()}
        cells = [_cell(str(group.iloc[0][name]), "", "text") for name in ("task", *settings)]
        for model in models:
            row = by_model.get(model)
            text = format_error(row["test_err_mean"]) if row is not None else ""
            cells.append(_cell(text, "best" if row is not None and row["rank"] == 1 else ""))
        rows.append("".join(cells))
    heads = [(name, "text") for name in ("task", *settings)] + [(model, "") for model in models]
    caption = "Test error<br><small>mean over seeds, by each task's own metric; the best of a row is marked</small>"
    return _table(caption, heads, rows)


def _table(caption: str, heads: Iterable[tuple[str, str]], rows: Iterable[str]) -> str:
    head = "".join(f'<th scope="col"{_class(kind)}>{_text(name)}</th>' for name, kind in heads)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(text: str, *classes: str) -> str:
    return f"<td{_class(*classes)}>{_text(text)}</td>"


def _class(*names: str) -> str:
    used = " ".join(filter(None, names))
    return f' class="{used}"' if used else ""


def _text(text: object) -> str:
    return escape(visible(text))


def _models(groups: Iterable[pd.DataFrame]) -> list[str]:
    return list(dict.fromkeys(model for group in groups for model in group["model"]))


def _differing(groups: Sequence[pd.DataFrame]) -> list[str]:
    """What tells tables of one task apart, if anything does."""
    tasks = [group.iloc[0]["task"] for group in groups]
    if len(set(tasks)) == len(tasks):
        return []
    names = ("scale", "budget", "n_train", "params_target", "data_id", "device")
    return [name for name in names if len({str(group.iloc[0][name]) for group in groups}) > 1]


# ---------------------------------------------------------------- text


def to_text(board: pd.DataFrame, footer: str) -> str:
    """The same for a terminal: tables, or one line each where there are many."""
    groups, width = groups_of(board), shutil.get_terminal_size((100, 24)).columns
    if len(groups) <= FEW:
        parts = [_text_table(group) for group in groups]
    else:
        parts = ["\n".join(_best_line(group, groups, width) for group in groups)]
    care = caveats(board)
    return "\n\n".join([*parts, "\n".join([*([f"read with care: {'; '.join(care)}"] if care else []), footer])])


def _text_table(group: pd.DataFrame) -> str:
    from tabulate import tabulate

    first, headers = group.iloc[0], display_headers(group)
    rows = [[visible(cell) for cell in display_row(row, headers)] for _, row in group.iterrows()]
    sides = ["left" if name in ("model", "") else "right" for name in headers]
    table = tabulate(rows, headers=headers, tablefmt="plain", disable_numparse=True, colalign=sides)
    lines = [line.rstrip() for line in table.splitlines()]
    note = [visible(size)] if (size := size_note(group)) else []
    return "\n".join([visible(f"{title(first)}  ({first['task']})"), *lines, visible(group_line(first)), *note])


def _best_line(group: pd.DataFrame, groups: Sequence[pd.DataFrame], width: int) -> str:
    """``task  1 net 0.0012 · 2 other 0.0051 …``: the models of one task in their order."""
    first = group.iloc[0]
    place = "  ".join(visible(first[name]) for name in ("task", *_differing(groups)))
    longest = max(len(str(other.iloc[0]["task"])) for other in groups)
    ranked = group[group["rank"].notna()].sort_values("rank", kind="stable")
    models = [
        f"{row['rank']} {visible(row['model'])} {format_error(row['test_err_mean'])}" for _, row in ranked.iterrows()
    ]
    line = f"{place:<{longest}}  {' · '.join(models) or 'no complete row'}"
    return line if len(line) <= width else line[: width - 1] + "…"
