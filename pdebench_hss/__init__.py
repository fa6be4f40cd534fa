"""pdebench-hss: a plugin-based benchmark for neural PDE solvers.

The names below are all a plugin or a notebook needs. Importing this package imports neither torch nor scipy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .base.version import __version__
from .contract.hookspecs import hookimpl
from .contract.model import ModelSpec
from .contract.search import Integer, OneOf, Real, around
from .contract.task import Recipe, Scale, TaskInfo, TaskSpec

if TYPE_CHECKING:
    from .api import compare, leaderboard, load_task, run
    from .training.allowance import Allowance
    from .training.objective import Batch

__all__ = [
    "Allowance",
    "Batch",
    "Integer",
    "ModelSpec",
    "OneOf",
    "Real",
    "Recipe",
    "Scale",
    "TaskInfo",
    "TaskSpec",
    "__version__",
    "around",
    "compare",
    "hookimpl",
    "leaderboard",
    "load_task",
    "run",
]


def __getattr__(name: str) -> Any:
    if name == "Batch":
        from .training.objective import Batch

        return Batch
    if name == "Allowance":
        from .training.allowance import Allowance

        return Allowance
    if name in ("compare", "leaderboard", "load_task", "run"):
        from . import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
