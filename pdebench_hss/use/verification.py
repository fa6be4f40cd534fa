"""What a verification found, as a report for people (Markdown), for machines (JSON), and as levels of trust."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ..base import machine
from ..base.files import write_text
from ..base.plain_text import markdown
from ..base.version import __version__
from ..boards import trust
from ..boards.claims import result_of
from ..boards.findings import CONFIRMED, CONTRADICTED, UNCHECKED, Finding
from ..trials.store import Store

SCHEMA = 1
CHECKS = {
    "submission": "the submission: its files, licence, plugins",
    "files": "files against their hashes",
    "records": "records against their keys and arrays",
    "plan": "the plan against its keys",
    "provenance": "machines, times and data hashes of records",
    "tables": "tables, made again from the records",
    "data": "data sets, made again",
    "scores": "predictions, scored again",
    "runs": "trials, trained again",
}
VERDICTS = (CONFIRMED, CONTRADICTED, UNCHECKED)
NAME = "verification"
MOST = 50  # lines of one kind in the Markdown report; the JSON report has all findings
HASH = re.compile(r"\b[0-9a-f]{12,64}\b")


@dataclass(frozen=True)
class Verification:
    """All findings about a board, and where and when they were made."""

    board: str
    findings: Sequence[Finding]
    seed: int
    when: float = field(default_factory=time.time)
    where: str = field(default_factory=lambda: str(machine.hardware()["id"]))

    @property
    def contradicted(self) -> list[Finding]:
        return self.having(CONTRADICTED)

    def having(self, verdict: str, check: str = "") -> list[Finding]:
        return [f for f in self.findings if f.verdict == verdict and check in ("", f.check)]

    def checks(self, store: Store) -> list[trust.Check]:
        """The levels of trust that trials of the board have by this."""
        found = []
        for finding in self.findings:
            if finding.level and (record := store.believed(finding.key)) is not None:
                errors = store.samples(finding.key, "error_test_err").get("error_test_err")
                facts = (finding.key, result_of(record, errors), finding.level, finding.how or finding.detail)
                found.append(trust.Check(*facts, self.where, round(self.when, 3), __version__))
        return found


def to_json(found: Verification) -> str:
    content: dict[str, Any] = {
        "schema": SCHEMA,
        "board": found.board,
        "when": _moment(found.when),
        "machine": found.where,
        "versions": machine.versions(),
        "seed": found.seed,
        "verdict": CONTRADICTED if found.contradicted else CONFIRMED,
        "counts": {check: {v: len(found.having(v, check)) for v in VERDICTS} for check in CHECKS},
        "findings": [
            {name: value for name, value in vars(finding).items() if value}
            for finding in found.findings
            if finding.verdict != CONFIRMED or finding.level
        ],
    }
    return json.dumps(content, indent=1) + "\n"


def to_markdown(found: Verification) -> str:
    """A table of counts, then what was contradicted, then what could not be checked and why."""
    from tabulate import tabulate

    counts = {words: [len(found.having(v, check)) for v in VERDICTS] for check, words in CHECKS.items()}
    rows = [[words, *numbers] for words, numbers in counts.items() if any(numbers)]
    verdict = f"{len(found.contradicted)} contradictions" if found.contradicted else "Nothing contradicts it"
    parts = [
        f"# Verification of {markdown(found.board)}",
        f"{verdict}. Machine `{found.where}`, {_moment(found.when)}, pdebench-hss {__version__}; samples drawn with "
        f"seed {found.seed}.",
        tabulate(rows, headers=["what", *VERDICTS], tablefmt="github"),
    ]
    if ways := Counter(f"{finding.check}: {finding.how}" for finding in found.having(CONFIRMED) if finding.how):
        parts.append("\n".join(f"- {markdown(way)}: {count}" for way, count in sorted(ways.items())))
    if contradicted := found.contradicted:
        parts += ["## Contradicted", _listed(_by_reason(contradicted, apart=5))]
    if unchecked := found.having(UNCHECKED):
        parts += ["## Not checked", _listed(_by_reason(unchecked))]
    return "\n\n".join(parts) + "\n"


def _by_reason(findings: Sequence[Finding], apart: int = 1) -> list[str]:
    """A line for each reason that more than ``apart`` of them have in common; reasons that differ in hashes alone are
    one. The others have lines of their own."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.check, HASH.sub("", finding.detail)), []).append(finding)
    return [
        f"{first.check}: {first.subject}{_and_others(others)}: {first.detail}"
        for found in groups.values()
        for first, others in ([(found[0], len(found) - 1)] if len(found) > apart else [(one, 0) for one in found])
    ]


def _and_others(count: int) -> str:
    return f" and {count} other{'s' * (count > 1)}" if count else ""


def _listed(lines: Sequence[str]) -> str:
    more = [f"and {len(lines) - MOST} more"] if len(lines) > MOST else []
    return "\n".join(f"- {markdown(line)}" for line in [*lines[:MOST], *more])


def write_reports(found: Verification, folder: Path) -> list[Path]:
    paths = [folder / f"{NAME}.md", folder / f"{NAME}.json"]
    for path, text in zip(paths, (to_markdown(found), to_json(found)), strict=True):
        write_text(path, text)
    return paths


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
