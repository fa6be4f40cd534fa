"""How large the built-in models are where no paper says it: about equally large, so that a table compares methods.

At scale ``paper`` sizes are the paper's, at ``smoke`` as small as can be. In between every model turns its size until
its number of parameters (a complex one counts twice) is nearest to the one below. A model whose steps would become too
dear stays smaller; that, and by how much, is in docs/models.md. A test keeps all within a factor of three.
"""

from __future__ import annotations

from collections.abc import Callable

from pdebench_hss import Real, TaskInfo

# By scale and dimension; three stands for all higher ones.
AIM = {
    "small": {1: 50_000, 2: 80_000, 3: 60_000},
    "medium": {1: 75_000, 2: 160_000, 3: 120_000},
}

WEIGHT_DECAY = Real(1e-6, 1e-1, log=True)  # what is tuned where a model has no third option of its own


def aim(task: TaskInfo, scale: str) -> int:
    return AIM[scale][min(task.dim, 3)]


def nearest(count: Callable[[int], int], goal: int, step: int = 1, largest: int | None = None) -> int:
    """The multiple of ``step``, at most ``largest``, whose count is nearest to the goal by its ratio; counts grow."""
    size = step
    while count(size + step) <= goal:
        size += step
    if count(size) < goal and count(size + step) * count(size) < goal**2:
        size += step
    return size if largest is None else min(size, largest)
