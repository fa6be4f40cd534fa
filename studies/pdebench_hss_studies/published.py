"""The two tables that the Neural-HSS paper prints.

models.csv      its models in its order, and their printed names
published.csv   one row per cell: table, equation, task, model, parameters as printed, error, metric
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

from pdebench_hss import Printed, ReferenceRow, ReferenceTable

TITLES = {"table_1d": "1D problems", "table_2d": "2D problems"}


def published_tables() -> list[ReferenceTable]:
    """The tables, their rows and columns in the paper's order."""
    titles = {row["model"]: row["title"] for row in _read("models.csv")}
    cells = _read("published.csv")
    return [_table(name, [cell for cell in cells if cell["table"] == name], titles) for name in TITLES]


def _table(name: str, cells: list[dict[str, str]], titles: dict[str, str]) -> ReferenceTable:
    models = {model: titles[model] for model in _values(cells, "model")}
    rows = [_row([cell for cell in cells if cell["task"] == task]) for task in _values(cells, "task")]
    return ReferenceTable(name, TITLES[name], "the paper", models, tuple(rows))


def _row(cells: list[dict[str, str]]) -> ReferenceRow:
    printed = {cell["model"]: Printed(_number(cell["test_err"]), cell["params"]) for cell in cells}
    return ReferenceRow(cells[0]["task"], cells[0]["equation"], cells[0]["metric"], printed)


def _values(cells: Iterable[dict[str, str]], column: str) -> list[str]:
    return list(dict.fromkeys(cell[column] for cell in cells))


def _number(text: str) -> float | None:
    return float(text) if text else None


def _read(name: str) -> list[dict[str, str]]:
    with (Path(__file__).parent / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
