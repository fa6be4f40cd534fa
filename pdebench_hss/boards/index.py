"""``index.json``: all boards below a folder, cell by cell, for machines. Versioned; a reader checks ``schema`` first.

    {"schema": 1,
     "boards": [{"path": "small-cpu", "page": "boards/small-cpu/", "rows": 165, "trials": 495,
                 "trust": {"self-reported": 396}, "submission": null}],
     "cells": [{"id": "small-cpu/3f9c…", "address": "boards/small-cpu/#cell=my_task/my_model/small/steps=400/n=64",
                "board": 0, "task": …, "model": …, "scale": …, "budget": …, "n_train": …, "params_target": …,
                "device": …, "data_seed": …, "metric": …, "error": …, "std": …, "low": …, "high": …, "seeds": …,
                "expected": …, "rank": …, "status": …, "reason": …, "data": …, "trust": …, "trust_machine": …,
                "trust_when": …, "keys": […]}]}

``id`` names a cell: the path of its board and a hash of what tells the cell from others (task, model, scale, budget,
train size, sizes asked for, recipe of the data, device). It does not change when the cell is run again. ``address`` is
where it is on the site (`addresses`). The trials behind it are its ``keys``. A cell that no seed changes has one, and
says ``"deterministic": true``. What is not known is null, and so is the ``data_seed`` of the usual draw of the data.
The same boards give the same bytes.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from ..base.errors import UsageError
from ..base.files import replacing, write_text
from ..base.hashing import digest
from ..contract.registry import Registry
from ..trials.store import Store
from . import submissions, trust
from .addresses import board_address, cell_address
from .frames import GROUP, is_deterministic, leaderboard
from .writing import read_records, sorted_results, trust_of, write_board

SCHEMA = 1
FILE = "index.json"
IDENTITY = [*GROUP, "model"]
NAMED = {"test_err_mean": "error", "test_err_std": "std", "err_low": "low", "err_high": "high", "data_hash": "data"}
COLUMNS = (
    *("task", "model", "scale", "budget", "n_train", "params_target", "device", "data_seed", "metric"),
    *("test_err_mean", "test_err_std", "err_low", "err_high", "n_seeds", "n_expected", "rank", "status", "reason"),
    *("data_hash", *trust.COLUMNS),
)


def boards_below(folder: Path) -> list[Path]:
    """Every folder with a plan, not inside of another; what `run` leaves in ``latest`` by default is not among them."""
    found = []
    for path in sorted(folder.iterdir()):
        if path.is_symlink() or not path.is_dir() or path.name == "latest" or path.name.startswith("."):
            continue
        found += [path] if (path / "plan.json").is_file() else boards_below(path)
    return found


def write_index(folder: Path, out: Path | None = None) -> tuple[Path, int, int]:
    """Write the index of a folder there, or to another file; returns its path, how many boards and how many cells."""
    boards = boards_below(folder)
    if not boards:
        raise UsageError(f"{folder} holds no boards; a board is a folder that `run` wrote")
    out = out or folder / FILE
    heads: list[dict[str, Any]] = []
    count = 0
    with replacing(out) as temporary, temporary.open("w", encoding="utf-8") as file:
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
    return out, len(boards), count


def rewrite_tables(folder: Path, registry: Registry) -> list[Path]:
    """Make the tables of all boards below a folder anew, those that are there; returns those that changed."""
    changed = []
    for board in boards_below(folder):
        with tempfile.TemporaryDirectory(prefix="tables-") as temporary:
            for made in write_board(Store(board), registry, Path(temporary))[1]:
                there = board / made.name
                if there.is_file() and there.read_bytes() != made.read_bytes():
                    write_text(there, made.read_text(encoding="utf-8"))
                    changed.append(there)
    return changed


def _board(path: Path, name: str, number: int) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    store = Store(path)
    records, errors = read_records(store)
    levels = trust_of(store, records)
    results = trust.with_trust(sorted_results(records), levels)
    table = leaderboard(results, errors)
    if "data_seed" not in table:
        table = table.assign(data_seed="")
    counted = Counter(level.level for level in levels.values())
    head = {"path": name, "page": board_address(name), "rows": len(table), "trials": len(records)}
    head |= {"trust": dict(sorted(counted.items())), "submission": _submission(path)}
    return head, _cells(table, results, name, number)


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
    rows = zip(_rows(table[IDENTITY]), _rows(table[list(COLUMNS)]), is_deterministic(table), strict=True)
    for identity, row, deterministic in rows:
        place = digest(identity)[:16]
        facts = {_named(column): value for column, value in row.items()}
        names = {"id": f"{board}/{place}", "address": cell_address(board, {**identity, **row})}
        seedless = {"deterministic": True} if deterministic else {}
        yield {**names, "board": number, **facts, **seedless, "keys": keys[place]}


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
