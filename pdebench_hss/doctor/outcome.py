"""What a check found: a status, one line for people, data for the report."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

OK, WARN, FAIL, SKIP = "ok", "warn", "FAIL", "skip"


@dataclass(frozen=True)
class Outcome:
    status: str
    line: str
    data: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def passed(line: str, **data: Any) -> dict[str, Any]:
    return Outcome(OK, line, data).to_dict()


def warned(line: str, **data: Any) -> dict[str, Any]:
    return Outcome(WARN, line, data).to_dict()


def failed(line: str, **data: Any) -> dict[str, Any]:
    return Outcome(FAIL, line, data).to_dict()


def skipped(line: str, **data: Any) -> dict[str, Any]:
    return Outcome(SKIP, line, data).to_dict()


def first_line(error: BaseException) -> str:
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    return f"{type(error).__name__}: {text[:300]}"
