"""``bench models``: a prediction and a training step of every model at a task's grid and batch, at scale paper.

A step is forward pass, mean squared error and backward pass, on noise: time does not depend on the values. Closed forms
have no steps and are left out. A batch that does not fit into memory or into the time for a row is halved until it
does, and the row says so; times are then of the smaller batch, never scaled up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ..base import machine
from ..contract.model import ModelSpec
from ..contract.selection import check_options
from ..contract.task import TaskInfo
from ..training import flops
from ..training.parameters import count_parameters
from .timing import BenchRequest, BenchResult, TookTooLong, memory_of, time_in_turns, time_limit

COLUMNS = [
    *("task", "model", "scale", "grid", "batch", "batch_asked", "params_real"),
    *("step_ms", "step_ms_low", "step_ms_high", "forward_ms", "forward_ms_low", "forward_ms_high", "repeats"),
    *("peak_memory_mb", "flops_step", "status", "reason", "threads", "hardware"),
]


@dataclass
class Subject:
    """One model on one task, ready to be timed."""

    module: nn.Module
    inputs: torch.Tensor
    targets: torch.Tensor

    def step(self) -> None:
        self.module.zero_grad(set_to_none=True)
        nn.functional.mse_loss(self.module(self.inputs), self.targets).backward()

    def forward(self) -> None:
        with torch.no_grad():
            self.module(self.inputs)


def bench_models(request: BenchRequest) -> BenchResult:
    torch.set_num_threads(request.threads)
    rows: list[dict[str, Any]] = []
    for task_choice in request.registry.choose_tasks(request.tasks or "all"):
        spec = request.registry.task(task_choice.name).spec
        spec, params = spec.with_options(task_choice.options)
        rows += bench_task(request, spec.info(request.scale, params))
    from ..plots.bars import draw_timings

    titles = request.registry.titles()
    timed = [row for row in rows if row["status"] == "ok"]
    figures = {f"models_{kind}": draw_timings(timed, kind, titles) for kind in ("step", "forward")} if timed else {}
    return BenchResult(COLUMNS, rows, figures)


def bench_task(request: BenchRequest, task: TaskInfo) -> list[dict[str, Any]]:
    """All models of one task in turn."""
    rows: dict[str, dict[str, Any]] = {}
    subjects: dict[str, Subject] = {}
    for choice in request.registry.choose_models(request.models):
        spec = request.registry.model(choice.name).spec
        if spec.training_free or spec.unsupported(task):
            continue
        hparams = spec.hparams_for(task)
        hparams |= check_options(choice.options, hparams, f"model {spec.name!r}")
        row = rows[choice.label] = head(request, task, choice.label)
        try:
            subjects[choice.label] = prepare(spec, task, hparams, row, request)
        except TookTooLong as error:
            row.update(status="too_slow", reason=str(error))
        request.say(f"{task.name}: {choice.label} {row['status']} {row['reason']}".rstrip())
    for kind in ("step", "forward"):
        functions: dict[str, Callable[[], Any]] = {name: getattr(subject, kind) for name, subject in subjects.items()}
        for name, found in time_in_turns(functions, request.repeats, request.seconds).items():
            rows[name].update(found.columns(kind), repeats=found.repeats)
    return list(rows.values())


def head(request: BenchRequest, task: TaskInfo, model: str) -> dict[str, Any]:
    batch = task.spec.scales[task.scale].recipe.batch
    return {
        "task": task.name,
        "model": model,
        "scale": task.scale,
        "grid": "x".join(map(str, task.grid)),
        "batch": batch,
        "batch_asked": batch,
        "status": "ok",
        "reason": "",
        "threads": request.threads,
        "hardware": machine.hardware_line(),
    }


def prepare(spec: ModelSpec, task: TaskInfo, hparams: dict, row: dict[str, Any], request: BenchRequest) -> Subject:
    """The model with the largest batch, halving the task's own, that fits into memory and a fifth of the time."""
    torch.manual_seed(0)
    module = spec.make(task, hparams)
    row["params_real"] = count_parameters(module).real
    limit, room = request.seconds / 5, 0.7 * machine.free_memory()
    one = subject(module, task, 1)
    with time_limit(limit):
        base = memory_of(one.step)
    batch = row["batch_asked"]
    while batch > 1:
        if base * batch > room:  # what one sample needs, times the batch, is too much even before trying
            batch //= 2
            continue
        try:
            with time_limit(limit):
                subject(module, task, batch).step()
            break
        except TookTooLong:
            batch //= 2
    found = subject(module, task, batch)
    if batch < row["batch_asked"]:
        row["reason"] = f"batch {batch} instead of {row['batch_asked']}: {limit:.0f} s and {room / 2**30:.0f} GB a step"
    row["batch"] = batch
    row["flops_step"] = flops.count_step(found.step)
    row["peak_memory_mb"] = round(memory_of(found.step) / 2**20, 1)
    return found


def subject(module: nn.Module, task: TaskInfo, batch: int) -> Subject:
    inputs = torch.randn(batch, task.in_channels, *task.grid)
    return Subject(module, inputs, torch.randn(batch, task.out_channels, *task.grid))
