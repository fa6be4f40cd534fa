"""pdebench-hss: a plugin-based benchmark for neural PDE solvers.

The names below are all a plugin or a notebook needs. Importing this package imports neither torch nor scipy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .hookspecs import hookimpl
from .model import ModelSpec
from .task import Recipe, Scale, TaskInfo, TaskSpec

if TYPE_CHECKING:
    from .api import compare, leaderboard, load_task, run

__version__ = "0.1.0"

__all__ = [
    "ModelSpec",
    "Recipe",
    "Scale",
    "TaskInfo",
    "TaskSpec",
    "__version__",
    "compare",
    "hookimpl",
    "leaderboard",
    "load_task",
    "run",
]


def __getattr__(name: str) -> Any:
    if name in ("compare", "leaderboard", "load_task", "run"):
        from . import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
