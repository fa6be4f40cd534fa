"""What `tune` writes: the chosen options with every try beside them (`runs.tuned` reads it)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from ..base import machine
from ..base.files import write_text
from ..runs.tuned import SCHEMA
from .config import TuneConfig
from .tune import Chosen, Try

HEAD = """\
# Options chosen on samples that were held out from the training samples; the test set was not read.
# Use it:  pdebench-hss run --tuned {file} ...
"""


def write_tuned(config: TuneConfig, chosen: Sequence[Chosen], skipped: Mapping[str, str]) -> Path:
    """``skipped``: why a model has no tries on a task."""
    path = Path(config.file)
    content = {
        "schema": SCHEMA,
        "command": config.command,
        "scale": config.scale,
        "budget": config.budget or "the task's own",
        "tries": config.tries,
        "val": str(config.val),
        "seed": config.seed,
        "sampler": config.sampler,
        "versions": machine.versions(("optuna",)),
        "hardware": machine.hardware()["id"],
        **({"skipped": dict(skipped)} if skipped else {}),
        "chosen": [_entry(one) for one in chosen],
    }
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, default_flow_style=None, width=120)
    write_text(path, HEAD.format(file=path.name) + text)
    return path


def _entry(one: Chosen) -> dict[str, Any]:
    trial = one.subject.default
    return {
        "task": trial.task_label,
        "model": trial.model_label,
        "model_version": trial.model_version,
        "data": one.best.record.data.get("sha256"),
        "options": dict(one.best.options),
        "held_out": _number(one.best.error),
        "held_out_before": _number(one.before.error),
        "tries": len(one.tries),
        "seconds": round(one.seconds, 1),
        "history": [_line(each) for each in one.tries],
    }


def _line(one: Try) -> dict[str, Any]:
    line = {
        "try": one.number,
        "options": dict(one.options),
        "held_out": _number(one.error),
        "parameters": one.record.parameters.get("real"),
        "seconds": round(one.seconds, 1),
        "key": one.record.key,
    }
    ended = str(one.record.status)
    return line if ended == "ok" else {**line, "status": ended, "reason": one.record.reason}


def _number(error: float) -> float | None:
    return error if math.isfinite(error) else None
