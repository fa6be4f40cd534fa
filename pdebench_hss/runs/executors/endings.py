"""How a trial ended: what a process left behind, and what several ranks of one trial left, become one record."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...training.peers import PartnerLost
from ...trials.record import Record
from ...trials.run_trial import ended_without_record
from ...trials.status import Status
from ...trials.trial import Trial
from ...workers.pool import Event
from .halves import record_from


def record_of(trial: Trial, event: Event, timeout: float | None) -> Record:
    """The record of a trial from the last event of its process."""
    if event.kind == "done":
        try:
            return record_from(trial, event.value)
        except ValueError as error:
            return ended_without_record(trial, Status.FAILED, str(error))
    if event.kind == "timeout":
        return ended_without_record(trial, Status.TIMEOUT, f"not done after {timeout:g} s (--timeout)")
    if event.kind == "crashed" and event.value == "SIGKILL":
        return ended_without_record(
            trial, Status.OUT_OF_MEMORY, "killed by the system (SIGKILL), most likely for memory"
        )
    reason = f"crashed: {event.value}" if event.kind == "crashed" else f"{event.value.kind}: {event.value.message}"
    return ended_without_record(trial, Status.FAILED, reason)


@dataclass
class Gang:
    """The ranks of one trial. They succeed together; the first that ends badly by itself is the reason."""

    size: int
    endings: dict[int, Record] = field(default_factory=dict)  # by rank, in the order of arrival

    def end(self, rank: int, record: Record) -> None:
        self.endings[rank] = record

    @property
    def missing(self) -> list[int]:
        return [rank for rank in range(self.size) if rank not in self.endings]

    @property
    def failed(self) -> bool:
        """The ranks that are missing now would wait in vain."""
        return any(_is_bad(record) and not _is_abandoned(record) for record in self.endings.values())

    @property
    def abandoned(self) -> bool:
        """Ranks ended because others were gone, and none says why."""
        return not self.failed and any(map(_is_abandoned, self.endings.values()))

    @property
    def record(self) -> Record | None:
        """The trial's record once all have ended. Rank 0 knows most of a trial, if it ended for the same reason."""
        if self.missing:
            return None
        bad = sorted(filter(_is_bad, self.endings.values()), key=_is_abandoned)  # stable: else by arrival
        cause, first = (bad or [self.endings[0]])[0], self.endings[0]
        return first if (first.status, first.reason) == (cause.status, cause.reason) else cause


def _is_bad(record: Record) -> bool:
    return record.status is not Status.OK


def _is_abandoned(record: Record) -> bool:
    return record.reason.startswith(PartnerLost.__name__)
