"""A trial as a job of a `WorkerPool`: the model's half, then the scorer's, each in its own process. Light."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...trials.artefacts import LARGEST_DESCRIPTION
from ...trials.record import Record
from ...workers.jobs import Job
from ...workers.pool import RESULT_LIMIT

if TYPE_CHECKING:
    from ...trials.context import Context
    from ...trials.trial import Trial

FIT, SCORE = "pdebench_hss.trials.run_trial:fit_in_process", "pdebench_hss.trials.run_trial:score_in_process"


@dataclass(frozen=True)
class Ending:
    """How one process of a trial ended."""

    record: Record
    peer_lost: bool = False  # it ended because another peer was gone; that peer gives the reason


def job(name: str, trial: Trial, context: Context, log: str = "") -> Job:
    return Job(name, FIT, {"trial": trial, "context": context}, log=log, then=SCORE)


def result_limit(model_bytes: int) -> int:
    """Bytes that the second half may return: a record with its arrays, and the model it carries."""
    return RESULT_LIMIT + model_bytes + LARGEST_DESCRIPTION


def ending_from(trial: Trial, value: Any) -> Ending:
    """What the second half returned, as the ending of this trial; raises ValueError if it is not that."""
    try:
        record, peer_lost = Record.from_plain(value["record"]), value["peer_lost"] is True
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(f"its record can't be read: {error}") from None
    if record.key != trial.key:
        raise ValueError(f"its record belongs to another trial, {record.key!r}")
    return Ending(replace(record, trial=trial), peer_lost)
