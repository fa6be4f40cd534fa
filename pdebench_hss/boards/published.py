"""The numbers printed in the Neural-HSS paper, as data: one row per table cell, in the paper's order."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

PLACES = (
    Path(__file__).parent.parent / "paper",  # in an installed wheel
    Path(__file__).parents[2] / "leaderboards" / "paper",  # in a source tree
)


@dataclass(frozen=True)
class PublishedCell:
    table: str
    equation: str
    task: str
    model: str
    params: str
    test_err: float | None
    metric: str

    @property
    def param_count(self) -> float | None:
        """``37K`` -> 37000."""
        units = {"K": 1e3, "M": 1e6}
        return float(self.params[:-1]) * units[self.params[-1]] if self.params else None


@lru_cache
def published() -> dict[tuple[str, str], PublishedCell]:
    """The paper's cells by (task, model)."""
    cells = {}
    for row in _read("published.csv"):
        error = float(row["test_err"]) if row["test_err"] else None
        cells[row["task"], row["model"]] = PublishedCell(**{**row, "test_err": error})  # type: ignore[arg-type]
    return cells


@lru_cache
def model_titles() -> dict[str, str]:
    """The paper's names of its models."""
    return {row["model"]: row["title"] for row in _read("models.csv")}


def published_tables() -> dict[str, list[PublishedCell]]:
    """The paper's tables by name, cells row by row."""
    tables: dict[str, list[PublishedCell]] = {}
    for cell in published().values():
        tables.setdefault(cell.table, []).append(cell)
    return tables


def published_range(task: str) -> tuple[float, float] | None:
    """The best and the worst error the paper prints for a task."""
    errors = [c.test_err for (name, _), c in published().items() if name == task and c.test_err is not None]
    return (min(errors), max(errors)) if errors else None


def _read(name: str) -> list[dict[str, str]]:
    path = next(place / name for place in PLACES if (place / name).exists())
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
