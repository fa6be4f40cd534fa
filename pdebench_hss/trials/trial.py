"""A trial, its key, and `run_trial`: one cell of the benchmark from data to record.

    fitting:  train, test inputs -> normalise -> build -> fit within the budget -> predict the test set
    scoring:  predictions, test outputs -> errors in physical units -> record

The same two functions run inline, in processes of their own and on a cluster. They never raise for what a model does:
the record says what happened.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ..base import devices
from ..contract.registry import Registry, load_registry
from ..training import loop
from ..training.loop import Emit
from ..workers import exchange
from . import fitting, scoring
from .fitting import Fitted, ended_facts, provenance
from .record import Record
from .validation import trial_key


@dataclass(frozen=True)
class Trial:
    """Everything that can change a result, as plain values, and nothing else (no paths, no order, no timing)."""

    model: str
    model_label: str
    model_version: str
    model_origin: str
    hparams: Mapping[str, Any]
    optimizer: Mapping[str, float]
    task: str
    task_label: str
    task_params: Mapping[str, Any]
    task_origin: str
    data_id: str
    data_seed: int
    scale: str
    budget: str
    n_train: int
    seed: int
    device: str
    params_target: int | None = None
    task_digest: str = ""
    protocol: int = loop.PROTOCOL
    equation: str = ""
    metric: str = ""
    training_free: bool = False
    flops_rule: int = 0  # `counting.RULE` where the budget counts FLOPs, else 0: there it changes no result
    precision: str = devices.DEFAULT_PRECISION

    @cached_property
    def key(self) -> str:
        return trial_key(self.to_dict())

    @property
    def cell(self) -> str:
        """The place in the table this trial fills."""
        size = f" params={self.params_target}" if self.params_target else ""
        data_seed = f" data_seed={self.data_seed}" if self.data_seed else ""
        return (
            f"{self.task_label} {self.model_label} {self.scale} {self.budget}{size} "
            f"n={self.n_train} seed={self.seed}{data_seed} {devices.label(self.device, self.precision)}"
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Trial:
        return cls(**content)


@dataclass(frozen=True)
class Context:
    """What a trial needs to run here and must not depend on: places, threads, where from, how many share the work.

    ``data`` names the file in this machine's data cache; by default it is the one that the task's generator makes.
    ``rank`` of ``ranks`` processes meet at ``rendezvous`` and train together (see `ranks`).
    """

    data: str = ""
    threads: int = 0
    checkpoint: str = ""
    checkpoint_seconds: float = loop.CHECKPOINT_SECONDS
    plugin_files: tuple[str, ...] = ()
    rank: int = 0
    ranks: int = 1
    rendezvous: str = ""
    gpu: int = 0  # of those that the process sees
    cuda_graphs: bool = False


def run_trial(
    trial: Trial, context: Context, registry: Registry | None = None, emit: Emit = lambda **_: None
) -> Record:
    """Run one trial, both halves in this process, so a model here can reach the answers and the scorer: for debugging
    and notebooks. Raises `Interrupted` if asked to stop; everything else is in the record."""
    fitted = fitting.fit_trial(trial, context, registry, emit)
    return scoring.score_trial(trial, context, registry or load_registry(context.plugin_files), fitted)


def fit_in_process(emit: Emit, trial: dict[str, Any], context: Context) -> dict[str, Any]:
    """The first half, with SIGTERM or SIGHUP as the request to save and stop."""
    from . import warm

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as `nohup` wants it
            signal.signal(number, lambda *_: fitting.STOP.set())
    registry = warm.registry(context.plugin_files)
    return fitting.fit_trial(Trial.from_dict(trial), context, registry, emit, apart=True).to_plain()


def score_in_process(emit: Emit, trial: dict[str, Any], context: Context, left: str) -> dict[str, Any]:
    """The second half: ``left`` is the file that the first one left, or what the model made of it."""
    from . import warm

    judged = Trial.from_dict(trial)
    try:
        fitted = Fitted.from_plain(exchange.view(left)["value"])
    except (exchange.NotPlain, KeyError, TypeError) as error:
        raise UnreadableResult(f"what the model's process left can't be read: {error}") from None
    # Of the files given by --plugin only the task's is loaded here, not the model's.
    name = judged.task_origin.rsplit(" ", 1)[0]
    registry = warm.registry(tuple(file for file in context.plugin_files if Path(file).name == name))
    return vars(scoring.score_trial(judged, context, registry, fitted))


class UnreadableResult(Exception):
    """A model's process left something that is not a result."""


def ended_without_record(trial: Trial, status: str, reason: str) -> Record:
    """The record of a trial whose process could not write one."""
    facts = ended_facts(trial)
    return Record(trial.key, trial.to_dict(), status, reason, provenance=provenance(trial, time.time(), facts=facts))
