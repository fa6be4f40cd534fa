"""What a trial needs where it runs: CPUs, GPUs (fractions too), memory.

A model states it in ``ModelSpec.resources``, a task in the ``resources`` of a `Scale`; a trial needs the larger of
both, and ``--resources`` overrides either. Needs say where a trial fits, not what it computes: they are not in its key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..base.errors import UsageError, did_you_mean
from ..base.files import human_bytes
from .budget import parse_count
from .selection import split

KINDS = ("cpus", "gpus", "memory")


@dataclass(frozen=True)
class Resources:
    """``memory`` in bytes; 0 means: not stated."""

    cpus: float = 1.0
    gpus: float = 0.0
    memory: float = 0.0

    def __str__(self) -> str:
        parts = [f"{self.cpus:g} CPU{'s' * (self.cpus != 1)}"]
        parts += [f"{self.gpus:g} GPU{'s' * (self.gpus != 1)}"] if self.gpus else []
        parts += [f"{human_bytes(self.memory)} of memory"] if self.memory else []
        return ", ".join(parts)

    def fits_in(self, other: Resources) -> bool:
        return self.cpus <= other.cpus and self.gpus <= other.gpus and self.memory <= other.memory

    @property
    def threads(self) -> int:
        return max(1, int(self.cpus))


def needs(default: Resources, stated: Mapping[str, Mapping[str, Any]], override: str | None = None) -> Resources:
    """The largest need stated by any source, or the default if none is stated; the user's setting overrides both."""
    found: dict[str, float] = {}
    for who, statement in stated.items():
        for kind, value in read_needs(statement, f"{who}: resources").items():
            found[kind] = max(value, found.get(kind, 0.0))
    return Resources(**{**vars(default), **found, **parse_resources(override or "")})


def parse_resources(text: str) -> dict[str, float]:
    """``cpus=2,gpus=0.5,memory=8G``"""
    pairs = [word.partition("=") for word in split(text)] if text else []
    return read_needs({kind.strip(): value for kind, _, value in pairs}, f"--resources {text}")


def read_needs(content: Mapping[str, Any], where: str) -> dict[str, float]:
    found = {}
    for kind, value in content.items():
        if kind not in KINDS:
            raise UsageError(
                f"{where}: no resource {kind!r}.{did_you_mean(kind, KINDS)}  Resources: {', '.join(KINDS)}"
            )
        found[kind] = 0.0 if value in (0, "0") else parse_count(value, where)
        if kind == "gpus" and found[kind] > 1 and not found[kind].is_integer():
            raise UsageError(f"{where}: gpus must be a whole number or a share of one, not {value}")
    return found
