"""How a trial ended: what one process left, or several peers of one trial, becomes one record."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...trials.record import Record
from ...trials.run_trial import ended_without_record
from ...trials.status import Status
from ...trials.trial import Trial
from ...workers.events import Crashed, Done, Ended, Failed
from .halves import Ending, ending_from


def ending_of(trial: Trial, event: Ended, timeout: float | None) -> Ending:
    """The ending of a process of a trial from its last event."""
    if isinstance(event, Done):
        try:
            return ending_from(trial, event.value)
        except ValueError as error:
            status, reason = Status.FAILED, str(error)
    elif isinstance(event, Failed):
        status, reason = Status.FAILED, f"{event.failure.kind}: {event.failure.message}"
    elif isinstance(event, Crashed) and event.is_killed:
        status, reason = Status.OUT_OF_MEMORY, "killed by the system (SIGKILL), most likely for memory"
    elif isinstance(event, Crashed):
        status, reason = Status.FAILED, f"crashed: {event.reason}"
    else:
        status, reason = Status.TIMEOUT, f"not finished after {timeout:g} s (--timeout)"
    return Ending(ended_without_record(trial, status, reason))


@dataclass
class Gang:
    """The peers of one trial. They succeed together; the first that fails by itself gives the reason."""

    size: int
    endings: dict[int, Ending] = field(default_factory=dict)  # by number of the peer, in the order of arrival

    def end(self, peer: int, ending: Ending) -> None:
        self.endings[peer] = ending

    @property
    def missing(self) -> list[int]:
        return [peer for peer in range(self.size) if peer not in self.endings]

    @property
    def failed(self) -> bool:
        """Whether the remaining peers would wait in vain."""
        return any(_is_bad(ending) and not ending.peer_lost for ending in self.endings.values())

    @property
    def abandoned(self) -> bool:
        """Whether peers ended because others were gone, and none gives the reason."""
        return not self.failed and any(ending.peer_lost for ending in self.endings.values())

    @property
    def record(self) -> Record | None:
        """The trial's record once all have ended: peer 0's, which knows most, if it ended for the same reason."""
        if self.missing:
            return None
        bad = sorted(filter(_is_bad, self.endings.values()), key=lambda ending: ending.peer_lost)  # else by arrival
        first = self.endings[0].record
        cause = bad[0].record if bad else first
        return first if (first.status, first.reason) == (cause.status, cause.reason) else cause


def _is_bad(ending: Ending) -> bool:
    return ending.record.status is not Status.OK
