"""Estimates how long trials that were never run will take, from their FLOPs.

    seconds = steps x (STEP + FLOPs of a step / RATE) + TRIAL

FLOPs are counted on torch's meta device, so nothing is allocated or computed. The three constants are rough values for
one CPU core, taken from records of small trials: small steps are bound by the overhead of some hundred kernel calls,
large ones by arithmetic. Records of the same model on the same task, if there are any, are better and take precedence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..contract.budget import CLOCKS
from ..contract.registry import Registry
from .plan import Cell, Plan, clock_seconds, expected_seconds, pairs

STEP = 8e-3  # seconds of a training step that computes nothing
RATE = 12e9  # FLOPs per second of large steps
TRIAL = 2.0  # seconds around training: data, build, evaluation, timing; also what a closed form takes


@dataclass(frozen=True)
class Estimate:
    """Seconds of wall time for the trials to run, and how many of them are estimated from records and from FLOPs."""

    seconds: float
    from_records: int
    from_flops: int


def estimate(plan: Plan, registry: Registry) -> Estimate:
    """Does not include the time to make data."""
    total, from_records = 0.0, 0
    counted: dict[Any, float] = {}
    for cell in plan.todo:
        known = expected_seconds(cell, plan.history, plan.threads)
        from_records += known is not None
        total += _from_flops(cell, registry, counted, plan.threads) if known is None else known
    return Estimate(total / plan.jobs, from_records, len(plan.todo) - from_records)


def _from_flops(cell: Cell, registry: Registry, counted: dict[Any, float], threads: int) -> float:
    trial, batch = cell.trial, cell.trial.optimizer.batch
    place = (trial.model, str(sorted(trial.hparams.items())), trial.task, trial.scale, batch)
    if place not in counted:
        info = registry.task(trial.task).spec.info(trial.scale, trial.task_params)
        counted[place] = step_flops(registry.model(trial.model).spec, info, trial.hparams, batch)
    flops, budget = counted[place], trial.budget
    if not flops:
        return TRIAL
    if budget.kind in CLOCKS:
        return clock_seconds(budget, threads) + TRIAL
    steps = budget.steps(pairs(cell), batch, flops) or 0
    return steps * (STEP + flops / RATE) + TRIAL


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
