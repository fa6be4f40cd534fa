"""Each trial in a process of its own: a segfault, an out-of-memory kill or a hang becomes a status."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..pool import Event, WorkerPool
from ..records import FAILED, OUT_OF_MEMORY, TIMEOUT, Record
from ..trial import Trial, ended_without_record
from ..worker import Job
from . import Executor, TrialEvent, Work

# What every trial would import by itself otherwise: torch pulls in dynamo, seconds of it, on the first counted FLOP.
PRELOAD = ("pdebench_hss.trial", "torch._dynamo")


class ProcessExecutor(Executor):
    _pool: WorkerPool | None = None
    _trials: dict[str, Trial]

    def run(self, work: Sequence[Work]) -> Iterator[TrialEvent]:
        self._trials = {item.trial.key: item.trial for item in work}
        jobs = [
            Job(
                item.trial.key,
                "pdebench_hss.trial:run_in_process",
                {"trial": item.trial.to_dict(), "context": item.context},
                log=item.log,
            )
            for item in work
        ]
        # Not in a `with`: an interrupt must leave the trials running until `stop` has asked them to save their state.
        self._pool = WorkerPool(min(self.jobs, len(jobs)), self.threads, PRELOAD)
        for event in self._pool.run(jobs, self.timeout):
            yield self._translate(event)

    def stop(self) -> Iterator[TrialEvent]:
        if self._pool is not None:
            for event in self._pool.stop():
                translated = self._translate(event)
                # What was told to stop is not a result: it goes on next time from its checkpoint.
                if event.kind == "done":
                    yield translated

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()

    def _translate(self, event: Event) -> TrialEvent:
        trial = self._trials[event.job.id]
        if event.kind in ("started", "progress"):
            return TrialEvent(trial, event.kind, event.value)
        return TrialEvent(trial, "finished", self._record(trial, event))

    def _record(self, trial: Trial, event: Event) -> Record:
        if event.kind == "done":
            return event.value
        if event.kind == "timeout":
            return ended_without_record(trial, TIMEOUT, f"not done after {self.timeout:g} s (--timeout)")
        if event.kind == "crashed" and event.value == "SIGKILL":
            return ended_without_record(trial, OUT_OF_MEMORY, "killed by the system (SIGKILL), most likely for memory")
        reason = f"crashed: {event.value}" if event.kind == "crashed" else f"{event.value.kind}: {event.value.message}"
        return ended_without_record(trial, FAILED, reason)
