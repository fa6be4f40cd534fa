"""Where trials run. An executor takes trials and yields events; the runner writes the records.

The built-in ones use the same hook as those of plugins.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...base.errors import PdebenchError
from ...contract.hookspecs import hookimpl
from ...contract.resources import Resources

if TYPE_CHECKING:
    from ...contract.registry import Registry
    from ...training.progress import Progress
    from ...trials.context import Context
    from ...trials.record import Record
    from ...trials.trial import Trial
    from ..config import RunConfig
    from ..plan import Cell


@hookimpl
def pdebench_hss_executors() -> dict[str, str]:
    return {
        "inline": "pdebench_hss.runs.executors.inline:InlineExecutor",
        "process": "pdebench_hss.runs.executors.process:ProcessExecutor",
        "ray": "pdebench_hss.runs.executors.ray:RayExecutor",
    }


class ExecutorLost(PdebenchError):
    """The place where trials ran is gone, through no fault of theirs. Finished trials are kept."""

    exit_code = 1


@dataclass(frozen=True)
class Work:
    """A trial, its context and needs, and where its output goes."""

    trial: Trial
    context: Context
    needs: Resources = field(default_factory=Resources)
    log: str = ""


class LazyWork(Sequence[Work]):
    """The work of some cells, made on demand: little of a large plan is needed at any time."""

    def __init__(self, cells: Sequence[Cell], make: Callable[[Cell], Work]) -> None:
        self._cells, self._make = cells, make

    def __len__(self) -> int:
        return len(self._cells)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return LazyWork(self._cells[place], self._make)
        return self._make(self._cells[place])

    def __iter__(self) -> Iterator[Work]:
        return map(self._make, self._cells)  # a sequence's own way takes an IndexError of a plugin for the end


@dataclass(frozen=True)
class TrialStarted:
    trial: Trial


@dataclass(frozen=True)
class TrialProgress:
    trial: Trial
    progress: Progress


@dataclass(frozen=True)
class TrialFinished:
    trial: Trial
    record: Record


TrialEvent = TrialStarted | TrialProgress | TrialFinished


class Executor(ABC):
    """Made once per run. Runs ``jobs`` trials in parallel, each for at most ``timeout`` seconds."""

    notes: Sequence[str] = ()  # what the user should know about the place; printed before anything starts

    def __init__(self, registry: Registry, config: RunConfig) -> None:
        self.registry, self.config = registry, config
        self.jobs, self.threads, self.timeout = config.n_jobs, config.threads, config.timeout

    def prepare(self, needs: Sequence[Resources]) -> None:
        """Called before anything starts; raises a `PdebenchError` if trials with these needs can't run here."""
        return None

    @abstractmethod
    def run(self, work: Sequence[Work]) -> Iterator[TrialEvent]:
        """Run all of it; yields exactly one `TrialFinished` per trial, whatever the trial does.

        Raises `ExecutorLost` if no trial can run here any more.
        """

    def stop(self) -> Iterator[TrialFinished]:
        """After an interrupt: let running trials save their state, and yield those that finish meanwhile."""
        yield from ()

    def close(self) -> None:
        """Called at the end, however the run ended: leave no process behind."""
        return None
