"""The numbers printed in the Neural-HSS paper, as data: one row per table cell."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

PLACES = (
    Path(__file__).parent / "paper" / "published.csv",  # in an installed wheel
    Path(__file__).parent.parent / "leaderboards" / "paper" / "published.csv",  # in a source tree
)


@dataclass(frozen=True)
class PublishedCell:
    table: str
    task: str
    model: str
    params: str
    test_err: float | None

    @property
    def param_count(self) -> float | None:
        """``37K`` -> 37000."""
        units = {"K": 1e3, "M": 1e6}
        return float(self.params[:-1]) * units[self.params[-1]] if self.params else None


@lru_cache
def published() -> dict[tuple[str, str], PublishedCell]:
    """The paper's cells by (task, model)."""
    path = next(place for place in PLACES if place.exists())
    with path.open(newline="", encoding="utf-8") as file:
        return {
            (row["task"], row["model"]): PublishedCell(
                row["table"],
                row["task"],
                row["model"],
                row["params"],
                float(row["test_err"]) if row["test_err"] else None,
            )
            for row in csv.DictReader(file)
        }


def published_range(task: str) -> tuple[float, float] | None:
    """The best and the worst error the paper prints for a task."""
    errors = [c.test_err for (name, _), c in published().items() if name == task and c.test_err is not None]
    return (min(errors), max(errors)) if errors else None
