"""What happens to a job: it is started, it may emit numbers, and it ends once, in one of four ways."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .jobs import Failure, Job


@dataclass(frozen=True)
class Event:
    job: Job


@dataclass(frozen=True)
class Started(Event):
    """It has a process."""


@dataclass(frozen=True)
class Emitted(Event):
    """Numbers by name, as the job's process sent them."""

    values: Mapping[str, float | None]


@dataclass(frozen=True)
class Ended(Event):
    """The last event of a job."""


@dataclass(frozen=True)
class Done(Ended):
    """What it returned: plain values and arrays."""

    value: Any


@dataclass(frozen=True)
class Failed(Ended):
    """It raised."""

    failure: Failure


@dataclass(frozen=True)
class Crashed(Ended):
    """Its process ended without an outcome: by a signal, an exit code, or with its worker."""

    reason: str
    is_killed: bool = False  # by SIGKILL, which is how systems end what takes too much memory


@dataclass(frozen=True)
class TimedOut(Ended):
    """It was killed because its time was up."""
