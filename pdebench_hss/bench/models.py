"""``bench models``: a training step of every model with its limit, and a prediction, at a task's grid and scale paper.

A step is forward pass, mean squared error and backward pass, on noise: time does not depend on the values. Its limit is
defined in `limits`. Closed forms have no steps and are left out. Every model has two rows:

    recipe    the batch that the task's recipe asks for. One that does not fit into memory or into the time for a row is
              halved until it does, and the row says so; times are then of the smaller batch, never scaled up
    best      the batch with the least time per sample among that one, its fourths, and its fourfolds while they gain;
              found by a quick scan, and given up for the recipe's if that is quicker when both are timed in turn
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..base import machine
from ..contract.model import ModelSpec
from ..contract.selection import check_options
from ..contract.task import TaskInfo
from ..training import flops
from ..training.parameters import count_parameters
from .limits import Speeds, Work, bound, least_bytes, limit_ms, probes, speeds
from .timing import BenchRequest, BenchResult, Timing, TookTooLong, memory_of, time_in_turns, time_limit

COLUMNS = [
    *("task", "model", "scale", "grid", "at", "batch", "batch_asked", "params_real"),
    *("step_ms", "step_ms_low", "step_ms_high", "forward_ms", "forward_ms_low", "forward_ms_high", "repeats"),
    *("sample_ms", "limit_ms", "times_limit", "times_limit_low", "times_limit_high", "bound", "times_charged"),
    *("flops_done", "flops_step", "least_bytes", "peak_gflops", "bandwidth_gbs"),
    *("peak_memory_mb", "status", "reason", "threads", "clock", "hardware"),
]
SHOWN = [
    *("task", "model", "at", "batch", "step_ms", "sample_ms", "flops_done", "least_bytes", "limit_ms", "bound"),
    *("times_limit", "times_limit_low", "times_limit_high", "status"),
]
KINDS = ("recipe", "best")
LARGEST_BATCH = 1024


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
    machine.keep_freed_memory()  # as processes of trials do
    rows: list[dict[str, Any]] = []
    for task_choice in request.registry.choose_tasks(request.tasks or "all"):
        spec = request.registry.task(task_choice.name).spec
        spec, params = spec.with_options(task_choice.options)
        rows += bench_task(request, spec.info(request.scale, params))
    from ..plots.timings import draw_timings

    titles = request.registry.titles()
    timed = [row for row in rows if row["status"] == "ok" and row["at"] == "recipe"]
    figures = {f"models_{kind}": draw_timings(timed, kind, titles) for kind in ("step", "forward")} if timed else {}
    return BenchResult(COLUMNS, rows, figures, SHOWN)


def bench_task(request: BenchRequest, task: TaskInfo) -> list[dict[str, Any]]:
    """All models of one task in turn."""
    rows: dict[str, dict[str, Any]] = {}  # by model and kind of batch
    subjects: dict[str, Subject] = {}
    for choice in request.registry.choose_models(request.models):
        spec = request.registry.model(choice.name).spec
        if spec.training_free or spec.unsupported(task):
            continue
        hparams = spec.hparams_for(task)
        hparams |= check_options(choice.options, hparams, f"model {spec.name!r}")
        row = head(request, task, choice.label)
        try:
            prepared = prepare(spec, task, hparams, row, request)
        except TookTooLong as error:
            prepared = {}
            rows[choice.label] = {**row, "at": "recipe", "status": "too_slow", "reason": str(error)}
        for kind, (subject, found) in prepared.items():
            rows[f"{choice.label} {kind}"], subjects[f"{choice.label} {kind}"] = {**row, **found, "at": kind}, subject
        request.say(f"{task.name}: {choice.label} {'ok' if prepared else 'too slow'} {row['reason']}".rstrip())
    steps = in_turns(request, {name: subject.step for name, subject in subjects.items()} | probes())
    forwards = in_turns(request, {name: subject.forward for name, subject in subjects.items()})
    here = speeds(steps)
    for name in subjects:
        rows[name] |= steps[name].columns("step") | forwards[name].columns("forward") | {"repeats": steps[name].repeats}
        rows[name] |= beside_limit(rows[name], steps[name], here)
    return settled(list(rows.values()))


def settled(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A model's best batch is the faster of its two rows, per sample."""
    recipes = {(row["task"], row["model"]): row for row in rows if row["at"] == "recipe"}

    def better(row: dict[str, Any]) -> dict[str, Any]:
        recipe = recipes[row["task"], row["model"]]
        return {**recipe, "at": "best"} if recipe["sample_ms"] < row["sample_ms"] else row

    return [better(row) if row["at"] == "best" else row for row in rows]


def in_turns(request: BenchRequest, functions: dict[str, Callable[[], Any]]) -> dict[str, Timing]:
    return time_in_turns(functions, request.repeats, request.seconds, request.clock)


def beside_limit(row: dict[str, Any], step: Timing, here: Speeds) -> dict[str, Any]:
    """How many times its limit a step takes, in the executed form and in the charged one."""
    work = Work(row["flops_done"], row["least_bytes"])
    limit, charged = limit_ms(work, here), limit_ms(Work(row["flops_step"], row["least_bytes"]), here)
    return {
        "sample_ms": step.median / row["batch"],
        "limit_ms": limit,
        "times_limit": step.median / limit,
        "times_limit_low": step.low / limit,
        "times_limit_high": step.high / limit,
        "bound": bound(work, here),
        "times_charged": step.median / charged,
        "peak_gflops": here.peak / 1e9,
        "bandwidth_gbs": here.bandwidth / 1e9,
    }


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
        "clock": "cpu" if request.cpu_time else "wall",
        "hardware": machine.hardware_line(),
    }


def prepare(
    spec: ModelSpec, task: TaskInfo, hparams: dict, row: dict[str, Any], request: BenchRequest
) -> dict[str, tuple[Subject, dict[str, Any]]]:
    """The model at both batches, with what is known of each before it is timed."""
    torch.manual_seed(0)
    module = spec.make(task, hparams)
    row["params_real"] = count_parameters(module).real
    limit, room = request.seconds / 5, 0.7 * machine.free_memory()
    with time_limit(limit):
        base = memory_of(subject(module, task, 1).step)

    def seconds(batch: int) -> float | None:
        """Seconds of a step; None if it takes too long, or if one sample's memory times the batch is too much."""
        if base * batch > room:
            return None
        step = subject(module, task, batch).step
        try:
            with time_limit(limit):
                return quick_seconds(step, request.clock, limit)
        except TookTooLong:
            return None

    recipe, taken = largest_batch(seconds, row["batch_asked"])
    if recipe < row["batch_asked"]:
        row["reason"] = (
            f"batch {recipe} instead of {row['batch_asked']}: the limits of a step are {limit:.0f} s and "
            f"{room / 2**30:.0f} GB"
        )
    best = best_batch(seconds, recipe, taken)
    known = {batch: of_batch(module, task, batch) for batch in {recipe, best}}
    return {kind: known[batch] for kind, batch in zip(KINDS, (recipe, best), strict=True)}


def quick_seconds(step: Callable[[], Any], clock: Callable[[], float], limit: float) -> float:
    """The least of two calls, or of one that is slow."""
    start = clock()
    step()
    first = clock() - start
    if first > limit / 4:
        return first
    start = clock()
    step()
    return min(first, clock() - start)


def largest_batch(seconds: Callable[[int], float | None], asked: int) -> tuple[int, float | None]:
    """The batch, halving what is asked for, that is possible, and how long it takes; 1 is known to be."""
    batch = asked
    while (taken := seconds(batch)) is None and batch > 1:
        batch //= 2
    return batch, taken


def best_batch(seconds: Callable[[int], float | None], recipe: int, taken: float | None) -> int:
    """The batch with the least time per sample: ``recipe``, its fourths, and its fourfolds as long as they gain."""
    per_sample = {recipe: taken / recipe if taken else float("inf")}
    for batch in (recipe // 4, recipe // 16, recipe // 64):
        if batch >= 1 and (found := seconds(batch)) is not None:
            per_sample[batch] = found / batch
    batch = recipe
    while min(per_sample, key=per_sample.__getitem__) == batch and 4 * batch <= LARGEST_BATCH:
        batch *= 4
        if (found := seconds(batch)) is None:
            break
        per_sample[batch] = found / batch
    return min(per_sample, key=per_sample.__getitem__)


def of_batch(module: nn.Module, task: TaskInfo, batch: int) -> tuple[Subject, dict[str, Any]]:
    found = subject(module, task, batch)
    return found, {
        "batch": batch,
        "flops_done": flops.count(found.step),
        "flops_step": flops.count_step(found.step),
        "least_bytes": least_bytes(module, lambda b: noise(task, b), batch, machine.cache_bytes()),
        "peak_memory_mb": round(memory_of(found.step) / 2**20, 1),
    }


def subject(module: nn.Module, task: TaskInfo, batch: int) -> Subject:
    return Subject(module, *noise(task, batch))


def noise(task: TaskInfo, batch: int) -> tuple[Tensor, Tensor]:
    return torch.randn(batch, task.in_channels, *task.grid), torch.randn(batch, task.out_channels, *task.grid)
