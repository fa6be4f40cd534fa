"""pdebench-hss: a plugin-based benchmark for neural PDE solvers.

The names below are all a plugin or a notebook needs; `pdebench_hss.testing` is for authors' tests. Importing this
package imports neither torch nor scipy: what is heavier than a spec is imported when it is first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .base.version import __version__
from .contract.hookspecs import hookimpl
from .contract.metric import MetricSpec, Setting
from .contract.model import ModelSpec
from .contract.search import Integer, OneOf, Real, around
from .contract.task import Recipe, Scale, TaskInfo, TaskSpec

if TYPE_CHECKING:
    from .api import Board, compare, leaderboard, load_model, load_task, run
    from .base.files import replacing
    from .base.hashing import seed_from
    from .base.libraries import needs_library
    from .base.machine import hardware_line
    from .bench.models import bench_models
    from .bench.timing import BenchRequest, BenchResult, memory_of, time_in_turns
    from .contract.budget import Budget
    from .contract.optimizer import Optimizer
    from .contract.reference_table import Printed, ReferenceRow, ReferenceTable
    from .contract.study import Study, Sweep, make_study, read_study
    from .data.cache import cache_dir
    from .doctor.accelerator import milliseconds_on
    from .doctor.outcome import failed, first_line, passed, skipped, warned
    from .runs.executors import Executor, TrialEvent, TrialFinished, TrialProgress, TrialStarted
    from .training.allowance import Allowance
    from .training.counting import counting
    from .training.objective import Batch
    from .training.windows import TrainSet, prepare
    from .trials.record import Record
    from .trials.run_trial import run_trial
    from .trials.status import Status
    from .trials.store import Store
    from .trials.trial import Trial

__all__ = [
    "Allowance",
    "Batch",
    "BenchRequest",
    "BenchResult",
    "Board",
    "Budget",
    "Executor",
    "Integer",
    "MetricSpec",
    "ModelSpec",
    "OneOf",
    "Optimizer",
    "Printed",
    "Real",
    "Recipe",
    "Record",
    "ReferenceRow",
    "ReferenceTable",
    "Scale",
    "Setting",
    "Status",
    "Store",
    "Study",
    "Sweep",
    "TaskInfo",
    "TaskSpec",
    "TrainSet",
    "Trial",
    "TrialEvent",
    "TrialFinished",
    "TrialProgress",
    "TrialStarted",
    "__version__",
    "around",
    "bench_models",
    "cache_dir",
    "compare",
    "counting",
    "failed",
    "first_line",
    "hardware_line",
    "hookimpl",
    "leaderboard",
    "load_model",
    "load_task",
    "make_study",
    "memory_of",
    "milliseconds_on",
    "needs_library",
    "passed",
    "prepare",
    "read_study",
    "replacing",
    "run",
    "run_trial",
    "seed_from",
    "skipped",
    "time_in_turns",
    "warned",
]

# Where to find what is imported on demand. The same names stand above, for type checkers.
_HOMES = {
    "api": ("Board", "compare", "leaderboard", "load_model", "load_task", "run"),
    "contract.study": ("Study", "Sweep", "make_study", "read_study"),  # what a study is
    "contract.budget": ("Budget",),
    "contract.optimizer": ("Optimizer",),
    "contract.reference_table": ("Printed", "ReferenceRow", "ReferenceTable"),  # a printed table beside ours
    "training.windows": ("TrainSet", "prepare"),  # what a model's fit is given, and how it is made of data
    "training.allowance": ("Allowance",),  # and what it may spend
    "training.objective": ("Batch",),  # what a model's own loss is given
    "training.counting": ("counting",),  # whether FLOPs are being counted right now
    "trials.record": ("Record",),  # what trackers are told
    "trials.store": ("Store",),  # the records of a board
    "runs.executors": ("Executor", "TrialEvent", "TrialFinished", "TrialProgress", "TrialStarted"),  # for an executor
    "trials.run_trial": ("run_trial",),
    "trials.status": ("Status",),
    "trials.trial": ("Trial",),
    "base.files": ("replacing",),  # files that are whole or not there
    "base.hashing": ("seed_from",),  # a seed from names
    "base.libraries": ("needs_library",),  # for a plugin that builds on another library
    "base.machine": ("hardware_line",),
    "data.cache": ("cache_dir",),
    "bench.timing": ("BenchRequest", "BenchResult", "memory_of", "time_in_turns"),  # for a bench
    "bench.models": ("bench_models",),
    "doctor.accelerator": ("milliseconds_on",),  # for a check of a device
    "doctor.outcome": ("failed", "first_line", "passed", "skipped", "warned"),
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """What is public, imported or not; what this module needs for itself is left out."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__")), "testing"})
