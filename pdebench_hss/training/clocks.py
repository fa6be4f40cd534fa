"""The two clocks of a trial: the wall's, and the CPU time of its own threads.

CPU time is of this process with all of its threads, and of the processes that it started, once they have ended. Time
in which other work has the core is not in it. What is in it and should not be is waiting that spins: a thread of an
OpenMP team that waits for the others turns in a loop before it goes to sleep, and the longer the more often a neighbour
takes a core from one of them. So where trials are counted in core-seconds, processes are started with `PASSIVE`, with
which threads sleep at once; where that was not done, a trial has a single thread (`threads_for`).

What a neighbour still costs is what it takes of shared caches, of memory bandwidth and of a core's other hyper-thread.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import NamedTuple

from ..contract.budget import Budget

# GNU's and LLVM's OpenMP read the first, Intel's the second, when they are loaded.
PASSIVE = {"OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0"}


class Lap(NamedTuple):
    """What passed on both clocks."""

    seconds: float
    core_seconds: float


class Clocks:
    """Both clocks since they were started; ``now`` is what the wall's said when somebody last looked."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        self.now, self._cores = time.perf_counter(), core_seconds()

    def so_far(self) -> Lap:
        return Lap(time.perf_counter() - self.now, core_seconds() - self._cores)

    def lap(self) -> Lap:
        """What passed until now, from where the next lap starts."""
        wall, cores = self.now, self._cores
        self.start()
        return Lap(self.now - wall, self._cores - cores)


def core_seconds() -> float:
    """CPU time of this process and of those that it started and that have ended, in user and system mode."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def waiting(budgets: Iterable[Budget]) -> dict[str, str]:
    """What belongs in the environment of processes that train within these budgets."""
    return PASSIVE if any(budget.kind == "core_seconds" for budget in budgets) else {}


def threads_for(budget: Budget, threads: int) -> int:
    """How many of the threads that a trial may have are used within a budget."""
    waits = os.environ.get("OMP_WAIT_POLICY", "").lower() == PASSIVE["OMP_WAIT_POLICY"]
    return threads if budget.kind != "core_seconds" or waits else 1
