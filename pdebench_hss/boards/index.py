"""``index.json``: all boards below a folder, cell by cell, for machines. Versioned; a reader checks ``schema`` first.

    {"schema": 1,
     "boards": [{"path": "small-cpu", "rows": 165, "trials": 495, "trust": {"self-reported": 396}, "submission": null}],
     "cells": [{"id": "small-cpu/3f9c…", "board": 0, "task": …, "model": …, "scale": …, "budget": …, "n_train": …,
                "params_target": …, "device": …, "metric": …, "error": …, "std": …, "low": …, "high": …, "seeds": …,
                "expected": …, "rank": …, "status": …, "reason": …, "data": …, "trust": …, "keys": […]}]}

``id`` is the permanent address of a cell: the path of its board and a hash of what tells the cell from others (task,
model, scale, budget, train size, sizes asked for, data, device). It does not change when the cell is run again. The
trials behind it are its ``keys``. What is not known is null. The same boards give the same bytes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from ..base.errors import UsageError
from ..base.files import replacing
from ..base.hashing import digest
from ..trials.status import Status
from ..trials.store import Store
from . import submissions, trust
from .frames import GROUP, leaderboard
from .writing import read_records, sorted_results, trust_of

SCHEMA = 1
FILE = "index.json"
IDENTITY = [*GROUP, "model"]
NAMED = {"test_err_mean": "error", "test_err_std": "std", "err_low": "low", "err_high": "high", "data_hash": "data"}
COLUMNS = (
    *("task", "model", "scale", "budget", "n_train", "params_target", "device", "metric"),
    *("test_err_mean", "test_err_std", "err_low", "err_high", "n_seeds", "n_expected", "rank", "status", "reason"),
    *("data_hash", "trust"),
)


def boards_below(folder: Path) -> list[Path]:
    """Every folder with a plan, not inside of another; what `run` leaves in ``latest`` by default is not among them."""
    found = []
    for path in sorted(folder.iterdir()):
        if path.is_symlink() or not path.is_dir() or path.name == "latest" or path.name.startswith("."):
            continue
        found += [path] if (path / "plan.json").is_file() else boards_below(path)
    return found


def write_index(folder: Path) -> tuple[Path, int, int]:
    """Write the index of a folder there; returns its path, the number of boards and that of cells."""
    boards = boards_below(folder)
    if not boards:
        raise UsageError(f"{folder} holds no boards; a board is a folder that `run` wrote")
    heads: list[dict[str, Any]] = []
    count = 0
    with replacing(folder / FILE) as temporary, temporary.open("w", encoding="utf-8") as file:
        separator = ""
        file.write(f'{{\n"schema": {SCHEMA},\n"cells": [\n')
        for number, path in enumerate(boards):
            head, cells = _board(path, path.relative_to(folder).as_posix(), number)
            heads.append(head)
            for cell in cells:  # a line each: a large index is never in memory as one text
                file.write(f"{separator}{json.dumps(cell, allow_nan=False)}")
                separator, count = ",\n", count + 1
        listed = ",\n".join(json.dumps(head) for head in heads)
        file.write(f'\n],\n"boards": [\n{listed}\n]\n}}\n')
    return folder / FILE, len(boards), count


def _board(path: Path, name: str, number: int) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    store = Store(path)
    records, errors = read_records(store)
    levels = trust_of(store, records)
    results = trust.with_trust(sorted_results(records), levels)
    table = leaderboard(results, errors)
    if "trust" not in table:
        table = table.assign(trust=[trust.SELF_REPORTED if seeds else "" for seeds in table["n_seeds"]])
    counted = Counter(level.level for level in levels.values()) or Counter(
        {trust.SELF_REPORTED: sum(record.status is Status.OK for record in records)}
    )
    head = {"path": name, "rows": len(table), "trials": len(records), "trust": dict(sorted(counted.items()))}
    return {**head, "submission": _submission(path)}, _cells(table, results, name, number)


def _submission(path: Path) -> dict[str, str] | None:
    """Name, licence and contact, if the board is that of a submission."""
    if not (path.parent / submissions.FILE).is_file():
        return None
    manifest = submissions.read_manifest(path.parent)
    return {"name": manifest.name, "licence": manifest.licence, "contact": manifest.contact}


def _cells(table: pd.DataFrame, results: pd.DataFrame, board: str, number: int) -> Iterator[dict[str, Any]]:
    keys: dict[str, list[str]] = {}
    for row, key in zip(_rows(results[IDENTITY]), results["key"], strict=True):
        keys.setdefault(digest(row)[:16], []).append(str(key))
    for identity, row in zip(_rows(table[IDENTITY]), _rows(table[list(COLUMNS)]), strict=True):
        place = digest(identity)[:16]
        facts = {_named(column): value for column, value in row.items()}
        yield {"id": f"{board}/{place}", "board": number, **facts, "keys": keys[place]}


def _named(column: str) -> str:
    return NAMED.get(column, column.removeprefix("n_") if column in ("n_seeds", "n_expected") else column)


def _rows(table: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Rows as plain values; what is missing is None."""
    columns = {str(name): [_plain(value) for value in table[name].tolist()] for name in table.columns}
    return (dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True))


def _plain(value: Any) -> Any:
    if value is None or value is pd.NA or value == "" or (isinstance(value, float) and value != value):
        return None
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return None
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value
