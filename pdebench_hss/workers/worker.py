"""A worker process: imports what is heavy once, then runs each job in forks of itself.

Started by `pool` as ``python -m pdebench_hss.workers.worker IN OUT MODULE...``. The fork is what isolates: a job that
segfaults, leaks or is killed for memory takes only its own process with it, and the next one starts in milliseconds
because torch is already imported. Needs `os.fork` (Linux, macOS); elsewhere use `--executor inline`.

What a job's process says is not trusted. It writes events, JSON in lines, to a pipe of its own that ends here, and its
outcome, plain values and arrays (`exchange`), to a file; nobody unpickles either. A job may have a second half,
``then``, that judges what the first left: in a fork of its own, made when the first has ended, where no code of the
first has run. The name of its file is chosen only then.

A job leads a process group. When it ends, however it ends, the worker kills what it left running (see `processes`).
Signals that end programs are the driver's to handle: a worker ignores them and ends when the driver's pipe closes.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import secrets
import select
import signal
import sys
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from multiprocessing.connection import Connection
from typing import Any

from ..base.errors import Interrupted, PdebenchError
from ..base.references import resolve
from . import exchange
from .forking import use_large_pages
from .processes import (
    adopt_orphans,
    die_with_parent,
    has_children,
    kill_descendants,
    lead_group,
    signal_group,
    wake_when_parent_dies,
)

STOPPING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
MESSAGE_LIMIT = 2000  # characters of free text in one message
LINE_LIMIT = 4096  # bytes of one event
MANY = 20  # jobs after which cheaper forks repay what they cost once (`forking`): about as much as this many forks


@dataclass(frozen=True)
class Job:
    """``target(emit=..., **kwargs)`` is to be called in a process of its own, and then, in another,
    ``then(emit=..., left=<the file with what target returned>, **kwargs)``, if that is given.

    Files of outcomes start with ``result``, and so does the pool's clean-up.
    """

    id: str
    target: str
    kwargs: dict[str, Any] = field(default_factory=dict)
    result: str = ""
    log: str = ""
    then: str = ""


@dataclass(frozen=True)
class Failure:
    """An exception that crossed a process boundary."""

    kind: str
    message: str
    trace: str
    expected: bool  # an error of ours, whose message says it all
    interrupted: bool  # it was asked to stop and saved its state

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        text = (str(error).strip() or type(error).__name__).splitlines()[0][:MESSAGE_LIMIT]
        expected = isinstance(error, PdebenchError)
        trace = "".join(traceback.format_exception(error))
        return cls(type(error).__name__, text, trace, expected, isinstance(error, Interrupted))

    @classmethod
    def from_plain(cls, value: Any) -> Failure:
        """What a job's process reports about its failure, cut to the allowed length."""
        return cls(
            str(value["kind"])[:100],
            str(value["message"])[:MESSAGE_LIMIT],
            str(value["trace"]),
            value["expected"] is True,
            value["interrupted"] is True,
        )


class Babble(Exception):
    """A job wrote something that is not an event to the pipe of its events."""


def main() -> None:
    inherited = {number: signal.getsignal(number) for number in STOPPING}
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)
    inbox = Connection(int(sys.argv[1]), writable=False)
    outbox = Connection(int(sys.argv[2]), readable=False)
    for module in sys.argv[3:]:
        with contextlib.suppress(Exception):  # it will fail again in the job that needs it, and be reported there
            importlib.import_module(module)
    adopt_orphans()
    wake_when_parent_dies()
    with contextlib.suppress(BrokenPipeError):  # the driver is gone
        _serve(inbox, outbox, inherited)


def _serve(inbox: Connection, outbox: Connection, inherited: Mapping[int, Any]) -> None:
    """Jobs, one after the other, until the driver closes the pipe."""
    wakeup_read, wakeup_write = os.pipe()
    os.set_blocking(wakeup_write, False)
    signal.set_wakeup_fd(wakeup_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    parent = _Parent(inbox, outbox, (wakeup_read, wakeup_write), inherited)
    parent.say("ready", os.getpid())
    while True:
        try:
            job = inbox.recv()
        except EOFError:
            return
        parent.do(job)


class _Parent:
    """The side of the fork that stays, and its lines to the driver."""

    def __init__(
        self, inbox: Connection, outbox: Connection, wakeup: tuple[int, int], inherited: Mapping[int, Any]
    ) -> None:
        self.inbox, self.outbox, self.wakeup = inbox, outbox, wakeup
        self.inherited = {signal.SIGCHLD: signal.SIG_DFL, **inherited}  # how jobs handle signals at their start
        self.jobs = 0

    def say(self, kind: str, *values: Any) -> None:
        self.outbox.send_bytes(json.dumps([kind, *values]).encode())

    def do(self, job: Job) -> None:
        """Run a job's halves, one after the other, and tell how it ended: exit code, file of the outcome, complaint."""
        self.jobs += 1
        if self.jobs == MANY:
            use_large_pages()
        code, left, complaint = self._half(job)
        if job.then and code == 0 and not complaint and os.path.lexists(left):
            second = replace(job, target=job.then, kwargs={**job.kwargs, "left": left})
            code, left, complaint = self._half(second)
        self.say("ended", code, left, complaint)

    def _half(self, job: Job) -> tuple[int, str, str]:
        job = replace(job, result=f"{job.result}-{secrets.token_hex(8)}")
        events, write_end = os.pipe()
        worker = os.getpid()
        child = os.fork()
        if child == 0:
            lead_group(os.getpid())
            die_with_parent(worker)
            signal.set_wakeup_fd(-1)
            for number, handler in self.inherited.items():
                signal.signal(number, handler)
            self.inbox.close()
            self.outbox.close()
            for descriptor in (*self.wakeup, events):
                os.close(descriptor)
            _run(job, write_end)  # never returns
        lead_group(child)
        os.close(write_end)
        os.set_blocking(events, False)
        self.say("started", child)
        try:
            status, complaint = self._wait(child, _Lines(events))
        finally:
            os.close(events)
        _clear(child)
        return os.waitstatus_to_exitcode(status), job.result, complaint

    def _wait(self, child: int, lines: _Lines) -> tuple[int, str]:
        """Wait for the child and pass on its events; kill it if it sends anything else.

        If the driver goes away meanwhile (its end of the pipe closes), end the job and exit.
        """
        complaint = ""
        while True:
            done, status = os.waitpid(-1, os.WNOHANG)
            if done not in (0, child):
                continue  # an orphan of the job's that has ended
            try:
                for event in lines.read():
                    self.say("event", event)
            except Babble as error:
                complaint = str(error)
            if done:
                return status, complaint
            if complaint:
                signal_group(child, signal.SIGKILL)
                return os.waitpid(child, 0)[1], complaint
            ready, _, _ = select.select([self.inbox.fileno(), self.wakeup[0], *lines.open], [], [], 5.0)
            if self.inbox.fileno() in ready:
                _clear(child)
                os._exit(1)
            if self.wakeup[0] in ready:
                os.read(self.wakeup[0], 4096)


def _clear(child: int) -> None:
    """Kill what a job left running, in its group and out of it."""
    signal_group(child, signal.SIGKILL)
    if has_children():
        kill_descendants(os.getpid())


class _Lines:
    """The events of a job as they come in."""

    def __init__(self, descriptor: int) -> None:
        self.open, self._rest = [descriptor], b""

    def read(self) -> Iterator[dict[str, float | None]]:
        """What there is now."""
        while self.open:
            try:
                found = os.read(self.open[0], 1 << 16)
            except BlockingIOError:
                return
            if not found:
                self.open = []
            *lines, self._rest = (self._rest + found).split(b"\n")
            if max(map(len, (*lines, self._rest))) > LINE_LIMIT:
                raise Babble(f"its process sent a message of more than {LINE_LIMIT} bytes")
            yield from map(_event, lines)


def _event(line: bytes) -> dict[str, float | None]:
    """A JSON object of numbers, or `Babble`."""
    try:
        event = json.loads(line)
        if isinstance(event, dict) and all(v is None or type(v) is float or abs(v) < 2**63 for v in event.values()):
            return event
    except (ValueError, TypeError, RecursionError):
        pass
    raise Babble("its process sent a message that is not an event")


def _run(job: Job, events: int) -> None:
    """In the child: do the job, leave its outcome in the result file, and end without the parent's clean-up."""
    judging = "left" in job.kwargs
    if judging:  # a request to stop is for the first half: this one is short, and its result would be lost
        for number in STOPPING:
            signal.signal(number, signal.SIG_IGN)
    _redirect_output(job.log, os.O_APPEND if judging else os.O_TRUNC)

    def emit(**event: float | None) -> None:
        os.write(events, json.dumps(event).encode() + b"\n")

    try:
        exchange.write(job.result, {"value": resolve(job.target)(emit=emit, **job.kwargs)})
        code = 0
    except BaseException as error:
        code = _leave_failure(job.result, error)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _leave_failure(path: str, error: BaseException) -> int:
    """Returns the exit code: 1, or 2 if there is no room for it."""
    traceback.print_exception(error)
    try:
        exchange.write(path, {"failure": asdict(Failure.of(error))})
    except OSError:
        traceback.print_exc()
        return 2
    return 1


def _redirect_output(log: str, mode: int) -> None:
    """What a job prints goes to its log, so that it can neither garble the terminal nor get lost."""
    target = os.open(log or os.devnull, os.O_WRONLY | os.O_CREAT | mode, 0o644)
    os.dup2(target, 1)
    os.dup2(target, 2)
    os.close(target)


if __name__ == "__main__":
    # Run under its importable name, so that what it unpickles (`pdebench_hss.workers.worker.Job`) is the same class.
    from .worker import main as run_main

    run_main()
