"""Halves of jobs in new interpreters, for systems without a fork.

A half's process imports what is heavy, says so by a first, empty event, and gets its job through its standard input.
That stays open as long as the worker lives: when it closes, the process ends, whatever it does. Its standard output is
the pipe of its events, and moves away before any code of the job runs.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, BinaryIO

from .jobs import STOPPING, Babble, Job, Lines, run
from .processes import clear, die_with_parent, kill_group
from .starting import apart

LOOK = 0.02  # seconds between two looks at a process: few beside those that its start takes
LAST = 5.0  # seconds for what is left in the pipe of a process that has ended


class Spawned:
    """``preload`` names what a half's process imports before its job; ``inherited`` is as in `Forked`."""

    def __init__(self, inbox: Connection, preload: Sequence[str], inherited: Mapping[int, Any]) -> None:
        self.inbox = inbox
        ignored = ",".join(str(int(number)) for number, handler in inherited.items() if handler == signal.SIG_IGN)
        self.command = [sys.executable, "-m", __name__, ignored, *preload]

    def half(self, job: Job, say: Callable[..., None]) -> tuple[int, str]:
        """Run one half; its exit code, and what is wrong with what it said."""
        with subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **apart()) as process:
            half = _Half(process, say)
            try:
                with contextlib.suppress(OSError):  # it is gone: its exit code tells
                    pickle.dump(job, half.stdin)
                    half.stdin.flush()
                while process.poll() is None:
                    half.listen()
                    if wait([self.inbox], LOOK):  # the driver is gone
                        clear(process.pid)
                        os._exit(1)
                clear(process.pid)
                half.listen_to_the_end()
            except Babble as error:
                kill_group(process.pid)
                process.wait()
                clear(process.pid)
                return process.returncode, str(error)
            return process.returncode, ""


class _Half:
    """A process and what comes from it."""

    def __init__(self, process: subprocess.Popen[bytes], say: Callable[..., None]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process, self.stdin, self.say = process, process.stdin, say
        self.lines, self.started = Lines(), False
        self.found: queue.Queue[bytes] = queue.Queue(maxsize=64)
        self.reader = threading.Thread(target=_pass_on, args=(process.stdout, self.found), daemon=True)
        self.reader.start()

    def listen(self) -> None:
        for found in self._now():
            for event in self.lines.add(found):
                if self.started:
                    self.say("event", event)
                else:
                    self._start()

    def listen_to_the_end(self) -> None:
        while self.reader.is_alive() or not self.found.empty():
            self.listen()
            before = self.found.qsize()
            self.reader.join(LAST if not before else LOOK)
            if self.reader.is_alive() and self.found.empty():
                break  # somebody else keeps the pipe open
        if not self.started:
            self._start()

    def _start(self) -> None:
        self.started = True
        self.say("started", self.process.pid)

    def _now(self) -> Iterator[bytes]:
        with contextlib.suppress(queue.Empty):
            while True:
                yield self.found.get_nowait()


def _pass_on(pipe: BinaryIO, found: queue.Queue[bytes]) -> None:
    with contextlib.suppress(OSError, ValueError):
        while content := os.read(pipe.fileno(), 1 << 16):
            found.put(content)


def main() -> None:
    """In the process of a half."""
    ignored, *preload = sys.argv[1:]
    for number in STOPPING:
        usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, signal.SIG_IGN if str(int(number)) in ignored.split(",") else usual)
    die_with_parent(os.getppid())
    events, commands = os.dup(1), os.fdopen(os.dup(0), "rb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(2, 1)
    for module in preload:
        with contextlib.suppress(Exception):  # it will fail again in the job, and be reported there
            importlib.import_module(module)
    os.write(events, b"{}\n")
    try:
        job = pickle.load(commands)
    except EOFError:
        return
    threading.Thread(target=_end_with, args=(commands,), daemon=True).start()
    run(job, events)


def _end_with(commands: BinaryIO) -> None:
    """End this process when its worker is gone."""
    with contextlib.suppress(OSError):
        commands.read()
    os._exit(1)


if __name__ == "__main__":
    main()
