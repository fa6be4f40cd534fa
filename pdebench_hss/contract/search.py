"""Which options of a model may be tuned, and within what.

A space maps names (hyper-parameters, and ``lr``, ``lr_min``, ``weight_decay``) to ranges:

    ModelSpec(..., hparams={"width": 64, "norm": "none"},
              search={"width": Integer(16, 128, log=True), "norm": OneOf("none", "layer")})

The learning rate is in every space, because a rate that was never chosen is the commonest way to make a weak baseline;
a model that says nothing of it gets `RATE`. What is tuned with the ranges is `pdebench_hss.tuning`. Light: no torch, no
Optuna.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..base.errors import did_you_mean


def _check_ends(found: Real | Integer, kinds: tuple[type, ...]) -> None:
    for name in ("low", "high"):
        value = getattr(found, name)
        if not _is_number(value, kinds) or not math.isfinite(value):
            kind = "a whole number" if kinds == (int,) else "a finite number"
            raise ValueError(f"{found!r}: {name} must be {kind}, not {value!r}")
    if not found.low < found.high:
        raise ValueError(f"{found!r} is {'empty' if found.low == found.high else 'reversed'}: low must be below high")
    if found.log and found.low <= 0:
        raise ValueError(f"{found!r}: a logarithmic range must begin above 0")


def _is_number(value: object, kinds: tuple[type, ...]) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


@dataclass(frozen=True)
class Real:
    """A number from ``low`` to ``high``; with ``log`` each factor of ten is as likely as the others."""

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        _check_ends(self, (int, float))

    def __contains__(self, value: object) -> bool:
        return _is_number(value, (int, float)) and self.low <= value <= self.high  # type: ignore[operator]

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}{' (log)' * self.log}"


@dataclass(frozen=True)
class Integer:
    """A whole number from ``low`` to ``high``, both included."""

    low: int
    high: int
    log: bool = False

    def __post_init__(self) -> None:
        _check_ends(self, (int,))

    def __contains__(self, value: object) -> bool:
        return _is_number(value, (int,)) and self.low <= value <= self.high  # type: ignore[operator]

    def __str__(self) -> str:
        return f"{self.low} to {self.high}{' (log)' * self.log}"


@dataclass(frozen=True, init=False)
class OneOf:
    """One of several values without an order: words, true and false, numbers."""

    values: tuple[Any, ...]

    def __init__(self, *values: Any) -> None:
        object.__setattr__(self, "values", values)
        if len(values) < 2:
            raise ValueError(f"{self!r} leaves nothing to choose: it needs two values or more")
        for value in values:
            if not isinstance(value, (bool, int, float, str)):
                raise ValueError(f"{self!r}: {value!r} is neither a number, a word nor true or false")
        if len(set(map(repr, values))) < len(values):
            raise ValueError(f"{self!r} has a value twice")

    def __repr__(self) -> str:
        return f"OneOf({', '.join(map(repr, self.values))})"

    def __contains__(self, value: object) -> bool:
        return any(type(value) is type(known) and value == known for known in self.values)

    def __str__(self) -> str:
        return " or ".join(map(str, self.values))


Range: TypeAlias = Real | Integer | OneOf
Space: TypeAlias = Mapping[str, Range]

RATE = Real(3e-4, 3e-2, log=True)


def around(value: int, factor: int = 2, low: int = 1, high: int | None = None) -> Integer:
    """From a ``factor`` below a size to a ``factor`` above it, logarithmic, within ``low`` and ``high``."""
    bottom, top = max(low, value // factor), value * factor if high is None else min(high, value * factor)
    return Integer(bottom, max(top, bottom + 1), log=True)


def ends(found: Range) -> tuple[Any, ...]:
    """The first and the last value of a range; all values of a choice."""
    return found.values if isinstance(found, OneOf) else (found.low, found.high)


def check_space(space: Any, known: Collection[str] | None, who: str) -> dict[str, Range]:
    """A model's space with the learning rate in it; ``known`` are its options, None where a task decides them."""
    if not isinstance(space, Mapping):
        raise ValueError(f"{who}: search must be a mapping of options to ranges, not {space!r}")
    for name, found in space.items():
        if not isinstance(found, (Real, Integer, OneOf)):
            raise ValueError(f"{who}: search[{name!r}] must be Real, Integer or OneOf, not {found!r}")
        if known is not None and name not in known:
            hint = did_you_mean(str(name), known)
            raise ValueError(f"{who}: search names {name!r}, which is not among its options.{hint}")
    return {"lr": RATE, **space}
