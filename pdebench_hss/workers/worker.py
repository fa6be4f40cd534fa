"""A worker process: runs each job in processes of its own, one after the other.

Started by `pool` as ``python -m pdebench_hss.workers.worker IN OUT MODULE...``. A job's own process is what isolates: a
job that segfaults, leaks or is killed for memory takes only that with it. Where there is a fork, the worker imports
what is heavy once, and the next job starts in milliseconds (`forked`); elsewhere each starts anew (`spawned`).

What a job's process says is not trusted (`jobs`). A job may have a second half, ``then``, that judges what the first
left: in a process of its own, made when the first has ended, where no code of the first has run. The name of its file
is chosen only then.

A job leads a process group. When it ends, however it ends, the worker kills what it left running (see `processes`).
Signals that end programs are the driver's to handle: a worker ignores them and ends when the driver's pipe closes.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import secrets
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

from .jobs import STOPPING, Job
from .processes import adopt_orphans, wake_when_parent_dies
from .spawned import Spawned
from .starting import FORK, inherited, start_method


def main() -> None:
    handlers = {number: signal.getsignal(number) for number in STOPPING}
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)
    inbox, outbox = inherited(sys.argv[1], readable=True), inherited(sys.argv[2], readable=False)
    halves = _halves(inbox, outbox, sys.argv[3:], handlers)
    adopt_orphans()
    wake_when_parent_dies()
    with contextlib.suppress(BrokenPipeError):  # the driver is gone
        _serve(inbox, outbox, halves)


def _halves(inbox: Connection, outbox: Connection, preload: Sequence[str], handlers: Mapping[int, Any]) -> Any:
    if start_method() != FORK:
        return Spawned(inbox, preload, handlers)
    from .forked import Forked  # here: Windows lacks what it is made of

    for module in preload:
        with contextlib.suppress(Exception):  # it will fail again in the job that needs it, and be reported there
            importlib.import_module(module)
    return Forked(inbox, outbox, handlers)


def _serve(inbox: Connection, outbox: Connection, halves: Any) -> None:
    """Jobs, one after the other, until the driver closes the pipe."""

    def say(kind: str, *values: Any) -> None:
        outbox.send_bytes(json.dumps([kind, *values]).encode())

    def half(job: Job) -> tuple[int, str, str]:
        job = replace(job, result=f"{job.result}-{secrets.token_hex(8)}")
        code, complaint = halves.half(job, say)
        return code, job.result, complaint

    say("ready", os.getpid())
    while True:
        try:
            job = inbox.recv()
        except EOFError:
            return
        code, left, complaint = half(job)
        if job.then and code == 0 and not complaint and os.path.lexists(left):
            code, left, complaint = half(replace(job, target=job.then, kwargs={**job.kwargs, "left": left}))
        say("ended", code, left, complaint)


if __name__ == "__main__":
    main()
    os._exit(0)  # the driver waits for it: to take everything apart that was imported takes longer than a small job
