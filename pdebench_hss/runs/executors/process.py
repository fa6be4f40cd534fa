"""Each trial in a process of its own: a segfault, an out-of-memory kill or a hang becomes a status.

With ``--ddp N`` a trial is N such processes that meet at a file. Ranks are queued trial after trial, so those of an
earlier trial never wait for those of a later one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ...base import devices
from ...base.scratch import Scratch
from ...contract.resources import Resources
from ...training.loop import Interrupted
from ...trials.trial import Trial
from ...workers.pool import Event, WorkerPool
from ...workers.worker import Job
from . import Executor, TrialEvent, Work
from .endings import Gang, record_of
from .halves import is_progress, job

PRELOAD = ("pdebench_hss.trials.warm",)


class ProcessExecutor(Executor):
    _pool: WorkerPool | None = None
    _meeting: Scratch | None = None

    def prepare(self, needs: Sequence[Resources]) -> None:
        devices.check_peers(self.config.resolved_device, self.config.ddp)

    def run(self, work: Sequence[Work]) -> Iterator[TrialEvent]:
        size, device = self.config.ddp, self.config.resolved_device
        places = devices.environments(device)
        self._trials: dict[str, Trial] = {item.trial.key: item.trial for item in work}
        self._gangs = {key: Gang(size) for key in self._trials}
        self._meeting = Scratch("ranks")
        jobs = [self._job(item, rank) for item in work for rank in range(size)]
        # Peers need a GPU each; trials of one process may share one, if --jobs says so.
        together = min(self.jobs, len(places)) if size > 1 and device.kind == "cuda" else self.jobs
        processes = size * max(1, min(together // size, len(work)))
        # Not in a `with`: an interrupt must leave the trials running until `stop` has asked them to save their state.
        self._pool = WorkerPool(processes, self.threads, PRELOAD, places)
        for event in self._pool.run(jobs, self.timeout):
            yield from self._translate(event)

    def stop(self) -> Iterator[TrialEvent]:
        if self._pool is not None:
            for event in self._pool.stop():
                # What was told to stop is not a result: it goes on next time from its checkpoint.
                if event.kind == "done":
                    yield from self._translate(event)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
        if self._meeting is not None:
            self._meeting.cleanup()

    def _job(self, item: Work, rank: int) -> Job:
        assert self._meeting is not None
        key, size = item.trial.key, self.config.ddp
        place = Path(self._meeting.name, key).as_uri() if size > 1 else ""
        context = replace(item.context, rank=rank, ranks=size, rendezvous=place)
        return job(f"{key}/{rank}", item.trial, context, item.log if rank == 0 else "")

    def _translate(self, event: Event) -> Iterator[TrialEvent]:
        key, rank = event.job.id.rsplit("/", 1)
        trial, gang = self._trials[key], self._gangs[key]
        assert self._pool is not None
        if event.kind in ("started", "progress"):
            if gang.failed:  # it started after another rank had ended badly
                self._pool.kill(event.job.id)
            elif rank == "0" and (event.kind == "started" or is_progress(event.value)):
                yield TrialEvent(trial, event.kind, event.value)
            return
        if event.kind == "failed" and event.value.kind == Interrupted.__name__:
            # Somebody else asked it to stop, as systems that shut down ask every process: it saved its state, and that
            # is no result. The request is taken as one to the whole run.
            raise KeyboardInterrupt
        gang.end(int(rank), record_of(trial, event, self.timeout))
        if gang.failed:
            for stranded in gang.missing:
                self._pool.kill(f"{key}/{stranded}")
        if gang.record is not None:
            yield TrialEvent(trial, "finished", gang.record)
