"""Does a neighbour eat a budget of core-seconds? The same trial alone and beside busy processes, step by step.

Trial: a model as it runs on poisson_1d at scale small, trained by the core's loop for so many core-seconds, or, to
compare, seconds. Neighbours do arithmetic in registers and are stopped in between. Trainings alone and beside
neighbours take turns, so that a machine that gets slower or faster meets both alike; the change is the median over
pairs of the ratio of steps.

    python benchmarks/core_seconds.py [--budget 1] [--repeats 15] [--models resnet,neural_hss]

Ends with an error if beside one neighbour the steps within core-seconds differ by more than 5 %. With two for each
core, the trial loses its core every few milliseconds, and what it costs to go on with cold caches is its own: that
line shows it, and has no limit, nor have those of ``seconds``, which show what neighbours would have cost. Run this on
a machine that is otherwise idle.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator

import torch
from core_loop import NUMBERS, make_problem
from tabulate import tabulate

from pdebench_hss.contract.budget import Budget
from pdebench_hss.training.clocks import threads_for
from pdebench_hss.training.loop import fit

LIMIT = 0.05
BUSY = "x = 1\nwhile True:\n    x = x * 3 % 1000003\n"


class Neighbours:
    """Busy processes that sleep unless they are told to work."""

    def __init__(self, count: int) -> None:
        self.processes = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
        self._tell(signal.SIGSTOP)

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        self._tell(signal.SIGCONT)
        try:
            yield
        finally:
            self._tell(signal.SIGSTOP)

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()

    def _tell(self, what: signal.Signals) -> None:
        for process in self.processes:
            process.send_signal(what)


def steps_within(budget: Budget, model: str) -> tuple[int, float]:
    """How many steps are taken, and how long that takes by the wall clock."""
    module, data = make_problem(model=model)
    for each in (Budget("steps", 3), budget):  # the first warms up
        state = fit(module, data, each, NUMBERS, seed=0, device=torch.device("cpu"), flops_step=1.0)
    return state.spent.steps, state.spent.seconds


def compare(budget: Budget, model: str, repeats: int, count: int) -> tuple[list[object], float]:
    """A row of the table, and by which share the steps change beside neighbours."""
    alone, beside, neighbours = [], [], Neighbours(count)
    try:
        for _ in range(repeats):
            alone.append(steps_within(budget, model))
            with neighbours.at_work():
                beside.append(steps_within(budget, model))
    finally:
        neighbours.close()
    ratios = [b[0] / a[0] for a, b in zip(alone, beside, strict=True)]
    change = statistics.median(ratios) - 1
    low, _, high = statistics.quantiles(ratios, n=4)
    row: list[object] = [model, count, budget.kind]
    for each in (alone, beside):
        row += [statistics.median(steps for steps, _ in each), statistics.median(seconds for _, seconds in each)]
    return [*row, f"{100 * change:+.1f} %", f"{100 * (low - 1):+.1f} to {100 * (high - 1):+.1f} %"], change


def main() -> None:
    parser = argparse.ArgumentParser(description="Steps within core-seconds, alone and beside busy neighbours.")
    parser.add_argument("--budget", type=float, default=1.0, help="core-seconds of one training")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--models", default="resnet,neural_hss")
    options = parser.parse_args()
    torch.set_num_threads(threads_for(Budget("core_seconds", options.budget), os.cpu_count() or 1))
    rows, missed = [], 0.0
    for model in options.models.split(","):
        for count in (1, 2 * (os.cpu_count() or 1)):
            for kind, repeats in (("core_seconds", options.repeats), ("seconds", 5)):
                row, change = compare(Budget(kind, options.budget), model, repeats, count)
                rows.append(row)
                missed = max(missed, abs(change) if kind == "core_seconds" and count == 1 else 0.0)
    headers = ["model", "neighbours", "budget", "steps alone", "wall s", "beside", "wall s", "change", "middle half"]
    print(tabulate(rows, headers=headers, floatfmt=".1f", tablefmt="github"))
    assert missed <= LIMIT, f"steps within core-seconds differ by {100 * missed:.1f} %, the limit is 5 %"


if __name__ == "__main__":
    main()
