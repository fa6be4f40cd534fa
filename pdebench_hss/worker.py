"""A worker process: imports what is heavy once, then runs each job in a fork of itself.

Started by `pdebench_hss.pool` as ``python -m pdebench_hss.worker IN OUT MODULE...``. The fork is what isolates: a job
that segfaults, leaks or is killed for memory takes only its own process with it, and the next one starts in
milliseconds because torch is already imported. Needs `os.fork` (Linux, macOS); elsewhere use `--executor inline`.

A job leads a process group. When it ends, however it ends, the worker kills what it left running (see `processes`).
Signals that end programs are the driver's to handle: a worker ignores them and ends when the driver's pipe closes.

Only short messages go through the pipe, so that each is written whole or not at all; results go to a file.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import select
import signal
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from .errors import PdebenchError
from .lazy import resolve
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
MESSAGE_LIMIT = 2000  # characters of free text in one message; a pipe takes 4096 bytes at once


@dataclass(frozen=True)
class Job:
    """``target(emit=..., **kwargs)`` is to be called in a process of its own; its result is pickled to ``result``."""

    id: str
    target: str
    kwargs: dict[str, Any] = field(default_factory=dict)
    result: str = ""
    log: str = ""


@dataclass(frozen=True)
class Failure:
    """An exception that crossed a process boundary."""

    kind: str
    message: str
    trace: str
    expected: bool

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        text = (str(error).strip() or type(error).__name__).splitlines()[0][:MESSAGE_LIMIT]
        expected = isinstance(error, PdebenchError)
        return cls(type(error).__name__, text, "".join(traceback.format_exception(error)), expected)


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
    outbox.send(("ready", os.getpid()))
    while True:
        try:
            job = inbox.recv()
        except EOFError:
            return
        worker = os.getpid()
        child = os.fork()
        if child == 0:
            lead_group(os.getpid())
            die_with_parent(worker)
            inbox.close()
            for number, handler in {signal.SIGCHLD: signal.SIG_DFL, **inherited}.items():
                signal.signal(number, handler)
            _run(job, outbox)  # never returns
        lead_group(child)
        outbox.send(("started", child))
        status = _wait(child, inbox, wakeup_read)
        _clear(child)
        outbox.send(("ended", os.waitstatus_to_exitcode(status)))


def _clear(child: int) -> None:
    """Kill what a job left running, in its group and out of it."""
    signal_group(child, signal.SIGKILL)
    if has_children():
        kill_descendants(os.getpid())


def _wait(child: int, inbox: Connection, wakeup: int) -> int:
    """Wait for the child; if the driver goes away meanwhile (its end of the pipe closes), end all of it and go."""
    while True:
        done, status = os.waitpid(-1, os.WNOHANG)
        if done == child:
            return status
        if done:
            continue  # an orphan of the job's that has ended
        ready, _, _ = select.select([inbox.fileno(), wakeup], [], [], 5.0)
        if inbox.fileno() in ready:
            _clear(child)
            os._exit(1)
        if wakeup in ready:
            os.read(wakeup, 4096)


def _run(job: Job, outbox: Connection) -> None:
    """In the child: do the job, leave its outcome in the result file, and end without the parent's clean-up."""
    signal.set_wakeup_fd(-1)
    _redirect_output(job.log)

    def emit(**event: Any) -> None:
        outbox.send(("event", event))

    code = 0
    try:
        outcome: Any = resolve(job.target)(emit=emit, **job.kwargs)
    except BaseException as error:
        traceback.print_exc()
        outcome, code = Failure.of(error), 1
    try:
        Path(job.result).write_bytes(pickle.dumps(outcome))
    except OSError:
        traceback.print_exc()
        code = 2
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _redirect_output(log: str) -> None:
    """What a job prints goes to its log, so that it can neither garble the terminal nor get lost."""
    target = os.open(log or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(target, 1)
    os.dup2(target, 2)
    os.close(target)


if __name__ == "__main__":
    # Run under its importable name, so that what it unpickles (`pdebench_hss.worker.Job`) is the same class.
    from pdebench_hss.worker import main as run_main

    run_main()
