"""Records: what became of each trial, and the directory that holds them.

A store is a directory:

    records/<key>.json     one per trial, written whole the moment the trial ends
    records/<key>.npz      beside it: per-sample test errors, the learning curve, three pictures
    plan.json              the cells that were asked for, so that missing ones can be shown as missing, and by what
    checkpoints/, logs/    work in progress
    *.csv, *.md            tables, derived from the above at any time

Every field of a record is documented in `Record`.
"""

from __future__ import annotations

import dataclasses
import json
import math
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import StoreError
from .files import check_writable, remove_stale_temporaries, replacing, write_text

if TYPE_CHECKING:
    import numpy as np

    from .trial import Trial

SCHEMA = 1
OK, FAILED, SKIPPED, DIVERGED, TIMEOUT, OUT_OF_MEMORY = (
    "ok",
    "failed",
    "skipped",
    "diverged",
    "timeout",
    "out_of_memory",
)
STATUSES = (OK, FAILED, SKIPPED, DIVERGED, TIMEOUT, OUT_OF_MEMORY)
# What another run would only repeat. The other endings may be the machine's fault, and are tried again.
SETTLED = (OK, SKIPPED, DIVERGED)


class RecordWarning(UserWarning):
    """A record that can't be read."""


@dataclass(frozen=True)
class Record:
    """What became of a trial.

    trial        the trial itself, as plain values (everything its key is made of)
    status       one of `STATUSES`; ``reason`` says why where it is not ok
    metrics      test errors by name, means over test samples; ``test_err`` is the task's own metric
    parameters   ``real`` (complex = 2), ``numel``, and ``target`` where sizes were matched
    spent        steps, samples, seconds and flops of training
    flops_step   FLOPs of one training step (forward and backward of one batch)
    seconds      build, fit, predict (all test samples, median of a few), total
    predict_ms   milliseconds per test sample
    peak_memory  bytes beyond what the process held before the trial
    data         content hash, sizes, and what a sample cost to generate (seconds of one core; None if imported)
    provenance   versions, source commit, hardware, threads, device, times
    samples      arrays: ``error_<metric>`` per test sample, ``test_group`` (which start each belongs to; only where
                 several share one), ``curve_steps``, ``curve_losses``, and ``picture_*`` of the best, median and worst
                 test sample (see `pictures`)
    """

    key: str
    trial: dict[str, Any]
    status: str
    reason: str = ""
    metrics: dict[str, float] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    spent: dict[str, float] = field(default_factory=dict)
    flops_step: float | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    predict_ms: float | None = None
    peak_memory: int | None = None
    data: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)
    samples: dict[str, np.ndarray] = field(default_factory=dict, repr=False)

    def to_json(self) -> str:
        content = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "samples"}
        return json.dumps({"schema": SCHEMA, **_plain(content)}, indent=1, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Record:
        content = json.loads(text)
        if not isinstance(content, dict):
            raise ValueError(f"expected an object, found {type(content).__name__}")
        if content.pop("schema") != SCHEMA:
            raise ValueError("written by another version of pdebench-hss")
        return cls(**content)


def _plain(value: Any) -> Any:
    """JSON has no NaN or infinity: they become null."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


class Store:
    """A directory of records. Only the driver writes to it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.records_dir = self.path / "records"
        self.checkpoints_dir = self.path / "checkpoints"
        self.logs_dir = self.path / "logs"

    def prepare(self) -> None:
        """Make the folders and prove they can be written, before anything is trained."""
        for folder in (self.path, self.records_dir, self.checkpoints_dir, self.logs_dir):
            check_writable(folder)
            remove_stale_temporaries(folder)

    def get(self, key: str) -> Record | None:
        """The record of a trial, or None; one that can't be read is reported and counts as missing."""
        path = self.records_dir / f"{key}.json"
        try:
            return Record.from_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, OSError) as error:
            message = f"record {path.name} in {self.path} can't be read ({error}); it counts as missing"
            warnings.warn(message, RecordWarning, stacklevel=2)
            return None

    def put(self, record: Record) -> None:
        """Write a record; its arrays first, because the JSON file is what makes it exist."""
        import numpy as np

        samples = self.records_dir / f"{record.key}.npz"
        if record.samples:
            with replacing(samples) as temporary, temporary.open("wb") as file:
                np.savez_compressed(file, **record.samples)  # type: ignore[arg-type]
        else:
            samples.unlink(missing_ok=True)  # those of an earlier record under this key
        write_text(self.records_dir / f"{record.key}.json", record.to_json())
        self.checkpoint(record.key).unlink(missing_ok=True)

    def samples(self, key: str, *names: str) -> dict[str, np.ndarray]:
        """The arrays beside a record, or those of them that are named; empty if there are none."""
        import numpy as np

        try:
            with np.load(self.records_dir / f"{key}.npz") as arrays:
                return {name: arrays[name] for name in arrays.files if not names or name in names}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, zipfile.BadZipFile, zlib.error) as error:
            message = f"the arrays beside record {key} in {self.path} can't be read ({error})"
            warnings.warn(message, RecordWarning, stacklevel=2)
            return {}

    def all(self) -> list[Record]:
        """Every readable record, in the order of keys."""
        if not self.path.is_dir():
            raise StoreError(f"{self.path}: no such directory")
        found = (self.get(path.stem) for path in sorted(self.records_dir.glob("*.json")))
        return [record for record in found if record is not None]

    def checkpoint(self, key: str) -> Path:
        return self.checkpoints_dir / f"{key}.pt"

    def log(self, key: str) -> Path:
        return self.logs_dir / f"{key}.log"

    def plan(self) -> dict[str, dict[str, Any]]:
        """The cells asked for so far: cell identity -> the trial (with its key) that stands for it now."""
        return dict(self._plan_file().get("cells", {}))

    def commands(self) -> list[str]:
        """The commands that asked for them, each once, in the order of their first use."""
        return list(self._plan_file().get("commands", []))

    def _plan_file(self) -> dict[str, Any]:
        try:
            content = json.loads((self.path / "plan.json").read_text(encoding="utf-8"))
            return {"cells": dict(content["cells"]), "commands": list(content.get("commands", []))}
        except FileNotFoundError:
            return {}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            message = f"plan.json in {self.path} can't be read ({error}); only existing records are shown"
            warnings.warn(message, RecordWarning, stacklevel=3)
            return {}

    def add_to_plan(self, trials: Iterable[Trial], command: str = "") -> None:
        """Later plans win: a cell asked for again, with a newer model say, is represented by its new trial."""
        cells, commands = self.plan(), self.commands()
        cells.update({trial.cell: {"key": trial.key, "trial": trial.to_dict()} for trial in trials})
        if command and command not in commands:
            commands.append(command)
        content = {"schema": SCHEMA, "commands": commands, "cells": cells}
        write_text(self.path / "plan.json", json.dumps(content, indent=1) + "\n")

    def current(self) -> list[Record]:
        """One record per planned cell, ``missing`` where there is none yet; all records if no plan is known."""
        plan = self.plan()
        if not plan:
            return self.all()
        return [self.get(entry["key"]) or missing(entry["key"], entry["trial"]) for entry in plan.values()]


def missing(key: str, trial: Mapping[str, Any]) -> Record:
    return Record(key, dict(trial), "missing", "not run yet")
