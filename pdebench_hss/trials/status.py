"""How a trial ended, or that it has not run yet."""

from __future__ import annotations

from enum import Enum


class Status(str, Enum):
    """Equal to its text, so that tables and files hold plain words."""

    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"
    DIVERGED = "diverged"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    OVER_BUDGET = "over_budget"  # it trained itself and spent more than its budget: scored, but not ranked
    CONFLICT = "conflict"  # two boards that were merged state different results; never stored
    MISSING = "missing"  # of a planned trial without a record; never stored

    def __str__(self) -> str:
        return self.value

    @property
    def is_settled(self) -> bool:
        """Running it again would give the same. Other endings may be the machine's fault, and are tried again."""
        return self in (Status.OK, Status.SKIPPED, Status.DIVERGED, Status.OVER_BUDGET)


STORED = tuple(status for status in Status if status not in (Status.CONFLICT, Status.MISSING))
