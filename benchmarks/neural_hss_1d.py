"""A training step of Neural-HSS in 1D: as one chain of maps, and map by map as in more dimensions.

    python benchmarks/neural_hss_1d.py [--threads 1] [--rounds 25] [--out FILE.csv]

Forward pass, mean squared error and backward pass on noise, at the task's own batch. All take turns in one process, a
few steps at a time, as a training does one after the other. On one thread CPU time is measured, which other work on the
machine disturbs least; on more, time on the clock. What a step can't be faster than:

    products    the matrix products of the step by themselves, called from Python on tensors that lie ready
    peak        the FLOPs of the step at the speed of a product of 1024 x 1024 matrices, in the same run
    dispatch    a step of two samples: operations, views and autograd with next to no arithmetic
    operators   calls that torch's profiler sees, views included; `operator us` is what a view takes in a loop

Ends with 1 if a step of heat or Burgers at scale paper is not twice as fast as map by map. Where the peak alone takes
more than half as long as map by map, no implementation can be, and it says so.

``python docs/kernel_tables.py`` writes the table of docs/kernels.md from the CSV.
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from pdebench_hss_models.neural_hss.apply.cost import CHAIN, Axis, best_cut, root_products, tree_products
from pdebench_hss_models.neural_hss.layer import HSSLayer
from pdebench_hss_models.neural_hss.lift import DenseMap, field_map
from pdebench_hss_models.neural_hss.model import NeuralHSS
from tabulate import tabulate
from torch import Tensor, nn
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

from pdebench_hss.base import machine
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.training import flops

CASES = [(task, scale) for scale in ("paper", "small") for task in ("heat_1d", "burgers_1d", "poisson_1d")]
GOALS = {("heat_1d", "paper"): 2.0, ("burgers_1d", "paper"): 2.0}
IN_A_ROW = 5  # steps, of which the first is not counted: it finds the caches full of something else
GEMM = 1024
VIEWS = 10_000


class MapByMap(nn.Module):
    """The same model with a module, parameters and products of its own for every map, as in more dimensions."""

    def __init__(self, task: Any, hparams: dict[str, Any]) -> None:
        super().__init__()
        tree = {key: hparams[key] for key in ("levels", "rank", "outer_rank", "way")}
        grid, inner = task.grid, (hparams["embed"] or task.grid[0],)
        self.lift = field_map(hparams["lift"], (1, 1), (grid, inner), cp_rank=1, **tree)
        self.layers = nn.Sequential(*(HSSLayer(inner, **tree) for _ in range(hparams["layers"])))
        self.projection = field_map(hparams["projection"], (1, 1), (inner, grid), cp_rank=1, **tree)

    def forward(self, x: Tensor) -> Tensor:
        return self.projection(self.layers(self.lift(x).squeeze(1)).unsqueeze(1))


def operators(step: Callable[[], Any]) -> int:
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        step()
    return sum(event.name.startswith("aten::") for event in seen.events())


def products_alone(model: NeuralHSS, batch: int) -> Callable[[], None]:
    """The products that the step does: (b, i, k, j) of the cost model, on tensors of these shapes."""
    weight = model.layers.matrices
    axis = Axis(*weight.shape, weight.levels, weight.rank, 1, batch, together=weight.terms)
    cut = best_cut(axis, CHAIN)
    shapes = [*root_products(axis, cut), *list(tree_products(axis, cut)) * weight.terms]
    for dense in (one for one in model.modules() if isinstance(one, DenseMap)):
        out, inn = dense.axes[0].shape[1:]
        shapes += [(1, out, inn, batch), (1, inn, out, batch), (1, out, batch, inn)]
    shapes = [(b, min(i, j), k, max(i, j)) if k == batch else (b, i, k, j) for b, i, k, j in shapes]  # short side first
    pairs = [(torch.randn(b, i, k), torch.randn(b, k, j)) for b, i, k, j in shapes]

    def run() -> None:
        for a, x in pairs:
            torch.bmm(a, x)

    return run


def operator_us(clock: Callable[[], float]) -> float:
    x = torch.randn(2, 2)
    start = clock()
    for _ in range(VIEWS):
        x.view(4)
    return 1e6 * (clock() - start) / VIEWS


def compare(registry: Any, name: str, scale: str, rounds: int, clock: Callable[[], float]) -> dict[str, Any]:
    spec, hss = registry.task(name).spec, registry.model("neural_hss").spec
    task, batch = spec.info(scale), spec.scales[scale].recipe.batch
    hparams = hss.hparams_for(task)
    models = {"map by map": MapByMap(task, hparams), "chain": hss.make(task, hparams)}
    x, y = torch.randn(2, batch, 1, *task.grid)
    gemm = torch.randn(GEMM, GEMM)

    def step(model: nn.Module, samples: int = batch) -> None:
        model.zero_grad(set_to_none=True)
        F.mse_loss(model(x[:samples]), y[:samples]).backward()

    steps: dict[str, Callable[[], Any]] = {way: partial(step, model) for way, model in models.items()}
    steps["products"] = products_alone(models["chain"], batch)
    steps["dispatch"] = partial(step, models["chain"], 2)
    steps["gemm"] = lambda: gemm @ gemm
    taken: dict[str, list[float]] = {way: [] for way in steps}
    for _ in range(rounds):
        for way, function in steps.items():
            for turn in range(IN_A_ROW):
                start = clock()
                function()
                if turn:
                    taken[way].append(1e3 * (clock() - start))
    row: dict[str, Any] = {"task": name, "scale": scale, "batch": batch}
    for way, values in taken.items():
        row |= {f"{way} ms": statistics.median(values), f"{way} min": min(values)}
    row["peak ms"] = row["gemm ms"] * flops.count(steps["chain"]) / (2 * GEMM**3)
    row["faster"] = row["map by map ms"] / row["chain ms"]
    row["faster at the peak"] = row["map by map ms"] / row["peak ms"]
    row["operator us"] = operator_us(clock)
    return row | {f"{way} operators": operators(steps[way]) for way in models}


def main() -> int:
    parser = argparse.ArgumentParser(description="Neural-HSS in 1D: one chain against map by map.")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--out", help="write the table as CSV")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clock = time.process_time if options.threads == 1 else time.perf_counter
    print(f"{machine.hardware_line()}, {options.threads} threads, torch {torch.__version__}")
    registry = load_registry()
    rows = [compare(registry, *case, options.rounds, clock) for case in CASES]
    print(tabulate(rows, headers="keys", floatfmt=".3g"))
    print(f"load of the machine at the end: {os.getloadavg()[0]:.1f}")
    if options.out:
        with Path(options.out).open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    missed = [row for row in rows if row["faster"] < GOALS.get((row["task"], row["scale"]), 0)]
    for row in missed:
        print(f"MISSED: {row['task']} at scale {row['scale']} is {row['faster']:.2f} times as fast, not 2")
        if row["faster at the peak"] < 2:
            print(f"  at the peak of matrix products it would be {row['faster at the peak']:.2f} times as fast")
    return 1 if missed else 0


if __name__ == "__main__":
    if any(name not in os.environ for name in machine.LARGE_PAGES):
        machine.use_large_pages()  # as processes of trials have it; glibc reads it when a process starts
        os.execv(sys.executable, [sys.executable, *sys.argv])
    sys.exit(main())
