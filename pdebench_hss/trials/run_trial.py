"""`run_trial`: one cell of the benchmark from data to record.

    fitting:  train, test inputs -> normalise -> build -> fit within the budget -> predict the test set
    scoring:  predictions, test outputs -> errors in physical units -> record

The same two functions run inline, in separate processes and on a cluster. A failing model never makes them raise: the
record says what happened.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any

from ..contract.registry import Registry, load_registry
from ..training.progress import Emit, say_nothing
from ..workers import exchange
from . import fitting, scoring
from .context import Context
from .fitted import Fitted
from .fitting import ended_facts, provenance
from .record import Record
from .status import Status
from .trial import Trial


def run_trial(trial: Trial, context: Context, registry: Registry | None = None, emit: Emit = say_nothing) -> Record:
    """Run both halves of one trial in this process. The model can then reach the answers and the scorer, so this is for
    debugging and notebooks. Raises `Interrupted` if asked to stop; everything else is in the record."""
    fitted = fitting.fit_trial(trial, context, registry, emit)
    return scoring.score_trial(trial, context, registry or load_registry(context.plugin_files), fitted)


def fit_in_process(emit: Callable[..., None], trial: Trial, context: Context) -> dict[str, Any]:
    """The first half, with SIGTERM or SIGHUP as the request to save and stop."""
    from . import warm

    for number in (getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)):
        if signal.getsignal(number) != signal.SIG_IGN:  # ignored under `nohup`
            signal.signal(number, lambda *_: fitting.STOP.set())
    registry = warm.registry(context.plugin_files)
    tell = lambda progress: emit(**progress.to_plain())  # noqa: E731
    return fitting.fit_trial(trial, context, registry, tell, apart=True).to_plain()


def score_in_process(emit: Callable[..., None], trial: Trial, context: Context, left: str) -> dict[str, Any]:
    """The second half: ``left`` is the file that the first one left, which the model may have tampered with."""
    from . import warm

    try:
        fitted = Fitted.from_plain(exchange.view(left)["value"])
    except (exchange.NotPlain, KeyError, TypeError) as error:
        raise UnreadableResult(f"what the model's process left can't be read: {error}") from None
    registry = warm.registry(context.scoring_files)
    record = scoring.score_trial(trial, context, registry, fitted)
    return {"record": record.to_plain(), "peer_lost": fitted.peer_lost}


class UnreadableResult(Exception):
    """A model's process left something that is not a result."""


def ended_without_record(trial: Trial, status: Status, reason: str) -> Record:
    """The record of a trial whose process could not write one."""
    facts = ended_facts(trial)
    return Record(trial.key, trial, status, reason, provenance=provenance(trial, time.time(), facts=facts))
