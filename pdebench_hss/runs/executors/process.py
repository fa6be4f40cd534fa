"""Each trial in its own process: a segfault, an out-of-memory kill or a hang becomes a status.

With ``--ddp N`` a trial is N such processes that meet at a file. Peers are queued trial after trial, so those of an
earlier trial never wait for those of a later one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ...base import devices
from ...base.scratch import Scratch
from ...contract.registry import Registry
from ...contract.resources import Resources
from ...training.progress import Progress
from ...trials.trial import Trial
from ...workers.events import Done, Emitted, Ended, Event, Failed, Started
from ...workers.jobs import Job
from ...workers.pool import WorkerPool
from ..config import RunConfig
from . import Executor, TrialEvent, TrialFinished, TrialProgress, TrialStarted, Work
from .endings import Gang, ending_of
from .halves import job, result_limit

PRELOAD = ("pdebench_hss.trials.warm",)


class ProcessExecutor(Executor):
    _pool: WorkerPool | None = None
    _meeting: Scratch | None = None

    def __init__(self, registry: Registry, config: RunConfig) -> None:
        super().__init__(registry, config)
        self._gangs: dict[str, Gang] = {}  # by key, for trials that have begun and not ended
        self._peers: dict[str, tuple[Trial, int]] = {}  # by job, for those that have not ended

    def prepare(self, needs: Sequence[Resources]) -> None:
        devices.check_peers(self.config.resolved_device, self.config.ddp)

    def run(self, work: Sequence[Work]) -> Iterator[TrialEvent]:
        size, device = self.config.ddp, self.config.resolved_device
        places = devices.environments(device)
        self._meeting = Scratch("peers")
        jobs = (self._job(item, peer) for item in work for peer in range(size))  # made when a process is free
        # Peers need a GPU each; trials of one process may share one, if --jobs says so.
        together = min(self.jobs, len(places)) if size > 1 and device.kind == "cuda" else self.jobs
        processes = size * max(1, min(together // size, len(work)))
        # Not in a `with`: an interrupt must leave the trials running until `stop` has asked them to save their state.
        self._pool = WorkerPool(processes, self.threads, PRELOAD, places, result_limit(self.config.model_bytes))
        for event in self._pool.run(jobs, self.timeout):
            yield from self._translate(event)

    def stop(self) -> Iterator[TrialFinished]:
        if self._pool is not None:
            for event in self._pool.stop():
                # A trial that was told to stop has no result: next time it resumes from its checkpoint.
                if isinstance(event, Done):
                    yield from self._end(event)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
        if self._meeting is not None:
            self._meeting.cleanup()

    def _job(self, item: Work, peer: int) -> Job:
        assert self._meeting is not None
        key, size = item.trial.key, self.config.ddp
        self._gangs.setdefault(key, Gang(size))
        self._peers[_job_id(item.trial, peer)] = item.trial, peer
        place = Path(self._meeting.name, key).as_uri() if size > 1 else ""
        context = replace(item.context, peer=peer, peers=size, rendezvous=place)
        return job(_job_id(item.trial, peer), item.trial, context, item.log if peer == 0 else "")

    def _translate(self, event: Event) -> Iterator[TrialEvent]:
        if isinstance(event, Ended):
            yield from self._end(event)
            return
        assert self._pool is not None
        trial, peer = self._peers[event.job.id]
        if self._gangs[trial.key].failed:  # it started after another peer had failed
            self._pool.kill(event.job.id)
        elif peer == 0 and isinstance(event, Started):
            yield TrialStarted(trial)
        elif peer == 0 and isinstance(event, Emitted) and (progress := Progress.from_plain(event.values)):
            yield TrialProgress(trial, progress)

    def _end(self, event: Ended) -> Iterator[TrialFinished]:
        assert self._pool is not None
        if isinstance(event, Failed) and event.failure.interrupted:
            # Something else asked it to stop, such as a system that shuts down. It saved its state and has no result.
            # Treat it as a request to stop the whole run.
            raise KeyboardInterrupt
        trial, peer = self._peers.pop(event.job.id)
        gang = self._gangs[trial.key]
        gang.end(peer, ending_of(trial, event, self.timeout))
        if gang.failed:
            for stranded in gang.missing:
                self._pool.kill(_job_id(trial, stranded))
        if gang.record is not None:
            del self._gangs[trial.key]
            yield TrialFinished(trial, gang.record)


def _job_id(trial: Trial, peer: int) -> str:
    return f"{trial.key}/{peer}"
