"""Identities: canonical JSON, its hash, and seeds hashed from names.

Seeds come from names and not from counters, so that adding a model or a task changes nothing for the others.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical(value: Any) -> str:
    """JSON that is the same text for the same value. NaN, and what JSON doesn't know, is refused."""
    return _ENCODER.encode(value)


def digest(value: Any) -> str:
    """A 64-digit SHA-256 of a plain value."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def seed_from(*names: Any) -> int:
    """A 63-bit seed from names."""
    return int.from_bytes(hashlib.sha256(canonical([str(n) for n in names]).encode()).digest()[:8], "big") >> 1
