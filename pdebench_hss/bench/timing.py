"""Time and memory of computations side by side: ``pdebench-hss bench NAME``.

A bench is a function ``(request) -> BenchResult`` that a plugin names in the hook ``pdebench_hss_benches``. What is
compared takes turns (a machine that slows down affects all alike), after a warm-up, with a fixed and recorded number of
threads. The median is reported, with the quartiles as its spread.
"""

from __future__ import annotations

import signal
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..base import machine

if TYPE_CHECKING:
    from ..contract.registry import Registry

ENOUGH = 0.02  # seconds of one measurement: fast functions are repeated within it
FEWEST = 3  # measurements of something slow


@dataclass(frozen=True)
class BenchRequest:
    """What was asked for. ``seconds`` bounds the time spent on one row; a bench ignores what it has no use for.

    ``cpu_time`` asks for the CPU time of this thread instead of the clock's: for one thread on a busy machine.
    """

    registry: Registry
    models: str = "all"
    tasks: str | None = None
    scale: str = "paper"
    threads: int = 1
    repeats: int = 9
    seconds: float = 60.0
    explain: bool = False
    cpu_time: bool = False
    say: Callable[[str], None] = print

    @property
    def clock(self) -> Callable[[], float]:
        return time.thread_time if self.cpu_time else time.perf_counter


@dataclass
class BenchResult:
    """Rows for the CSV and the terminal, and figures by name; ``shown``: the columns that a terminal has room for."""

    columns: list[str]
    rows: list[dict[str, Any]]
    figures: dict[str, Any] = field(default_factory=dict)
    shown: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Timing:
    """Milliseconds."""

    median: float
    low: float
    high: float
    repeats: int

    def columns(self, name: str) -> dict[str, float]:
        return {f"{name}_ms": self.median, f"{name}_ms_low": self.low, f"{name}_ms_high": self.high}


def time_in_turns(
    functions: Mapping[str, Callable[[], Any]],
    repeats: int = 9,
    seconds: float = 60.0,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Time all functions in turn, each warm; slow ones less often, but `FEWEST` times at least."""
    inner, rounds = {}, {}
    for name, function in functions.items():
        function()
        start = clock()
        function()
        once = max(clock() - start, 1e-7)
        inner[name] = max(1, round(ENOUGH / once))
        rounds[name] = max(FEWEST, min(repeats, int(seconds / (once * inner[name]))))
    taken: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(max(rounds.values(), default=0)):
        names = [name for name in functions if turn < rounds[name]]
        for name in reversed(names) if turn % 2 else names:
            start = clock()
            for _ in range(inner[name]):
                functions[name]()
            taken[name].append((clock() - start) / inner[name])
    return {name: timing(values) for name, values in taken.items()}


def timing(seconds: list[float]) -> Timing:
    low, _, high = statistics.quantiles(seconds, n=4, method="inclusive") if len(seconds) > 1 else seconds * 3
    return Timing(1e3 * statistics.median(seconds), 1e3 * low, 1e3 * high, len(seconds))


def memory_of(function: Callable[[], Any]) -> int:
    """Bytes that a call adds to what is resident before it, at its worst moment."""
    machine.give_back_memory()  # what earlier calls left behind: the peak would hide in it
    before = machine.reset_peak_memory()
    function()
    return max(0, machine.peak_memory() - before)


class TookTooLong(Exception):
    pass


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `TookTooLong` at the next line of Python after so many seconds."""

    def stop(*_: Any) -> None:
        raise TookTooLong(f"takes more than {seconds:.0f} s")

    if not hasattr(signal, "setitimer"):  # Windows has no such alarm: nothing is limited there
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
