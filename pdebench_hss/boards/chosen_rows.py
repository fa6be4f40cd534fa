"""Some rows of a board, by the names of tasks and models as people type them.

    net             the model of that label; if there is none, all its variants (``net[width=4]``, ...)
    'net[width=4]'  that variant
    'poisson_*'     every label that matches; brackets are plain characters

Ranks and skills stay those of the whole board: leaving a row out changes nothing about the others.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

import pandas as pd

from ..base.errors import UsageError, did_you_mean
from ..contract.selection import split


def choose_rows(board: pd.DataFrame, tasks: str = "", models: str = "") -> pd.DataFrame:
    """The rows of the tasks and models that were named, in the order of the names; of all, where none was."""
    for column, text in (("task", tasks), ("model", models)):
        if text and text != "all":
            labels = chosen_labels(text, list(dict.fromkeys(board[column])), column)
            place = {label: number for number, label in enumerate(labels)}
            rows = board[board[column].isin(labels)]
            board = rows.iloc[rows[column].map(place).argsort(kind="stable")] if column == "task" else rows
    if board.empty:
        raise UsageError("none of these models is on the board on any of these tasks")
    return board.reset_index(drop=True)


def chosen_labels(text: str | Sequence[str], labels: Sequence[str], kind: str) -> list[str]:
    """The labels that were named, in the order of the names; one that is not on the board is refused."""
    found: dict[str, None] = {}
    for item in split(text):
        pattern = "*" if item == "all" else item.replace("[", "[[]")
        matches = [label for label in labels if fnmatch.fnmatchcase(label, pattern)]
        matches = matches or [label for label in labels if label.startswith(f"{item}[")]
        if not matches:
            hint = did_you_mean(item, labels)
            raise UsageError(f"no {kind} {item!r} on the board.{hint}  It has: {', '.join(labels)}")
        found.update(dict.fromkeys(matches))
    return list(found)
