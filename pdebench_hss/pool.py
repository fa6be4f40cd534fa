"""A pool of worker processes that survives whatever its jobs do.

One mechanism serves trials and data generation: hand in jobs, iterate over what happens. A job that raises, crashes,
is killed or overruns its time is an event, never an exception here. Workers are plain subprocesses in their own session
(Ctrl-C reaches the driver alone, which decides), and they end by themselves when the driver's end of the pipe closes.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from .machine import LARGE_PAGES
from .worker import Failure, Job

GRACE = 15.0  # seconds a job has to save its state when asked to stop
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


@dataclass(frozen=True)
class Event:
    """started, progress (``value`` is what the job emitted), done (its result), failed (a `Failure`),
    crashed (a signal's name or an exit code), timeout."""

    job: Job
    kind: str
    value: Any = None


class _Worker:
    """One worker subprocess and the job it is on."""

    def __init__(self, threads: int, preload: Sequence[str], own: Mapping[str, str]) -> None:
        self.own = own
        job_read, job_write = os.pipe()
        message_read, message_write = os.pipe()
        environment = {**LARGE_PAGES, **os.environ, **dict.fromkeys(THREAD_VARIABLES, str(threads)), **own}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pdebench_hss.worker", str(job_read), str(message_write), *preload],
            pass_fds=(job_read, message_write),
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            env=environment,
        )
        os.close(job_read)
        os.close(message_write)
        self.inbox = Connection(job_write, readable=False)
        self.outbox = Connection(message_read, writable=False)
        self.job: Job | None = None
        self.child: int | None = None
        self.deadline: float | None = None
        self.timed_out = False

    def start(self, job: Job) -> None:
        self.job, self.child, self.deadline, self.timed_out = job, None, None, False
        self.inbox.send(job)

    def signal_child(self, number: int) -> None:
        if self.child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.child, number)

    def close(self) -> None:
        self.inbox.close()
        self.outbox.close()
        try:
            self.process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class WorkerPool:
    """``workers`` processes with ``threads`` threads each; ``preload`` names modules they import before forking.

    ``environments`` is what workers have besides in theirs, a GPU of their own for example: each is given to as few
    workers at once as possible, and that of a worker that died to the one that replaces it.
    """

    def __init__(
        self,
        workers: int,
        threads: int = 1,
        preload: Sequence[str] = (),
        environments: Sequence[Mapping[str, str]] = ({},),
    ) -> None:
        self.size, self.threads, self.preload = max(1, workers), threads, tuple(preload)
        self.environments = tuple(environments)
        self._workers: list[_Worker] = []
        self._numbers = itertools.count()
        self._scratch = tempfile.TemporaryDirectory(prefix="pdebench-hss-")

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill what still runs and end the workers."""
        for worker in self._workers:
            worker.signal_child(signal.SIGKILL)
            worker.close()
        self._workers.clear()
        self._scratch.cleanup()

    def run(self, jobs: Iterable[Job], timeout: float | None = None) -> Iterator[Event]:
        """Run the jobs, oldest first, and yield what happens as it happens."""
        queue = collections.deque(jobs)
        while queue or any(worker.job for worker in self._workers):
            self._dispatch(queue)
            busy = [worker for worker in self._workers if worker.job]
            for outbox in wait([worker.outbox for worker in busy], timeout=self._patience(busy)):
                worker = next(w for w in busy if w.outbox is outbox)
                yield from self._receive(worker, timeout)
            now = time.monotonic()
            for worker in busy:
                if worker.deadline is not None and now > worker.deadline and not worker.timed_out:
                    worker.timed_out = True
                    worker.signal_child(signal.SIGKILL)

    def stop(self) -> list[Event]:
        """Ask what runs to save its state and end; kill what doesn't within `GRACE` seconds."""
        limit = time.monotonic() + GRACE
        for worker in self._workers:
            worker.signal_child(signal.SIGTERM)
        events: list[Event] = []
        while busy := [w for w in self._workers if w.job and w.child is not None and time.monotonic() < limit]:
            for outbox in wait([w.outbox for w in busy], timeout=0.2):
                events += self._receive(next(w for w in busy if w.outbox is outbox), None)
        return events

    def kill(self, job_id: str) -> None:
        """End one job now; it is reported as crashed."""
        for worker in self._workers:
            if worker.job is not None and worker.job.id == job_id:
                worker.signal_child(signal.SIGKILL)

    def _dispatch(self, queue: collections.deque[Job]) -> None:
        while queue:
            idle = next((w for w in self._workers if w.job is None), None)
            if idle is None and len(self._workers) < self.size:
                idle = _Worker(self.threads, self.preload, self._least_used())
                self._workers.append(idle)
            if idle is None:
                return
            job = queue.popleft()
            result = os.path.join(self._scratch.name, str(next(self._numbers)))
            try:
                idle.start(replace(job, result=result))
            except BrokenPipeError:  # the worker died between two jobs: its place is free for a new one
                self._workers.remove(idle)
                idle.close()
                queue.appendleft(job)

    def _least_used(self) -> Mapping[str, str]:
        taken = [worker.own for worker in self._workers]
        return min(self.environments, key=taken.count)

    @staticmethod
    def _patience(busy: Sequence[_Worker]) -> float:
        deadlines = [w.deadline for w in busy if w.deadline is not None and not w.timed_out]
        # Never long: an interrupt that is not a signal (a cluster's request to stop) is noticed between two waits only.
        return min(1.0, max(0.0, min(deadlines) - time.monotonic()) + 0.01) if deadlines else 1.0

    def _receive(self, worker: _Worker, timeout: float | None) -> Iterator[Event]:
        job = worker.job
        assert job is not None
        try:
            kind, value = worker.outbox.recv()
        except (EOFError, OSError):
            self._workers.remove(worker)
            worker.close()
            yield Event(job, "crashed", f"its worker process ended with code {worker.process.returncode}")
            return
        if kind == "started":
            worker.child = value
            worker.deadline = time.monotonic() + timeout if timeout else None
            yield Event(job, "started")
        elif kind == "event":
            yield Event(job, "progress", value)
        elif kind == "ended":
            worker.job = worker.child = None
            yield self._outcome(job, value, worker.timed_out)

    @staticmethod
    def _outcome(job: Job, code: int, timed_out: bool) -> Event:
        path = Path(job.result)
        try:
            if code in (0, 1) and path.exists():
                outcome = pickle.loads(path.read_bytes())
                return Event(job, "failed" if isinstance(outcome, Failure) else "done", outcome)
        finally:
            path.unlink(missing_ok=True)
        if timed_out:
            return Event(job, "timeout")
        return Event(job, "crashed", signal.Signals(-code).name if code < 0 else f"exit code {code}")
