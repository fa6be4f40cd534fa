"""A worker process: imports what is heavy once, then runs each job in a fork of itself.

Started by `pdebench_hss.pool` as ``python -m pdebench_hss.worker IN OUT MODULE...``. The fork is what isolates: a job
that segfaults, leaks or is killed for memory takes only its own process with it, and the next one starts in
milliseconds because torch is already imported. Needs `os.fork` (Linux, macOS); elsewhere use `--executor inline`.

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
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from .errors import PdebenchError
from .lazy import resolve

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
    inbox = Connection(int(sys.argv[1]), writable=False)
    outbox = Connection(int(sys.argv[2]), readable=False)
    for module in sys.argv[3:]:
        with contextlib.suppress(Exception):  # it will fail again in the job that needs it, and be reported there
            importlib.import_module(module)
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
        child = os.fork()
        if child == 0:
            _run(job, outbox)  # never returns
        outbox.send(("started", child))
        status = _wait(child, inbox, wakeup_read)
        outbox.send(("ended", os.waitstatus_to_exitcode(status)))


def _wait(child: int, inbox: Connection, wakeup: int) -> int:
    """Wait for the child; if the driver goes away meanwhile (its end of the pipe closes), kill the child and go."""
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        ready, _, _ = select.select([inbox.fileno(), wakeup], [], [], 5.0)
        if inbox.fileno() in ready:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os._exit(1)
        if wakeup in ready:
            os.read(wakeup, 4096)


def _run(job: Job, outbox: Connection) -> None:
    """In the child: do the job, leave its outcome in the result file, and end without the parent's clean-up."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
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
