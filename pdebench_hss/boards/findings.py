"""What comes of a check: confirmed, contradicted, or not checked with the reason."""

from __future__ import annotations

from dataclasses import dataclass

CONFIRMED, CONTRADICTED, UNCHECKED = "confirmed", "contradicted", "not checked"


@dataclass(frozen=True)
class Finding:
    """What came of one check of one thing.

    key, level, how   of a trial whose result was confirmed or contradicted by scoring or training again (`trust`)
    """

    check: str
    verdict: str
    subject: str
    detail: str = ""
    key: str = ""
    level: str = ""
    how: str = ""
