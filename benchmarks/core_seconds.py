"""Does a neighbour eat a budget of core-seconds? The same trial alone and beside busy processes, step by step.

Trial: the ResNet plugin as it runs on poisson_1d at scale small, whose arrays stay in a core's own cache; each run is a
process of its own that trains for so many core-seconds, or, to compare, seconds. Neighbours: two for each core, that do
arithmetic in registers. Runs alone and runs beside neighbours take turns, so that a machine that gets slower or faster
meets both alike; what is compared are medians of the steps that were taken.

    python benchmarks/core_seconds.py [--budget 3] [--repeats 7] [--threads 1,2] [--neighbours 4]

Ends with an error if the steps within core-seconds differ by more than 5 %. What remains of a neighbour is what it
takes of shared caches, of memory bandwidth, and of a core's other hyper-thread: to see it, run this on a machine that
is otherwise idle. The lines of ``seconds`` show what the neighbours would have cost.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator

from tabulate import tabulate

LIMIT = 0.05
BUSY = "x = 1\nwhile True:\n    x = x * 3 % 1000003\n"


def train(kind: str, amount: float, threads: int) -> dict[str, float]:
    """In a process of its own: what was spent until the budget was."""
    import torch
    from core_loop import NUMBERS, make_problem

    from pdebench_hss.contract.budget import Budget
    from pdebench_hss.training.clocks import threads_for
    from pdebench_hss.training.loop import fit

    budget = Budget(kind, amount)
    torch.set_num_threads(threads_for(budget, threads))
    module, data = make_problem()
    for each in (Budget("steps", 10), budget):  # the first warms up
        state = fit(module, data, each, NUMBERS, seed=0, device=torch.device("cpu"), flops_step=1.0)
    spent = state.spent
    return {"steps": spent.steps, "seconds": spent.seconds, "core_seconds": spent.core_seconds}


def run(kind: str, amount: float, threads: int) -> dict[str, float]:
    from pdebench_hss.training.clocks import PASSIVE

    command = [sys.executable, __file__, "--child", kind, "--budget", str(amount), "--threads", str(threads)]
    environment = {**os.environ, **PASSIVE, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@contextlib.contextmanager
def neighbours(count: int) -> Iterator[None]:
    started = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def compare(kind: str, amount: float, threads: int, repeats: int, count: int) -> tuple[list[object], float]:
    """A row of the table, and by which share of its steps the trial beside neighbours did fewer."""
    found: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    for repeat in range(repeats):
        for beside in (False, True) if repeat % 2 else (True, False):
            with neighbours(count if beside else 0):
                found[beside].append(run(kind, amount, threads))
    alone, beside = (statistics.median(one["steps"] for one in found[way]) for way in (False, True))
    ways = [statistics.median(one["seconds"] for one in found[way]) for way in (False, True)]
    spread = [
        (max(one["steps"] for one in found[way]) - min(one["steps"] for one in found[way])) / 2 for way in (False, True)
    ]
    change = beside / alone - 1
    return [kind, threads, alone, spread[0], beside, spread[1], *ways, f"{100 * change:+.1f} %"], change


def main() -> None:
    parser = argparse.ArgumentParser(description="Steps within core-seconds, alone and beside busy neighbours.")
    parser.add_argument("--budget", type=float, default=3.0, help="core-seconds of one run")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--neighbours", type=int, default=2 * (os.cpu_count() or 1))
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(train(options.child, options.budget, int(options.threads))))
        return
    rows, worst = [], 0.0
    for threads in map(int, options.threads.split(",")):
        for kind in ("core_seconds", "seconds"):
            row, change = compare(kind, options.budget, threads, options.repeats, options.neighbours)
            rows.append(row)
            worst = max(worst, abs(change) if kind == "core_seconds" else 0.0)
    print(f"resnet on poisson_1d, budget {options.budget:g}, {options.neighbours} neighbours, {options.repeats} runs")
    headers = ["budget", "threads", "steps alone", "±", "beside", "±", "wall s alone", "beside", "change"]
    print(tabulate(rows, headers=headers, floatfmt=".1f", tablefmt="github"))
    assert worst <= LIMIT, f"steps within core-seconds differ by {100 * worst:.1f} %, the limit is {100 * LIMIT:.0f} %"


if __name__ == "__main__":
    main()
