"""A trial as a job of a `WorkerPool`: the model's half, then the scorer's, each in a process of its own. Light."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...trials.record import Record
from ...workers.worker import Job

if TYPE_CHECKING:
    from ...trials.context import Context
    from ...trials.trial import Trial

FIT, SCORE = "pdebench_hss.trials.run_trial:fit_in_process", "pdebench_hss.trials.run_trial:score_in_process"


def job(name: str, trial: Trial, context: Context, log: str = "") -> Job:
    return Job(name, FIT, {"trial": trial, "context": context}, log=log, then=SCORE)


def record_from(trial: Trial, value: Any) -> Record:
    """What the second half returned, as the record of this trial and of no other; else a ValueError."""
    try:
        record = Record.from_plain(value)
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(f"its record can't be read: {error}") from None
    if record.key != trial.key:
        raise ValueError(f"its record is that of another trial, {record.key!r}")
    return replace(record, trial=trial)


def is_progress(value: dict[str, float | None]) -> bool:
    """Does what a model's process emitted say how far it is? Workers let objects of numbers and null pass."""
    return "total" in value and None not in map(value.get, ("step", "fraction", "loss"))
