"""Identities: canonical JSON, its hash, and seeds hashed from names.

Seeds come from names and not from counters, so that adding a model or a task changes nothing for the others.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
HOLE = "\0"
SPELLED_HOLE = '"\\u0000"'  # never a part of a longer string: quotes in one have a backslash before them


def canonical(value: Any) -> str:
    """JSON that is the same text for the same value. NaN, and what JSON doesn't know, is refused."""
    return _ENCODER.encode(value)


def canonical_around(table: Mapping[str, Any], texts: Mapping[str, str]) -> str:
    """`canonical` of a table where the text of some of its fields is known."""
    known = sorted(name for name in texts if name in table)
    first, *rest = canonical({**table, **dict.fromkeys(known, HOLE)}).split(SPELLED_HOLE)
    if len(rest) != len(known):  # a value or a name of the table is the same character
        return f"{{{','.join(f'{canonical(n)}:{texts.get(n) or canonical(table[n])}' for n in sorted(table))}}}"
    return first + "".join([texts[name] + after for name, after in zip(known, rest, strict=True)])


def digest(value: Any) -> str:
    """A 64-digit SHA-256 of a plain value."""
    return digest_of_text(canonical(value))


def digest_of_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def seed_from(*names: Any) -> int:
    """A 63-bit seed from names."""
    return int.from_bytes(hashlib.sha256(canonical([str(n) for n in names]).encode()).digest()[:8], "big") >> 1
