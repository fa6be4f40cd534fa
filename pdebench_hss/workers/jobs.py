"""A job, what its process does, and what it may say about it.

What a job's process says is not trusted. It writes events, JSON in lines, to a pipe of its own that ends in its worker,
and its outcome, plain values and arrays (`exchange`), to a file; nobody unpickles either.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, NoReturn

from ..base.errors import Interrupted, PdebenchError
from ..base.references import resolve
from . import exchange

STOPPING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)]
MESSAGE_LIMIT = 2000  # characters of free text in one message
LINE_LIMIT = 4096  # bytes of one event


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


class Lines:
    """The events of a job, put together from what comes in."""

    def __init__(self) -> None:
        self._rest = b""

    def add(self, found: bytes) -> Iterator[dict[str, float | None]]:
        """The events that are now complete; raises `Babble` for anything else."""
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


def run(job: Job, events: int) -> NoReturn:
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
