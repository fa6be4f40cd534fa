"""The task's own classical solver at a coarser level: what accuracy a few lines of numerics buy, and for how long.

Level 0 is the solver that made the data; each further level is cheaper and worse. The default is the level whose cost
is nearest to a network's prediction: 1 for a single elliptic solve, 2 for a march in time (docs/models.md).
`error_time_curve` shows the trade of error for time.
"""

from __future__ import annotations

import time

import numpy as np
from torch import nn

from pdebench_hss import TaskInfo
from pdebench_hss.metrics import sample_errors


class CoarseSolver(nn.Module):
    def __init__(self, task: TaskInfo, level: int) -> None:
        super().__init__()
        if not 0 <= level <= task.coarse_levels:
            raise ValueError(
                f"coarse_solver: level={level}, but task {task.name!r} has levels 0 to {task.coarse_levels}"
            )
        self.task, self.level = task, level

    def solve(self, inputs: np.ndarray) -> np.ndarray:
        """Physical fields in and out; whole trajectories for rollout tasks."""
        return self.task.coarse(inputs, self.level)


def error_time_curve(
    task: TaskInfo, inputs: np.ndarray, outputs: np.ndarray, repeats: int = 3
) -> list[tuple[int, float, float]]:
    """(level, mean error in the task's metric, seconds per sample) of every level, the best of ``repeats`` timings."""
    curve = []
    for level in range(task.coarse_levels + 1):
        seconds = []
        for _ in range(repeats):
            start = time.perf_counter()
            prediction = task.coarse(inputs, level)
            seconds.append(time.perf_counter() - start)
        errors = sample_errors(prediction, outputs, task.spec.metric, task.mask)[task.spec.metric]
        curve.append((level, float(errors.mean()), min(seconds) / len(inputs)))
    return curve
