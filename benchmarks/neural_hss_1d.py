"""A training step of Neural-HSS in 1D: as one chain of maps, and map by map as in more dimensions.

    python benchmarks/neural_hss_1d.py [--threads 1] [--rounds 100] [--out FILE.csv]

Forward pass, mean squared error and backward pass on noise, at the task's own batch. Both take turns in one process. On
one thread CPU time is measured, which other work on the machine disturbs least; on more, time on the clock.

    floor   the matrix products of the step by themselves, on tensors that lie ready: what is left if torch's dispatch,
            autograd, Python, the activations and the loss cost nothing
    operators   calls that torch's profiler sees, views included

Ends with 1 if a step of heat or Burgers at scale paper is not twice as fast as map by map.
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from pdebench_hss_models.neural_hss.apply.cost import Axis, root_products, tree_products
from pdebench_hss_models.neural_hss.layer import HSSMap, cut_alike
from pdebench_hss_models.neural_hss.lift import DenseMap
from pdebench_hss_models.neural_hss.model import NeuralHSS
from tabulate import tabulate
from torch import Tensor
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

from pdebench_hss import machine
from pdebench_hss.plugins import load_registry

CASES = [(task, scale) for scale in ("paper", "small") for task in ("heat_1d", "burgers_1d", "poisson_1d")]
GOALS = {("heat_1d", "paper"): 2.0, ("burgers_1d", "paper"): 2.0}


def map_by_map(model: NeuralHSS, x: Tensor) -> Tensor:
    z = model.lift(x).squeeze(1)
    for layer in model.layers:
        z = layer.linear.axis_by_axis(z, layer.slope)
    return model.projection(z.unsqueeze(1))


class MapByMap:
    """Inside, every `HSSMap` is applied by itself, those of lift and projection too."""

    def __enter__(self) -> None:
        self.chained = HSSMap.forward
        HSSMap.forward = lambda one, z, slope=None: one.axis_by_axis(z, slope)  # type: ignore[method-assign]

    def __exit__(self, *_: object) -> None:
        HSSMap.forward = self.chained  # type: ignore[method-assign]


def operators(step: Callable[[], Any]) -> int:
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        step()
    return sum(event.name.startswith("aten::") for event in seen.events())


def products_alone(model: NeuralHSS, batch: int) -> Callable[[], None]:
    """The products that the step does: (b, i, k, j) of the cost model, on tensors of these shapes."""
    weights = [one.axes[0] for one in model.modules() if isinstance(one, HSSMap)]
    cuts = [a.levels for a in cut_alike(weights, "auto", torch.empty(batch, 1))]
    shapes = []
    for kind in {weight.kind for weight in weights}:
        alike = [cut for weight, cut in zip(weights, cuts) if weight.kind == kind]
        axis = Axis(*kind, rows=batch, together=len(alike))
        shapes += [*root_products(axis, alike[0]), *(p for cut in alike for p in tree_products(axis, cut))]
    for dense in (one for one in model.modules() if isinstance(one, DenseMap)):
        out, inn = dense.axes[0].shape[1:]
        shapes += [(1, out, inn, batch), (1, inn, out, batch), (1, out, batch, inn)]
    pairs = [(torch.randn(b, i, k), torch.randn(b, k, j)) for b, i, k, j in shapes]

    def run() -> None:
        for a, x in pairs:
            torch.bmm(a, x)

    return run


def compare(registry: Any, name: str, scale: str, rounds: int, clock: Callable[[], float]) -> dict[str, Any]:
    spec = registry.task(name).spec
    task, batch = spec.info(scale), spec.scales[scale].recipe.batch
    torch.manual_seed(0)
    model = registry.model("neural_hss").spec.make(task, registry.model("neural_hss").spec.hparams_for(task))
    x, y = torch.randn(2, batch, 1, *task.grid)

    def step(forward: Callable[[Tensor], Tensor]) -> None:
        model.zero_grad(set_to_none=True)
        F.mse_loss(forward(x), y).backward()

    def one_by_one() -> None:
        with MapByMap():
            step(lambda x: map_by_map(model, x))

    ways = {"map by map": one_by_one, "chain": lambda: step(model), "floor": products_alone(model, batch)}
    taken: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(rounds + 3):
        for way, function in ways.items():
            start = clock()
            function()
            if turn >= 3:
                taken[way].append(1e3 * (clock() - start))
    row: dict[str, Any] = {"task": name, "scale": scale, "batch": batch}
    for way, values in taken.items():
        row |= {f"{way} ms": statistics.median(values), f"{way} min": min(values)}
    row["faster"] = row["map by map ms"] / row["chain ms"]
    row["over floor"] = row["chain ms"] / row["floor ms"]
    return row | {f"{way} operators": operators(ways[way]) for way in ("map by map", "chain")}


def main() -> int:
    parser = argparse.ArgumentParser(description="Neural-HSS in 1D: one chain against map by map.")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--out", help="write the table as CSV")
    options = parser.parse_args()
    machine.use_large_pages()
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
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
