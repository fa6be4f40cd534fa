"""Is the rule for pieces a good one? CPU time of a step: the whole batch, the rule's piece, the best of a scan.

    python benchmarks/pieces.py [--scales small,paper] [--models fno,resnet] [--tasks poisson_2d] [--batch 16]

Forward and backward with the core's own objective on random fields of a task's shape, batch and model options; one
thread. All sizes take turns in one process, every other round in reverse, and the time is the thread's own (other work
on the machine is not in it): medians of the rounds. ``keeps`` is what a sample leaves for the backward pass. The
constants of `pdebench_hss.training.pieces` were chosen by this table, once.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time

import numpy as np
import torch
from tabulate import tabulate

from pdebench_hss.base import machine
from pdebench_hss.base.errors import UsageError
from pdebench_hss.contract.registry import Registry, load_registry
from pdebench_hss.training import pieces
from pdebench_hss.training.normalization import Affine, Normalizer
from pdebench_hss.training.objective import Objective
from pdebench_hss.training.peers import ALONE
from pdebench_hss.training.windows import TrainSet

CPU = torch.device("cpu")
MODELS = "fno,neural_hss,resnet,factformer,deeponet,green_learning"
TASKS = "poisson_1d,poisson_2d,gray_scott_inverse,poisson_3d"
MOST_BYTES = 2e9  # that a whole batch may keep, to be measured here
MOST_PIECES = 16
HEADERS = ["scale", "task", "model", "batch", "keeps kB", "whole ms", "rule", "rule ms", "best", "best ms", "why whole"]


def problem(registry: Registry, model: str, task: str, scale: str, batch: int | None) -> Objective | None:
    spec, found = registry.model(model).spec, registry.task(task).spec
    if scale not in found.scales or spec.unsupported(found.info(scale)):
        return None
    info = found.info(scale)
    torch.manual_seed(0)
    module = spec.make(info, spec.hparams_for(info)).train()
    channels = (info.in_channels, info.out_channels)
    inputs, outputs = (torch.randn(batch or info.size.recipe.batch, c, *info.grid) for c in channels)
    units = Normalizer(*(Affine(np.zeros(c), np.ones(c)) for c in channels))
    return Objective(module, TrainSet(inputs, outputs, units, info), CPU)


def cpu_ms(objective: Objective, samples: int) -> float:
    def step(x: torch.Tensor, y: torch.Tensor, weight: float) -> torch.Tensor:
        loss = weight * objective(x, y)
        loss.backward()
        return loss.detach()

    objective.module.zero_grad(set_to_none=True)
    whole = pieces.in_pieces(step, samples, lambda: ALONE.unshared(objective.module))
    start = time.thread_time()
    whole(objective.train.inputs, objective.train.outputs, 1.0)
    return 1e3 * (time.thread_time() - start)


def row(objective: Objective, model: str, seconds: float) -> list[object]:
    train = objective.train
    batch = len(train)
    found = pieces.choose(objective, batch, CPU)
    rule = found.samples or batch
    scan = {batch, rule, *(2**k for k in range(10) if batch / MOST_PIECES < 2**k < batch)}
    if batch * (found.sample_bytes or 0) > MOST_BYTES:
        scan = {rule, *(n for n in scan if n * found.sample_bytes <= MOST_BYTES)}
    sizes, taken = sorted(scan), {n: [] for n in scan}
    started, rounds = time.monotonic(), 0
    while rounds < 3 or (time.monotonic() - started < seconds and rounds < 25):
        for n in sizes if rounds % 2 else sizes[::-1]:
            taken[n].append(cpu_ms(objective, n))
        rounds += 1
    ms = {n: statistics.median(values) for n, values in taken.items()}
    best = min(ms, key=ms.get)
    keeps = "" if found.sample_bytes is None else found.sample_bytes / 1e3
    why = "" if found.samples else found.why.removeprefix("whole: ")
    facts = [train.task.scale, train.task.name, model, batch, keeps]
    return [*facts, ms.get(batch, ""), rule, ms[rule], best, ms[best], why[:48]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scales", default="small,paper")
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--tasks", default=TASKS)
    parser.add_argument("--batch", type=int, help="instead of the task's own")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each row, at least three rounds")
    options = parser.parse_args()
    torch.set_num_threads(1)
    registry = load_registry()
    rows = []
    for scale in options.scales.split(","):
        for task in options.tasks.split(","):
            for model in options.models.split(","):
                try:
                    objective = problem(registry, model, task, scale, options.batch)
                except UsageError as error:
                    parser.error(str(error))
                if objective is not None:
                    rows.append(row(objective, model, options.seconds))
                    print(*rows[-1], flush=True)
    print(tabulate(rows, headers=HEADERS, floatfmt=".0f"))


if __name__ == "__main__":
    if any(name not in os.environ for name in machine.LARGE_PAGES):
        machine.use_large_pages()  # as processes of trials have it; glibc reads it when a process starts
        os.execv(sys.executable, [sys.executable, *sys.argv])
    main()
