"""Names that mean one thing: no module is called like one of the standard library, no process is called a rank."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("pdebench_hss", "plugins", "tasks", "studies")


def modules() -> list[Path]:
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def name_of(path: Path) -> str:
    return path.parent.name if path.stem == "__init__" else path.stem


def shared_with_the_library(paths: list[Path]) -> list[str]:
    return [str(path) for path in paths if name_of(path) in sys.stdlib_module_names]


def test_no_module_shares_its_name_with_the_standard_library():
    assert len(modules()) > 150
    assert shared_with_the_library(modules()) == []


def test_the_check_of_names_would_notice():
    assert shared_with_the_library([Path("boards/statistics.py"), Path("types/__init__.py"), Path("boards/ranking.py")])


@pytest.mark.parametrize("room", ["runs", "training", "trials", "workers"])
def test_processes_that_train_together_are_peers(room):
    """A rank is a place in a table or the rank of a matrix. torch calls the number of a process so, in one argument."""
    found = [
        f"{path.name}: {line.strip()}"
        for path in sorted((ROOT / "pdebench_hss" / room).rglob("*.py"))
        for line in path.read_text().splitlines()
        if re.search(r"\branks?\b", line, re.IGNORECASE)
    ]
    allowed = ("rank=number, world_size=size", "some rank kept as two factors")
    assert [line for line in found if not any(words in line for words in allowed)] == []
