"""Estimates how long trials that were never run will take, from their FLOPs.

    seconds = steps x (STEP + FLOPs of a step / RATE) + TRIAL

FLOPs are counted on torch's meta device, so nothing is allocated or computed, and in a process of their own, because
building a model runs a plugin's code: what crashes or hangs there is not known, and said so. The three constants are
rough values for one CPU core, taken from records of small trials: small steps are bound by the overhead of some hundred
kernel calls, large ones by arithmetic. Records of the same model on the same task, if there are any, are better and
take precedence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..contract.budget import CLOCKS
from ..contract.registry import Registry
from ..workers.events import Done
from ..workers.jobs import Job
from ..workers.pool import WorkerPool
from .plan import Cell, Plan, clock_seconds, expected_seconds, pairs

STEP = 8e-3  # seconds of a training step that computes nothing
RATE = 12e9  # FLOPs per second of large steps
TRIAL = 2.0  # seconds around training: data, build, evaluation, timing; also what a closed form takes
LIMIT = 10.0  # seconds to count one model on one task


@dataclass(frozen=True)
class Estimate:
    """Seconds of wall time for the trials to run, and how many of them are estimated from records, from FLOPs, and not
    at all."""

    seconds: float
    from_records: int
    from_flops: int
    unknown: int = 0


def estimate(plan: Plan, plugin_files: Sequence[str] = ()) -> Estimate:
    """Does not include the time to make data."""
    known = {id(cell): expected_seconds(cell, plan.history, plan.threads) for cell in plan.todo}
    rest = [cell for cell in plan.todo if known[id(cell)] is None]
    counted = _count_all({_place(cell): cell for cell in rest}, plan.jobs, tuple(map(str, plugin_files)))
    guessed = [_seconds(cell, counted[_place(cell)], plan.threads) for cell in rest if _place(cell) in counted]
    total = sum(seconds for seconds in known.values() if seconds is not None) + sum(guessed)
    return Estimate(total / plan.jobs, len(plan.todo) - len(rest), len(guessed), len(rest) - len(guessed))


def _seconds(cell: Cell, flops: float, threads: int) -> float:
    budget = cell.trial.budget
    if not flops:
        return TRIAL
    if budget.kind in CLOCKS:
        return clock_seconds(budget, threads) + TRIAL
    steps = budget.steps(pairs(cell), cell.trial.optimizer.batch, flops) or 0
    return steps * (STEP + flops / RATE) + TRIAL


def _place(cell: Cell) -> str:
    """The same for trials whose steps have the same FLOPs."""
    trial = cell.trial
    size = (trial.scale, sorted(trial.task_params.items()), trial.history, trial.optimizer.batch)
    return repr((trial.model, sorted(trial.hparams.items()), trial.task, *size))


def _count_all(cells: Mapping[str, Cell], jobs: int, files: tuple[str, ...]) -> dict[str, float]:
    """FLOPs of a step by place, where they could be counted."""
    if not cells:
        return {}
    todo = [
        Job(place, f"{__name__}:count", {"trial": cell.trial, "plugin_files": files}) for place, cell in cells.items()
    ]
    found = {}
    with WorkerPool(max(1, min(jobs, len(todo))), preload=("pdebench_hss.trials.warm",)) as pool:
        for event in pool.run(todo, LIMIT):
            if isinstance(event, Done):
                found[event.job.id] = float(event.value["flops"])
    return found


def count(emit: Any, trial: Any, plugin_files: tuple[str, ...]) -> dict[str, float]:
    """In a process of its own."""
    from ..trials import warm

    registry: Registry = warm.registry(plugin_files)
    task = registry.task(trial.task).spec
    options = {**trial.task_params, "history": trial.history} if task.rollout else trial.task_params
    spec, params = task.with_options(options)
    info = spec.info(trial.scale, {**spec.params, **params})
    return {"flops": step_flops(registry.model(trial.model).spec, info, trial.hparams, trial.optimizer.batch)}


def step_flops(spec: Any, task: Any, hparams: Mapping[str, Any], batch: int) -> float:
    """FLOPs of one training step; 0 for models that fit themselves."""
    import torch

    from ..training.flops import count_step

    with torch.device("meta"):
        model = spec.make(task, hparams)
        if hasattr(model, "fit") or hasattr(model, "solve"):
            return 0.0
        x = torch.empty(batch, task.in_channels, *task.grid)
        return count_step(lambda: model(x).square().mean().backward())
