"""Learning rates where no paper says them: those that `tune` chose, with as many tries for every model.

``rates.csv`` holds what leaderboards/tuning/SCALE.yaml chose; ``python -m pdebench_hss_models.rates SCALE.yaml ...``
writes it anew, and a test compares the two. A model keeps the task's rate, or its own, where the file names none: there
that one was the best of the tries, or nothing was tuned.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from pdebench_hss import TaskInfo

FILE = Path(__file__).with_name("rates.csv")
COLUMNS = ("scale", "task", "model", "lr")
Recipe = Callable[[TaskInfo, str], dict[str, float]]


def tuned(model: str, otherwise: Recipe | None = None) -> Recipe:
    """A model's recipe: the chosen rate over what it has ``otherwise``."""

    def recipe(task: TaskInfo, scale: str) -> dict[str, float]:
        own = otherwise(task, scale) if otherwise else {}
        rate = rates().get((scale, task.name, model))
        return own if rate is None else {**own, "lr": rate}

    return recipe


@lru_cache
def rates() -> dict[tuple[str, str, str], float]:
    with FILE.open(newline="", encoding="utf-8") as file:
        return {(row["scale"], row["task"], row["model"]): float(row["lr"]) for row in csv.DictReader(file)}


def chosen(path: Path) -> list[dict[str, str]]:
    """The rates in a file that `tune` wrote."""
    import yaml

    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    return [
        {"scale": found["scale"], "task": one["task"], "model": one["model"], "lr": repr(one["options"]["lr"])}
        for one in found["chosen"]
        if "lr" in one["options"]
    ]


def write(paths: list[Path]) -> None:
    with FILE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(row for path in paths for row in chosen(path))


if __name__ == "__main__":
    write([Path(name) for name in sys.argv[1:]])
