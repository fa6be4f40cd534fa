"""What many records have in common, worked out once.

The trials of a board differ in little but their seeds, and what is recorded of machines and versions differs in two
moments. Tables are *alike* if they are spelled alike but for the fields that may vary. The spelling is that of
`marshal`: 1, 1.0 and True are three values. What follows from the other fields is then the same: their canonical JSON,
which hashes are made of, whether they passed a check, and the values themselves, of which one copy serves all.
"""

from __future__ import annotations

import marshal
import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Generic, TypeVar

from ..base.hashing import canonical, canonical_around, digest_of_text
from .trial import FIELDS, Trial, decisive

SPELLING = 2  # format of `marshal`: later ones depend on which values are the same object
LIMIT = 1000  # kinds of tables that are remembered
LONGEST = 10_000  # bytes of one: a board from elsewhere does not fill the memory
HOLE = "\0"  # never in canonical JSON, which spells control characters
_SEED = FIELDS.index("seed")


class Text:
    """The canonical JSON of tables that are alike."""

    def __init__(self, table: Mapping[str, Any], varying: tuple[str, ...]) -> None:
        self._varying = sorted(name for name in varying if name in table)
        self._first, *self._rest = canonical_around(table, dict.fromkeys(self._varying, HOLE)).split(HOLE)

    def of(self, table: Mapping[str, Any]) -> str:
        text = self._first
        for name, after in zip(self._varying, self._rest, strict=True):
            text += f"{_spelled(table[name])}{after}"
        return text


def _spelled(value: Any) -> str:
    """`canonical`, which takes a while to start."""
    plain = type(value) is int or (type(value) is float and math.isfinite(value))
    return repr(value) if plain else canonical(value)


class Alike:
    """Tables that are spelled like the first one, ``table``."""

    def __init__(self, table: Mapping[str, Any], varying: tuple[str, ...]) -> None:
        self._first, self._varying = table, varying
        self.passed = False  # whether their common fields passed the caller's checks
        self._shared = {name: value for name, value in table.items() if name not in varying}

    @cached_property
    def text(self) -> Text:
        """Raises ValueError if they have no canonical JSON."""
        return Text(self._first, self._varying)

    def sharing(self, table: Mapping[str, Any]) -> dict[str, Any]:
        """The table, with the first one's copy of every value that they have in common."""
        return {**table, **self._shared}


class AlikeTrials(Alike):
    """Trials, as they are stored, that are alike but for their seeds."""

    @cached_property
    def _decisive(self) -> Text:
        return Text(decisive(self._first), self._varying)

    @cached_property
    def _values(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Of the fields of a `Trial`, before and after its seed."""
        trial = Trial.from_dict(self._first)
        values = [getattr(trial, name) for name in FIELDS]
        return tuple(values[:_SEED]), tuple(values[_SEED + 1 :])

    def key(self, table: Mapping[str, Any]) -> str:
        """`trial.trial_key` of one of them."""
        return digest_of_text(self._decisive.of(table))[:24]

    def trial(self, table: Mapping[str, Any], key: str) -> Trial:
        """One of them, after they ``passed`` and its seed and key were checked; shares its values with the others."""
        before, after = self._values
        values: list[Any] = [*before, table["seed"], *after]
        trial = Trial(*values)
        object.__setattr__(trial, "_key", key)
        return trial


K = TypeVar("K", bound=Alike)


class Known(Generic[K]):
    """The kinds of tables seen so far."""

    def __init__(self, kind: type[K], *varying: str) -> None:
        self._kind, self._varying = kind, varying
        self.by_spelling: dict[bytes, K] = {}

    def kind_of(self, table: Mapping[str, Any]) -> K:
        """Raises ValueError if the table is nested too deeply."""
        common = dict(table)
        for name in self._varying:
            if name in common:
                common[name] = None
        spelling = marshal.dumps(common, SPELLING)
        found = self.by_spelling.get(spelling)
        if found is None:
            found = self._kind(table, self._varying)
            if len(spelling) <= LONGEST:
                if len(self.by_spelling) >= LIMIT:
                    self.by_spelling.clear()
                self.by_spelling[spelling] = found
        return found


TRIALS = Known(AlikeTrials, "seed")
PROVENANCES = Known(Alike, "started", "ended")
