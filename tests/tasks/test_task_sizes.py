"""The sizes of the built-in tasks are those of docs/tasks.md, and grow from scale to scale."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest

from pdebench_hss.contract.registry import load_registry
from pdebench_hss.contract.task import SCALES, TaskSpec

TASKS = {name: found.spec for name, found in sorted(load_registry().tasks.items())}
DOCUMENT = Path(__file__).parents[2] / "docs" / "tasks.md"


def documented(task: TaskSpec) -> str:
    """The task's line in the table of sizes."""
    cells = []
    for size in (task.scales["small"], task.scales["medium"]):
        steps = f", {size.steps} steps" if task.rollout else ""
        cells += [" x ".join(map(str, size.grid)) + steps, f"{size.train:,} / {size.test:,}", f"{size.recipe.steps:,}"]
    return f"| {task.name} | {' | '.join(cells)} |"


def test_the_table_of_sizes_is_up_to_date():
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines()
    assert [documented(task) for task in TASKS.values() if documented(task) not in lines] == []


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_every_built_in_task_has_every_scale_each_at_least_as_large_as_the_one_before(task):
    sizes = [task.scales[scale] for scale in SCALES]
    for smaller, larger in itertools.pairwise(sizes[:3]):  # a paper's own sizes are what they are
        assert math.prod(smaller.grid) <= math.prod(larger.grid)
        assert smaller.train < larger.train
        assert smaller.test < larger.test


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_test_sets_are_large_enough_to_tell_first_from_second(task):
    """Ten independent starts at the least; hundreds of samples at medium."""
    assert task.scales["small"].test >= 64
    assert task.scales["small"].test // task.cases >= 10
    assert task.scales["medium"].test >= 128
