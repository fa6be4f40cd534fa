"""What the metrics add to a trial, in CPU seconds: all built-in ones of a whole test set, beside the four errors that
decide how a trial ended. Fields are random numbers in the shapes of the tasks at scale small; what is in them does not
change the work.

    python benchmarks/metric_costs.py            prints a table; exits with 1 if a task takes more than `LIMIT`
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from pdebench_hss.contract.registry import Registry, load_registry
from pdebench_hss.contract.task import TaskInfo
from pdebench_hss.metrics.measuring import measure
from pdebench_hss.metrics.rollouts import errors_by_step
from pdebench_hss.training.metrics import sample_errors

LIMIT = 2.0  # CPU seconds of a trial
SCALE = "small"


def shapes(task: TaskInfo) -> tuple[tuple[int, ...], tuple[int, ...]]:
    n, steps = task.size.test, (task.size.steps,) if task.rollout else ()
    return (n, task.in_channels, *task.grid), (n, *steps, task.out_channels, *task.grid)


def cpu_seconds(function: Callable[[], object], repeats: int = 3) -> float:
    """The least of a few: others run on the machine, and CPU time counts their cache misses."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def costs(task: TaskInfo, registry: Registry) -> tuple[float, float, int]:
    """CPU seconds of the four errors, and of everything else; how many values a test set has."""
    rng = np.random.default_rng(0)
    of_inputs, of_outputs = shapes(task)
    inputs, target = rng.normal(size=of_inputs), rng.normal(size=of_outputs)
    prediction = target + 0.1 * rng.normal(size=of_outputs)
    known = sample_errors(prediction, target, task.spec.metric, task.mask)

    def further() -> None:
        found = measure(registry, task, inputs, prediction, target, known)
        assert not found.complaints, found.complaints
        if task.rollout:
            errors_by_step(prediction, target, task.mask)

    errors = cpu_seconds(lambda: sample_errors(prediction, target, task.spec.metric, task.mask))
    return errors, cpu_seconds(further), target.size


def main() -> int:
    registry, slowest = load_registry(), 0.0
    rows = []
    for name, found in registry.tasks.items():
        if SCALE in found.spec.scales:
            rows.append((name, *costs(found.spec.info(SCALE), registry)))
    print(f"{'task':28} {'values':>10} {'four errors':>12} {'the others':>11}   CPU seconds at scale {SCALE}")
    for name, errors, others, size in sorted(rows, key=lambda row: -row[2]):
        print(f"{name:28} {size:>10,} {errors:>12.3f} {others:>11.3f}")
        slowest = max(slowest, others)
    return int(slowest > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
