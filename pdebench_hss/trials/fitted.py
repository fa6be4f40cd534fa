"""What the model's half of a trial hands to the judge's half.

It comes from a process that ran a model's code, so `Fitted.from_plain` checks every field before anybody uses it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from ..workers.exchange import NotPlain
from .keeping import KEPT
from .status import Status

ENDINGS = (Status.OK, Status.DIVERGED, Status.FAILED, Status.OUT_OF_MEMORY, Status.OVER_BUDGET)
CURVES = {"curve_steps", "curve_losses", "val_steps", "val_seconds", "val_errors"}


@dataclass
class Fitted:
    """The state of a trial after the model's half, however that ended. Most fields are those of `Record`.

    ``prediction`` is the answer to all test inputs in physical units; None if there is none, or if another peer has it.
    ``val_prediction`` is the same for the training samples that were held out.
    A classical solver with several levels also leaves each level's solutions of the first test samples.
    ``model`` is the fitted model as bytes and plain values (`keeping`); None if it is not kept. If it should have been,
    ``model_lost`` is the reason.
    """

    status: Status = Status.OK
    reason: str = ""
    peer_lost: bool = False  # it ended because another peer was gone
    seconds: dict[str, float] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    spent: dict[str, float] = field(default_factory=dict)
    flops_step: float | None = None
    predict_ms: float | None = None
    serving: dict[str, float] = field(default_factory=dict)
    peak_memory: int | None = None
    provenance: dict[str, Any] = field(default_factory=dict)
    curve: dict[str, np.ndarray] = field(default_factory=dict)
    prediction: np.ndarray | None = None
    val_prediction: np.ndarray | None = None
    level_ms: dict[str, float] = field(default_factory=dict)
    level_latency_ms: dict[str, float] = field(default_factory=dict)
    level_solutions: dict[str, np.ndarray] = field(default_factory=dict)
    model: dict[str, Any] | None = None
    model_lost: str = ""

    def to_plain(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def from_plain(cls, value: Any) -> Fitted:
        """Raises `NotPlain` if the value is of another form: the process it comes from may have written anything."""
        if not isinstance(value, dict) or set(value) != {f.name for f in fields(cls)}:
            raise NotPlain("it is not what a trial leaves")
        for name, found in value.items():
            if not _SHAPES[name](found):
                raise NotPlain(f"its {name} is {found!r}"[:200])
        return cls(**{**value, "status": Status(value["status"])})


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_optional_number(value: Any) -> bool:
    return value is None or _is_number(value)


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_optional_number, value.values()))


def _is_curve(value: Any) -> bool:
    arrays = isinstance(value, dict) and all(isinstance(v, np.ndarray) and v.ndim == 1 for v in value.values())
    return arrays and set(value) <= CURVES


_SHAPES = {
    "status": lambda value: value in ENDINGS,
    "reason": lambda value: isinstance(value, str) and len(value) <= 500,
    "peer_lost": lambda value: isinstance(value, bool),
    "seconds": _is_table,
    "parameters": _is_table,
    "data": lambda value: isinstance(value, dict),
    "spent": _is_table,
    "flops_step": _is_optional_number,
    "predict_ms": _is_optional_number,
    "peak_memory": _is_optional_number,
    "provenance": lambda value: isinstance(value, dict),
    "curve": _is_curve,
    **dict.fromkeys(("prediction", "val_prediction"), lambda value: value is None or isinstance(value, np.ndarray)),
    **dict.fromkeys(("serving", "level_ms", "level_latency_ms"), _is_table),
    "model": lambda value: value is None or (isinstance(value, dict) and set(value) == KEPT),
    "model_lost": lambda value: isinstance(value, str) and len(value) <= 500,
    "level_solutions": lambda value: isinstance(value, dict) and all(isinstance(v, np.ndarray) for v in value.values()),
}
