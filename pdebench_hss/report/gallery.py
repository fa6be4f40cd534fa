"""Which trials have their pictures in the file. A page is sent to people, so the size of pictures is limited.

The rule: one trial per leaderboard row (its first seed that ended well), rows of rank 1 first, then rank 2 and so on,
until `PICTURE_BYTES` are spent. The page says so where a picture is left out; `serve` shows them all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..trials.status import Status
from .panels import panels

PICTURE_BYTES = 6_000_000
Samples = Callable[[str], Mapping[str, np.ndarray]]  # trial id -> arrays of its record


def gallery(rows: Sequence[Mapping[str, Any]], samples: Samples, limit: int = PICTURE_BYTES) -> dict[str, Any]:
    """Panels by trial id, at most ``limit`` bytes of them."""
    pictures: dict[str, Any] = {}
    spent = 0
    for trial in _in_turn(rows):
        drawn = panels(samples(trial))
        spent += len(json.dumps(drawn))
        if spent > limit:
            break
        if drawn:
            pictures[trial] = drawn
    return pictures


def _in_turn(rows: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    last = float("inf")
    for row in sorted(rows, key=lambda row: row["rank"] or last):  # a row without a rank has rank None
        good = [trial for trial in row["trials"] if trial["status"] == Status.OK]
        if good:
            yield good[0]["id"]
