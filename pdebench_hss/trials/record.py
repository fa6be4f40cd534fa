"""A record: the outcome of one trial. Every field is documented in `Record`."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from . import validation
from .status import Status
from .trial import Trial

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Record:
    """The outcome of a trial.

    trial        the trial itself (everything its key is made of)
    status       how it ended; ``reason`` says why if it is not ok
    metrics      test errors and further metrics by name, means over test samples; ``test_err`` is the task's own
                 metric, and ``val_err`` the same for held-out training samples, if there are any. A further metric
                 without a finite value for some sample is left out
    parameters   ``real`` (complex = 2), ``numel``, and ``target`` where sizes were matched
    spent        steps, samples, seconds, flops and core-seconds of training
    flops_step   FLOPs of one training step (forward and backward of one batch)
    seconds      build, fit, predict (all test samples, median of a few), total
    predict_ms   milliseconds per test sample, in the batches of training
    serving      how fast it answers (`serving`): ``latency_ms`` of one input alone; ``throughput`` in answers a second
                 at ``best_batch``; medians over calls, with the 10th and 90th percentile as ``_low`` and ``_high``
    levels       of a classical solver: level, error, milliseconds per sample and ``latency_ms`` of one sample alone, on
                 the first test samples
    peak_memory  bytes beyond what the process held before the trial
    artefacts    what it left for later use, by kind: ``model`` has the ``sha256`` of its description and the ``bytes``
                 of its weights (`artefacts`), or the ``reason`` why it was not kept; ``predictions`` has the same for
                 its predictions (`predictions`), if they were to be kept
    data         content hash, sizes, and what a sample cost to generate (seconds of one core; None if imported)
    provenance   versions, source commit, hardware, threads, device, times; ``metrics``: the plugins of those that are
                 not built in, ``unmeasured``: why others are missing
    samples      arrays: ``error_<metric>`` per test sample, ``step_relative_l2`` of a rollout (at each step, mean over
                 samples), ``test_group`` (which start each belongs to; only where
                 several share one), ``curve_steps``, ``curve_losses``, ``val_steps|seconds|errors`` (the
                 error on held-out samples along the way), and ``picture_*`` of the best, median and worst
                 test sample and of the errors of all (see `pictures`)
    left         the artefacts themselves, on their way to disk; not stored in the record
    """

    key: str
    trial: Trial
    status: Status
    reason: str = ""
    metrics: dict[str, float] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    spent: dict[str, float] = field(default_factory=dict)
    flops_step: float | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    predict_ms: float | None = None
    serving: dict[str, float] = field(default_factory=dict)
    levels: list[dict[str, float]] = field(default_factory=list)
    peak_memory: int | None = None
    data: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)
    artefacts: dict[str, dict[str, Any]] = field(default_factory=dict)
    samples: dict[str, np.ndarray] = field(default_factory=dict, repr=False, compare=False)
    left: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def with_trial(self, trial: Trial) -> Record:
        """The same outcome under another trial's labels: `dataclasses.replace`, ten times as fast."""
        record = object.__new__(Record)
        record.__dict__.update(self.__dict__, trial=trial)
        return record

    def to_json(self, arrays: str = "") -> str:
        """The record as a file; ``arrays`` is the hash of the file of its arrays, empty if it has none."""
        content = {name: value for name, value in self.to_plain().items() if name in FIELDS}
        return json.dumps(validation.sealed(_plain(content), arrays), indent=1, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, key: str = "") -> Record:
        """A record from its file. All but its arrays is validated (see `validation`)."""
        content = validation.parse_json(text.encode() if isinstance(text, str) else text)
        fields, _ = validation.check_record(content, key or str(content.get("key")), FIELDS)
        return cls.from_plain(fields)

    def to_plain(self) -> dict[str, Any]:
        """As plain values and arrays, for files and other processes."""
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {**plain, "trial": self.trial.to_dict(), "status": self.status.value}

    @classmethod
    def from_plain(cls, fields: Mapping[str, Any]) -> Record:
        """From checked fields (`validation.check_record`), or from `to_plain`."""
        trial = fields["trial"]
        trial = trial if isinstance(trial, Trial) else Trial.from_dict(trial)
        return cls(**{**fields, "trial": trial, "status": Status(fields["status"])})


FIELDS = tuple(f.name for f in dataclasses.fields(Record) if f.name not in ("samples", "left"))


def _plain(value: Any) -> Any:
    """JSON has no NaN or infinity: they become null."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def shared(facts: Mapping[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
    """The same facts, with tables that are equal to another record's replaced by that one: machine, versions and source
    are the same for a whole run, and a hundred thousand copies of them would fill the memory."""
    return {
        name: parts.setdefault(repr(value), value) if isinstance(value, dict) else value
        for name, value in facts.items()
    }


def missing(key: str, trial: Trial, reason: str = "not run yet") -> Record:
    return Record(key, trial, Status.MISSING, reason)


def claimed(record: Record) -> str:
    """A result with the machine and the day that it comes from."""
    error = record.metrics.get("test_err", record.metrics.get("val_err"))
    ended = record.provenance.get("ended")
    day = datetime.fromtimestamp(ended, timezone.utc).strftime("%Y-%m-%d") if ended is not None else "some day"
    machine = record.provenance.get("hardware", {}).get("id", "an unknown machine")
    return f"{record.status if error is None else repr(error)} ({machine}, {day})"
