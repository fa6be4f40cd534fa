"""Halves of jobs in forks of the worker, which has imported what is heavy."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any

from .forking import use_large_pages
from .jobs import Babble, Job, Lines, run
from .processes import clear, die_with_parent, kill_group, lead_group

MANY = 40  # forks after which cheaper ones repay what they cost once (`forking`): about as much as this many


class Forked:
    """``inherited``: how signals were handled when the worker started, and are again in its jobs."""

    def __init__(self, inbox: Connection, outbox: Connection, inherited: Mapping[int, Any]) -> None:
        self.inbox, self.outbox, self.forks = inbox, outbox, 0
        self.wakeup = os.pipe()
        os.set_blocking(self.wakeup[1], False)
        signal.set_wakeup_fd(self.wakeup[1])
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.inherited = {signal.SIGCHLD: signal.SIG_DFL, **inherited}

    def half(self, job: Job, say: Callable[..., None]) -> tuple[int, str]:
        """Run one half; its exit code, and what is wrong with what it said."""
        self.forks += 1
        if self.forks == MANY:
            use_large_pages()
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
            run(job, write_end)
        lead_group(child)
        os.close(write_end)
        os.set_blocking(events, False)
        say("started", child)
        try:
            status, complaint = self._wait(child, events, say)
        finally:
            os.close(events)
        clear(child)
        return os.waitstatus_to_exitcode(status), complaint

    def _wait(self, child: int, events: int, say: Callable[..., None]) -> tuple[int, str]:
        """Wait for the child and pass on its events; kill it if it sends anything else.

        If the driver goes away meanwhile (its end of the pipe closes), end the job and exit.
        """
        lines, listening = Lines(), [events]
        while True:
            done, status = os.waitpid(-1, os.WNOHANG)
            if done not in (0, child):
                continue  # an orphan of the job's that has ended
            try:
                while listening and (found := _read(events)) is not None:
                    if not found:
                        listening = []
                    for event in lines.add(found):
                        say("event", event)
            except Babble as error:
                if not done:
                    kill_group(child)
                    status = os.waitpid(child, 0)[1]
                return status, str(error)
            if done:
                return status, ""
            ready, _, _ = select.select([self.inbox.fileno(), self.wakeup[0], *listening], [], [], 5.0)
            if self.inbox.fileno() in ready:
                clear(child)
                os._exit(1)
            if self.wakeup[0] in ready:
                os.read(self.wakeup[0], 4096)


def _read(descriptor: int) -> bytes | None:
    """What there is now: empty at the end of the file, None if nothing came yet."""
    try:
        return os.read(descriptor, 1 << 16)
    except BlockingIOError:
        return None
