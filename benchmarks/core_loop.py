"""What the core's training loop costs over a bare PyTorch loop, on the same model and the same data.

Model: the ResNet plugin as it runs on poisson_1d at scale small; data: random fields of that shape. Both loops do the
same arithmetic (their weights are compared at the end). The two take turns in one process, so that a machine that gets
slower or faster meets both alike; the overhead is the median of the ratios of neighbours.

    python benchmarks/core_loop.py [--steps 20] [--repeats 41] [--threads 1]

Ends with an error if the core's loop takes more than 3 % longer.
"""

from __future__ import annotations

import argparse
import copy
import math
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from tabulate import tabulate
from torch import nn

from pdebench_hss.contract.budget import Budget
from pdebench_hss.contract.optimizer import Optimizer
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.training.loop import fit
from pdebench_hss.training.normalization import Affine, Normalizer
from pdebench_hss.training.steps import BatchOrder
from pdebench_hss.training.windows import TrainSet

LIMIT = 0.03
NUMBERS = Optimizer(batch=32, lr=1e-3, lr_min=1e-5, weight_decay=1e-4)


def make_problem(n: int = 256, model: str = "resnet") -> tuple[nn.Module, TrainSet]:
    registry = load_registry()
    task = registry.task("poisson_1d").spec.info("small")
    spec = registry.model(model).spec
    torch.manual_seed(0)
    module = spec.make(task, spec.hparams_for(task))
    inputs, outputs = (torch.randn(n, 1, *task.grid) for _ in range(2))
    one = Affine(np.zeros(1), np.ones(1))
    return module, TrainSet(inputs, outputs, Normalizer(one, one), task)


def core(module: nn.Module, train: TrainSet, steps: int) -> None:
    fit(module, train, Budget("steps", steps), NUMBERS, seed=0, device=torch.device("cpu"), flops_step=1.0)


def bare(module: nn.Module, train: TrainSet, steps: int) -> None:
    """The same training with nothing around it: no budget, no curve, no check of the loss, no checkpoint."""
    order = BatchOrder(len(train), NUMBERS.batch, train.task.name, 0)
    parameters = list(module.parameters())
    adamw = torch.optim.AdamW(parameters, betas=(0.9, 0.99), weight_decay=NUMBERS.weight_decay, fused=True)
    for step in range(steps):
        rate = NUMBERS.lr_min + (NUMBERS.lr - NUMBERS.lr_min) * 0.5 * (1 + math.cos(math.pi * step / steps))
        adamw.param_groups[0]["lr"] = rate
        batch = order.at(step)
        adamw.zero_grad(set_to_none=True)
        nn.functional.mse_loss(module(train.inputs[batch]), train.outputs[batch]).backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        adamw.step()


def seconds(loop: Callable[[nn.Module, TrainSet, int], None], module: nn.Module, train: TrainSet, steps: int) -> float:
    start = time.perf_counter()
    loop(module, train, steps)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description="Overhead of the core's training loop over a bare PyTorch loop.")
    parser.add_argument("--steps", type=int, default=20, help="steps of one repetition")
    parser.add_argument("--repeats", type=int, default=41, help="repetitions of each loop")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    start, train = make_problem()
    loops = {"bare": bare, "core": core}
    taken: dict[str, list[float]] = {name: [] for name in loops}
    for loop in loops.values():
        loop(copy.deepcopy(start), train, 10)  # warm up
    for repeat in range(options.repeats):
        trained = {}
        # Who comes first changes every time.
        for name in sorted(loops, reverse=bool(repeat % 2)):
            trained[name] = copy.deepcopy(start)
            taken[name].append(seconds(loops[name], trained[name], train, options.steps))
        weights = zip(trained["bare"].parameters(), trained["core"].parameters(), strict=True)
        assert all(torch.equal(a, b) for a, b in weights), "the two loops did not do the same"

    medians = {name: statistics.median(values) for name, values in taken.items()}
    rows = [
        [name, medians[name], min(taken[name]), max(taken[name]), 1e3 * medians[name] / options.steps] for name in loops
    ]
    overhead = statistics.median(ours / theirs for ours, theirs in zip(taken["core"], taken["bare"], strict=True)) - 1
    count = sum(p.numel() for p in start.parameters())
    grid = "x".join(map(str, train.task.grid))
    print(f"resnet, {count} parameters, grid {grid}, batch {NUMBERS.batch}, {options.threads} thread(s)")
    print(f"{options.steps} steps, {options.repeats} repetitions of each loop in turn")
    print(tabulate(rows, headers=["loop", "median s", "min s", "max s", "ms/step"], floatfmt=".4f"))
    print(f"overhead of the core: {100 * overhead:+.2f} % (limit {100 * LIMIT:.0f} %)")
    assert overhead <= LIMIT, f"the core's loop takes {100 * overhead:.2f} % longer than a bare one"


if __name__ == "__main__":
    main()
