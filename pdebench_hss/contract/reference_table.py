"""A published table to show beside ours: `ReferenceTable`. Light: no torch, no pandas.

A plugin brings its tables by the hook ``pdebench_hss_references``. Every board with a row of one gets ``NAME.csv``,
``NAME.md`` and ``NAME.tex`` with ours, the printed numbers and their ratio (`boards.reference_tables`):

    ReferenceTable(
        name="doe_table_2",
        title="waves",
        source="Doe 2031",
        models={"my_net": "MyNet", "other": "Other [7]"},
        rows=(
            ReferenceRow("wave_1d", "Wave Eq.", "relative_l2", {"my_net": Printed(3e-3, "37K"), "other": Printed(0.1)}),
        ),
    )

Models and tasks are named as on a board; ones that are not installed are missing cells like any other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .task import NAME

UNITS = {"": 1.0, "K": 1e3, "M": 1e6, "B": 1e9}
COUNT = re.compile(r"(\d+(?:\.\d+)?)([KMB]?)")
TAKEN = ("leaderboard", "results", "statistics", "readme", "plan")  # names of a board's own files


@dataclass(frozen=True)
class Printed:
    """What a cell says: the error, and the number of parameters as it is printed (``37K``); None and "" if nothing."""

    test_err: float | None = None
    params: str = ""

    def __post_init__(self) -> None:
        if self.test_err is not None and not (math.isfinite(self.test_err) and self.test_err >= 0):
            raise ValueError(f"a printed error is a finite number of 0 or more, or None: {self.test_err}")
        if self.params and not COUNT.fullmatch(self.params):
            raise ValueError(f"a printed count is a number with an optional K, M or B, not {self.params!r}")

    @property
    def param_count(self) -> int | None:
        """``37K`` -> 37000."""
        found = COUNT.fullmatch(self.params)
        return round(float(found[1]) * UNITS[found[2]]) if found else None


@dataclass(frozen=True)
class ReferenceRow:
    """A row: the task, how the table writes it, the metric of its errors, and the cells by model."""

    task: str
    equation: str
    metric: str
    cells: Mapping[str, Printed]


@dataclass(frozen=True, eq=False)
class ReferenceTable:
    """A printed table.

    name     of its files on a board; no two tables may have the same
    title    what its problems are, in a few words
    source   whose it is, for headings: ``the paper``, ``Doe 2031``
    models   its columns in its order: the model's name and how the table writes it
    rows     its rows in its order
    """

    name: str
    title: str
    source: str
    models: Mapping[str, str]
    rows: tuple[ReferenceRow, ...]

    def __post_init__(self) -> None:
        who = f"reference table {self.name!r}"
        if not NAME.fullmatch(self.name):
            raise ValueError(f"{who}: a name is lower-case letters, digits and _, starting with a letter")
        if self.name in TAKEN:
            raise ValueError(f"{who}: a board has a file of this name; the names of its files are {', '.join(TAKEN)}")
        tasks = [row.task for row in self.rows]
        for row in self.rows:
            if tasks.count(row.task) > 1:
                raise ValueError(f"{who}: task {row.task!r} has {tasks.count(row.task)} rows; make it one")
            for model in row.cells:
                if model not in self.models:
                    columns = ", ".join(self.models)
                    raise ValueError(f"{who}: row {row.task!r} has a cell of {model!r}; its models are {columns}")


def printed(tables: Iterable[ReferenceTable], task: str, model: str) -> Printed | None:
    """What is printed of a model on a task, by the first table that has it."""
    for table in tables:
        for row in table.rows:
            if row.task == task and model in row.cells:
                return row.cells[model]
    return None


def printed_range(tables: Iterable[ReferenceTable], task: str) -> tuple[float, float] | None:
    """The best and the worst error that is printed of a task."""
    cells = [cell for table in tables for row in table.rows if row.task == task for cell in row.cells.values()]
    errors = [cell.test_err for cell in cells if cell.test_err is not None]
    return (min(errors), max(errors)) if errors else None


def printed_titles(tables: Iterable[ReferenceTable]) -> dict[str, str]:
    """How models are written, in the tables' order; by the first table that has them."""
    titles: dict[str, str] = {}
    for table in tables:
        for model, title in table.models.items():
            titles.setdefault(model, title)
    return titles
