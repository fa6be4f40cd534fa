"""The task's own classical solver at a coarser level: what accuracy a few lines of numerics buy, and for how long.

Level 0 is the solver that made the data; each further level is cheaper and worse. docs/models.md has the curve of error
against time for every task, and which level is the default. The core measures all ``levels`` beside the default, for
the question which of them a trained model has to be compared with.
"""

from __future__ import annotations

import numpy as np
from torch import nn

from pdebench_hss import TaskInfo


class CoarseSolver(nn.Module):
    def __init__(self, task: TaskInfo, level: int) -> None:
        super().__init__()
        if not 0 <= level <= task.coarse_levels:
            raise ValueError(
                f"coarse_solver: level={level}, but task {task.name!r} has levels 0 to {task.coarse_levels}"
            )
        self.task, self.level = task, level
        self.levels = tuple(range(task.coarse_levels + 1))

    def solve(self, inputs: np.ndarray, level: int | None = None) -> np.ndarray:
        """Physical fields in and out; whole trajectories for rollout tasks."""
        return self.task.coarse(inputs, self.level if level is None else level)
