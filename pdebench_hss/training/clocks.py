"""The two clocks of a trial: the wall clock, and the CPU time of its own threads.

CPU time is that of this process with all of its threads, and of its child processes once they have ended. It does not
include time in which other work has the core. It does include waiting: a thread of a team that waits for another, which
lost its core to other work, spins before it sleeps, and pays to be woken. So the core gives a trial that is counted in
core-seconds one thread (`threads_for`); a machine with many cores runs as many such trials side by side.

What other processes still cost is a share of shared caches, of memory bandwidth and of a core's other hyper-thread; and
where there are more of them than cores, each time that the core changes hands, caches and branch predictor have to be
filled again. That is charged to the trial, and shows in small operations (`benchmarks/core_seconds.py`).
"""

from __future__ import annotations

import os
import time
from typing import NamedTuple

from ..contract.budget import Budget


class Lap(NamedTuple):
    """Elapsed time on both clocks."""

    seconds: float
    core_seconds: float


class Clocks:
    """Both clocks since they were started; ``now`` is the wall clock at the last reading."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        self.now, self._cores = time.perf_counter(), core_seconds()

    def so_far(self) -> Lap:
        return Lap(time.perf_counter() - self.now, core_seconds() - self._cores)

    def lap(self) -> Lap:
        """The time since the last lap; the next one starts now."""
        wall, cores = self.now, self._cores
        self.start()
        return Lap(self.now - wall, self._cores - cores)


def core_seconds() -> float:
    """CPU time of this process and of its ended child processes, in user and system mode."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def threads_for(budget: Budget, threads: int) -> int:
    """How many of its threads a trial uses within a budget."""
    return 1 if budget.kind == "core_seconds" else threads
