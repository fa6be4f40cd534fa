"""The two clocks of a trial: the wall clock, and the CPU time of its own threads.

CPU time is that of this process with all of its threads, and of its child processes once they have ended. It does not
include time in which other work has the core. It does include spinning, and should not: a thread of an OpenMP team
that waits for the others runs in a loop before it goes to sleep, longer when other processes take a core from one of
them. So where trials are counted in core-seconds, processes are started with `PASSIVE`, which makes threads sleep at
once; where that was not done, a trial has a single thread (`threads_for`).

Other processes still cost a share of caches, of memory bandwidth and of a core's other hyper-thread.
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


def waiting(budgets: Iterable[Budget]) -> dict[str, str]:
    """Environment variables for processes that train within these budgets."""
    return PASSIVE if any(budget.kind == "core_seconds" for budget in budgets) else {}


def threads_for(budget: Budget, threads: int) -> int:
    """How many of its threads a trial uses within a budget."""
    waits = os.environ.get("OMP_WAIT_POLICY", "").lower() == PASSIVE["OMP_WAIT_POLICY"]
    return threads if budget.kind != "core_seconds" or waits else 1
