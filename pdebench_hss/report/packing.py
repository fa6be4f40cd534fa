"""Page data as they are sent: tables as columns, so that names are not repeated five thousand times.

    rows with their trials  ->  {"rows": {name: [value of each row]}, "trials": {"row": [...], name: [...]}}

`state.js` turns them back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def pack(data: Mapping[str, Any]) -> dict[str, Any]:
    """``page_data`` -> the same with its three long tables as columns."""
    summary, details = data["summary"], data["details"]
    rows = [{name: value for name, value in row.items() if name != "trials"} for row in summary["rows"]]
    trials = [{"row": number, **trial} for number, row in enumerate(summary["rows"]) for trial in row["trials"]]
    by_id = [{"id": trial, **detail} for trial, detail in details["trials"].items()]
    return {
        "summary": {**summary, "rows": columns(rows), "trials": columns(trials)},
        "details": {**details, "trials": columns(by_id)},
    }


def columns(table: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Rows that all have the same names -> one list per name."""
    return {name: [row[name] for row in table] for name in table[0]} if table else {}
