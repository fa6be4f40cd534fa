"""Identities: canonical JSON, its hash, and seeds hashed from names.

Seeds come from names and not from counters, so that adding a model or a task changes nothing for the others.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical(value: Any) -> str:
    """JSON that is the same text for the same value. NaN, and what JSON doesn't know, is refused."""
    return _ENCODER.encode(value)


def canonical_around(table: Mapping[str, Any], texts: Mapping[str, str]) -> str:
    """`canonical` of a table where the text of some fields is known."""
    parts: list[str] = []
    between: dict[str, Any] = {}
    for name in sorted(table):
        if name not in texts:
            between[name] = table[name]
            continue
        if between:
            parts.append(canonical(between)[1:-1])
            between = {}
        parts.append(f"{canonical(name)}:{texts[name]}")
    if between:
        parts.append(canonical(between)[1:-1])
    return f"{{{','.join(parts)}}}"


def digest(value: Any) -> str:
    """A 64-digit SHA-256 of a plain value."""
    return digest_of_text(canonical(value))


def digest_of_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def seed_from(*names: Any) -> int:
    """A 63-bit seed from names."""
    return int.from_bytes(hashlib.sha256(canonical([str(n) for n in names]).encode()).digest()[:8], "big") >> 1
