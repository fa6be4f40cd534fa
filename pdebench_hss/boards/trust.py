"""How far a number of a board can be trusted: who has checked it, and how.

    self-reported   by whoever ran it, and checked by nobody else; the machine and the time are those of the run
    re-scored       its errors were computed again from kept predictions or weights, and agree
    re-run          it was trained again, and agrees
    contradicted    it was scored or trained again, and does not agree

``verified.json`` in a board holds the checks that `verify --write` made: the trial's key, a hash of the result that was
checked (`claims.result_of`), the level, the machine and the time. A check is about a result: if a record is replaced by
one with another result, its checks no longer count. They are statements like records are, and not signatures.

    {"schema": 1, "checks": [{"key": …, "result": …, "level": "re-run", "how": "equal to the bit", "machine": …,
                              "when": 1700000000.0, "version": "0.1.0"}, …]}
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..base.files import BadFile, read_plain, write_text
from ..trials.record import Record
from ..trials.validation import KEY, Invalid, Newer, RecordWarning, parse_json
from .claims import RESULTS, result_of

FILE, SCHEMA, LARGEST = "verified.json", 1, 64 << 20
SELF_REPORTED, RESCORED, RERUN, CONTRADICTED = "self-reported", "re-scored", "re-run", "contradicted"
LEVELS = (SELF_REPORTED, RESCORED, RERUN, CONTRADICTED)  # a later one outranks those before it
COLUMNS = ("trust", "trust_machine", "trust_when")


@dataclass(frozen=True, order=True)
class Check:
    """That a result was checked."""

    key: str
    result: str
    level: str
    how: str
    machine: str
    when: float
    version: str


@dataclass(frozen=True)
class Trust:
    """The level of a trial's result, by which machine, and when."""

    level: str = SELF_REPORTED
    machine: str = ""
    when: float | None = None

    @property
    def day(self) -> str:
        return "" if self.when is None else datetime.fromtimestamp(self.when, timezone.utc).strftime("%Y-%m-%d")


def read_checks(board: Path) -> list[Check]:
    """The checks of a board; a file that can't be used is reported, and counts for nothing."""
    try:
        return checks_in(board)
    except FileNotFoundError:
        return []
    except BadFile as error:
        message = f"{board / FILE} can't be used ({error}); its records count as {SELF_REPORTED}"
        warnings.warn(message, RecordWarning, stacklevel=2)
        return []


def checks_in(board: Path) -> list[Check]:
    """The same, raising `BadFile`."""
    content = parse_json(read_plain(board / FILE, LARGEST))
    if type(content.get("schema")) is not int:
        raise Invalid("it has no schema")
    if content["schema"] > SCHEMA:
        raise Newer(f"written by a newer pdebench-hss (schema {content['schema']}, this one reads up to {SCHEMA})")
    found = content.get("checks")
    if not isinstance(found, list):
        raise Invalid("it has no checks")
    return [_check(entry) for entry in found]


def _check(entry: Any) -> Check:
    kinds = {"when": float, **dict.fromkeys(("key", "result", "level", "how", "machine", "version"), str)}
    if not isinstance(entry, dict) or set(entry) != set(kinds):
        raise Invalid("a check has other fields")
    if any(type(entry[name]) is not kind for name, kind in kinds.items()) or not 0 <= entry["when"] < 1e11:
        raise Invalid("a field of a check is of another kind")
    if not KEY.fullmatch(entry["key"]) or entry["level"] not in LEVELS[1:]:
        raise Invalid(f"a check has the level {entry['level'][:40]!r} or a key that is none")
    return Check(**entry)


def write_checks(board: Path, checks: Iterable[Check]) -> None:
    """Replace the checks of a board, each once, in a fixed order; without any there is no file."""
    lines = [json.dumps(asdict(check)) for check in sorted(set(checks))]
    if lines:
        listed = ",\n  ".join(lines)
        write_text(board / FILE, f'{{\n "schema": {SCHEMA},\n "checks": [\n  {listed}\n ]\n}}\n')


def trust_in(board: Path, records: Iterable[tuple[Record, np.ndarray | None]]) -> dict[str, Trust]:
    """The level of each record that has a result, by key. Records come with their errors of test samples
    (``error_test_err``), which are needed only where there are checks."""
    by_key: dict[str, list[Check]] = {}
    for check in read_checks(board):
        by_key.setdefault(check.key, []).append(check)
    return {r.key: _trust(r, errors, by_key.get(r.key, [])) for r, errors in records if r.status in RESULTS}


def _trust(record: Record, errors: np.ndarray | None, checks: list[Check]) -> Trust:
    valid = [check for check in checks if check.result == result_of(record, errors)] if checks else []
    if not valid:
        ended = record.provenance.get("ended")
        return Trust(SELF_REPORTED, str(record.provenance.get("hardware", {}).get("id", "")), ended)
    best = max(valid, key=lambda check: (LEVELS.index(check.level), check.when, check.machine))
    return Trust(best.level, best.machine, best.when)


def with_trust(results: pd.DataFrame, trust: Mapping[str, Trust]) -> pd.DataFrame:
    """A table of trials with `COLUMNS`, which are empty where there is no result."""
    found = [trust.get(key) for key in results["key"]]
    values = [[t.level, t.machine, t.day] if t else ["", "", ""] for t in found]
    return results.assign(**{name: [value[place] for value in values] for place, name in enumerate(COLUMNS)})


def summary(trials: pd.DataFrame) -> dict[str, str]:
    """`COLUMNS` of one row of a leaderboard: a level that all seeds share, or how many have which; the machines and the
    last day of those that were checked, or else of the runs."""
    if COLUMNS[0] not in trials:
        return {}
    known = trials[list(COLUMNS)].where(trials[COLUMNS[0]].isin(LEVELS), "").fillna("")  # a file may say anything
    told = [values for values in known.itertuples(index=False, name=None) if values[0]]
    counts = Counter(level for level, _, _ in told)
    order = sorted(counts, key=LEVELS.index, reverse=True)
    level = order[0] if len(order) == 1 else ", ".join(f"{level} {counts[level]}" for level in order)
    by = [values for values in told if values[0] != SELF_REPORTED] or told
    machines = sorted({machine for _, machine, _ in by if machine})
    return {COLUMNS[0]: level, COLUMNS[1]: "|".join(machines), COLUMNS[2]: max((day for *_, day in by), default="")}


def words(row: pd.Series) -> str:
    """For readers of a row: the level, the machines and the day; empty if there is no result."""
    level, *where = (row.get(name) for name in COLUMNS)
    known = [text for text in where if isinstance(text, str) and text]
    if not isinstance(level, str) or not level:
        return ""
    return f"{level} ({', '.join(known)})" if known else level


def noted(note: str, row: pd.Series) -> str:
    """A note of a row, and who checked it; that nobody did is said once for the whole table (`unchecked`)."""
    return "; ".join(filter(None, (note, words(row) if _is_checked(row.get("trust")) else "")))


def unchecked(board: pd.DataFrame) -> str:
    """Which rows of a leaderboard are self-reported, as a line; empty if none is."""
    levels = [level for level in board.get("trust", ()) if isinstance(level, str) and level]
    checked = sum(map(_is_checked, levels))
    if checked == len(levels):
        return ""
    if not checked:
        return "every row is self-reported: nobody has scored or trained it again"
    return f"{len(levels) - checked} of {len(levels)} rows are self-reported: nobody has scored or trained them again"


def _is_checked(level: object) -> bool:
    return isinstance(level, str) and level not in ("", SELF_REPORTED)
