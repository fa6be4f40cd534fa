"""A shard of a plan: a part that is fixed before anything runs, for arrays of jobs that don't know of each other.

    shard of a trial = its key, read as a number, mod n, plus 1

The key alone decides, so a trial stays in its shard when models are added to the plan. Keys are hashes: N trials in n
shards differ by about sqrt(N / n). Each shard's board holds the whole plan and shows the cells of the others as not run
yet; `boards.merging` joins them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ..base.errors import UsageError
from ..base.hashing import digest

LARGEST = 100_000


@dataclass(frozen=True)
class Shard:
    """Number ``number`` of ``of``, counted from 1."""

    number: int
    of: int

    def holds(self, key: str) -> bool:
        return int(key, 16) % self.of + 1 == self.number


def parse_shard(text: str) -> Shard:
    """``2/4``: the second of four."""
    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text.strip())
    if found is None:
        raise UsageError(f"--shard {text!r}: write which of how many, such as 2/4 for the second of four")
    number, of = int(found[1]), int(found[2])
    if not 1 <= of <= LARGEST or not 1 <= number <= of:
        raise UsageError(f"--shard {text}: shards are numbered from 1, and there are at most {LARGEST}")
    return Shard(number, of)


def plan_id(keys: Iterable[str]) -> str:
    """What all shards of one plan have in common: a hash of its keys, in any order."""
    return digest(sorted(keys))[:24]
