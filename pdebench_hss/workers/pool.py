"""A pool of worker processes that survives whatever its jobs do.

One mechanism serves trials and data generation: hand in jobs, iterate over what happens. A job that raises, crashes,
is killed or overruns its time is an event, never an exception here. Workers are plain subprocesses in their own session
(Ctrl-C reaches the driver alone, which decides), and they end by themselves when the driver's end of the pipe closes.

Jobs are sent to workers by pickle; what comes back is JSON and arrays (`exchange`), which can't run code here.

A job that overruns its time is killed with its process group. If its worker does not confirm that (somebody stopped
it), the worker is killed too, with all that is below it, so that a limit of time holds whatever happened.
"""

from __future__ import annotations

import collections
import contextlib
import glob
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

from ..base.machine import LARGE_PAGES
from ..base.scratch import Scratch
from . import exchange
from .events import Crashed, Done, Emitted, Ended, Event, Failed, Started, TimedOut
from .jobs import Failure, Job
from .processes import ask_to_stop, kill_descendants, kill_group
from .starting import apart, inheriting, start_method

RESULT_LIMIT = 64 << 20  # bytes that the driver takes from one job
MESSAGE_BYTES = 1 << 16  # of one message of a worker
MESSAGES = {"ready": (int,), "started": (int,), "event": (dict,), "ended": (int, str, str)}
GRACE = 15.0  # seconds a job has to save its state when asked to stop
ANSWER = 5.0  # seconds a worker has to confirm that its job was killed
START = 300.0  # seconds a worker has to start a job: it imports torch and looks for plugins before its first
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class _Worker:
    """One worker subprocess and the job it is on."""

    def __init__(self, threads: int, preload: Sequence[str], own: Mapping[str, str]) -> None:
        self.own = own
        job_read, self.inbox = Pipe(duplex=False)
        self.outbox, message_write = Pipe(duplex=False)
        environment = {**LARGE_PAGES, **os.environ, **dict.fromkeys(THREAD_VARIABLES, str(threads)), **own}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pdebench_hss.workers.worker", *_numbers(job_read, message_write), *preload],
            stdin=subprocess.DEVNULL,
            env=environment,
            **inheriting(job_read, message_write),
            **apart(),
        )
        job_read.close()
        message_write.close()
        self.job: Job | None = None
        self.child: int | None = None
        self.deadline: float | None = None
        self.timed_out = False

    def start(self, job: Job) -> None:
        self.job, self.child, self.deadline, self.timed_out = job, None, None, False
        self.inbox.send(job)

    def receive(self) -> list[Any]:
        """The next message: its kind and its values. Raises OSError if the worker is gone or the message malformed."""
        try:
            kind, *values = json.loads(self.outbox.recv_bytes(MESSAGE_BYTES))
            if MESSAGES[kind] == tuple(map(type, values)):
                return [kind, *values]
        except (ValueError, TypeError, KeyError):
            pass
        raise OSError("its worker process sent an invalid message")

    def ask_job_to_stop(self) -> None:
        """The worker itself ends the processes that it started."""
        if self.child is not None:
            ask_to_stop(self.child)

    def kill_job(self) -> None:
        if self.child is not None:
            kill_group(self.child)

    def close(self) -> None:
        """End it: it kills its job and what that left when the pipe closes. If it can't, it is done from here."""
        self.inbox.close()
        self.outbox.close()
        try:
            self.process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            kill_descendants(self.process.pid)
            self.process.kill()
            self.process.wait()
        self.kill_job()  # of a worker that was itself killed, the job's group may be left


def _numbers(*ends: Connection) -> list[str]:
    return [str(end.fileno()) for end in ends]


class _Queue:
    """Jobs that wait. Each is made when there is a worker for it, but one: so it is known whether there are more."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._more = iter(jobs)
        self._next = collections.deque(itertools.islice(self._more, 1))

    def __bool__(self) -> bool:
        return bool(self._next)

    def popleft(self) -> Job:
        job = self._next.popleft()
        if not self._next:
            self._next.extend(itertools.islice(self._more, 1))
        return job

    def appendleft(self, job: Job) -> None:
        self._next.appendleft(job)


class WorkerPool:
    """``workers`` processes with ``threads`` threads each; ``preload`` names modules they import before forking.

    ``environments`` is what workers have besides in theirs, a GPU of their own for example: each is given to as few
    workers at once as possible, and that of a worker that died to the one that replaces it. A job may return
    ``result_limit`` bytes.
    """

    def __init__(
        self,
        workers: int,
        threads: int = 1,
        preload: Sequence[str] = (),
        environments: Sequence[Mapping[str, str]] = ({},),
        result_limit: int = RESULT_LIMIT,
    ) -> None:
        start_method()  # a mistake in it is reported here, not in a worker
        self.size, self.threads, self.preload = max(1, workers), threads, tuple(preload)
        self.environments, self.result_limit = tuple(environments), result_limit
        self._workers: list[_Worker] = []
        self._numbers = itertools.count()
        self._scratch = Scratch()

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill what still runs and end the workers."""
        for worker in self._workers:
            worker.kill_job()
            worker.close()
        self._workers.clear()
        self._scratch.cleanup()

    def run(self, jobs: Iterable[Job], timeout: float | None = None) -> Iterator[Event]:
        """Run the jobs, oldest first, and yield what happens as it happens."""
        queue = _Queue(jobs)
        while queue or any(worker.job for worker in self._workers):
            self._dispatch(queue, timeout)
            busy = [worker for worker in self._workers if worker.job]
            for outbox in wait([worker.outbox for worker in busy], timeout=self._patience(busy)):
                worker = next(w for w in busy if w.outbox is outbox)
                events = list(self._receive(worker, timeout))
                try:
                    if worker.job is None:  # its next job starts before anybody takes the time to write down this one
                        self._dispatch(queue, timeout)
                finally:  # an interrupt meanwhile, or a worker that can't be started, comes after what has happened
                    yield from events
            for worker in [worker for worker in busy if worker in self._workers and worker.job]:
                yield from self._look_after(worker)

    def _look_after(self, worker: _Worker) -> Iterator[Event]:
        """Kill a job whose time is up; give up a worker that is dead, or that does not confirm it."""
        if worker.process.poll() is not None and not worker.outbox.poll():
            yield from self._give_up(worker)  # what its job started may keep the pipe open
        elif worker.deadline is not None and time.monotonic() > worker.deadline:
            if worker.timed_out or worker.child is None:
                yield from self._give_up(worker)
            else:
                worker.timed_out, worker.deadline = True, time.monotonic() + ANSWER
                worker.kill_job()

    def _give_up(self, worker: _Worker) -> Iterator[Event]:
        job, started = worker.job, worker.child is not None
        assert job is not None
        self._workers.remove(worker)
        worker.close()
        _remove_files(job)
        if worker.timed_out:
            yield TimedOut(job)
        elif worker.deadline is not None and not started and time.monotonic() > worker.deadline:
            yield Crashed(job, f"its worker process did not start it within {START:g} s")
        else:
            yield Crashed(job, f"its worker process ended with code {worker.process.returncode}")

    def stop(self) -> list[Event]:
        """Ask what runs to save its state and end; kill what doesn't within `GRACE` seconds."""
        limit = time.monotonic() + GRACE
        for worker in self._workers:
            worker.ask_job_to_stop()
        events: list[Event] = []
        while busy := [w for w in self._workers if w.job and w.child is not None and time.monotonic() < limit]:
            for outbox in wait([w.outbox for w in busy], timeout=0.2):
                events += self._receive(next(w for w in busy if w.outbox is outbox), None)
        return events

    def kill(self, job_id: str) -> None:
        """End one job now; it is reported as crashed."""
        for worker in self._workers:
            if worker.job is not None and worker.job.id == job_id:
                worker.kill_job()

    def _dispatch(self, queue: _Queue, timeout: float | None) -> None:
        while queue:
            idle = next((w for w in self._workers if w.job is None), None)
            if idle is None and len(self._workers) < self.size:
                idle = _Worker(self.threads, self.preload, self._least_used())
                self._workers.append(idle)
            if idle is None:
                return
            job = queue.popleft()
            result = os.path.join(self._scratch.name, str(next(self._numbers)))  # its files start with this
            try:
                idle.start(replace(job, result=result))
                idle.deadline = time.monotonic() + START if timeout else None
            except BrokenPipeError:  # the worker died between two jobs: its place is free for a new one
                self._workers.remove(idle)
                idle.close()
                queue.appendleft(job)

    def _least_used(self) -> Mapping[str, str]:
        taken = [worker.own for worker in self._workers]
        return min(self.environments, key=taken.count)

    @staticmethod
    def _patience(busy: Sequence[_Worker]) -> float:
        deadlines = [w.deadline for w in busy if w.deadline is not None]
        # Never long: an interrupt that is not a signal (a cluster's request to stop) is noticed between two waits only.
        return min(1.0, max(0.0, min(deadlines) - time.monotonic()) + 0.01) if deadlines else 1.0

    def _receive(self, worker: _Worker, timeout: float | None) -> Iterator[Event]:
        job = worker.job
        assert job is not None
        try:
            kind, *values = worker.receive()
        except (EOFError, OSError):
            yield from self._give_up(worker)
            return
        if kind == "started":
            first, worker.child = worker.child is None, values[0]
            if worker.timed_out:  # between its two halves
                worker.kill_job()
            if first:
                worker.deadline = time.monotonic() + timeout if timeout else None
                yield Started(job)
        elif kind == "event":
            yield Emitted(job, values[0])
        elif kind == "ended":
            worker.job = worker.child = None
            yield self._outcome(job, worker.timed_out, *values)

    def _outcome(self, job: Job, timed_out: bool, code: int, left: str, complaint: str) -> Ended:
        try:
            if code in (0, 1) and not complaint and os.path.lexists(left):
                return _ended(job, code, exchange.read(left, self.result_limit))
        except (exchange.NotPlain, KeyError, TypeError) as error:
            complaint = f"what its process left can't be read ({error})"
        finally:
            _remove_files(job)
        if timed_out:
            return TimedOut(job)
        if complaint:
            return Crashed(job, complaint)
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return Crashed(job, name, is_killed=name == "SIGKILL")


def _remove_files(job: Job) -> None:
    """What a job's halves left for the driver and for each other."""
    for path in glob.glob(glob.escape(job.result) + "-*"):
        with contextlib.suppress(OSError):  # a job may have made anything there
            os.unlink(path)


def _ended(job: Job, code: int, outcome: Any) -> Ended:
    """A process that ended well has a result; any other has a failure."""
    if code == 0:
        return Done(job, outcome["value"])
    return Failed(job, Failure.from_plain(outcome["failure"]))
