"""``plan.json``: the cells that were asked for, and the commands that asked for them.

    {"schema": 3, "commands": [...], "cells": {identity of a cell: {"key": ..., "trial": {...}}}}

The board of a shard (``run --shard 2/4``) holds the whole plan, and ``"shards": {"<id of the plan>/4": [2]}`` says
which parts of it were asked for there. Where all of them were, a board is as good as one of a single run.

It is checked like a record: invalid cells are left out and named. A plan of a newer schema is never replaced.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..base.errors import StoreError
from ..base.files import BadFile, file_state, read_plain, replacing, set_aside, write_text
from . import validation
from .trial import Trial
from .validation import Newer


@dataclass(frozen=True, slots=True)
class Planned:
    """A trial that was asked for, and the key under which its record is found."""

    key: str
    trial: Trial


Cells = dict[str, Planned]
Shards = dict[str, list[int]]  # by plan and number of shards (`shard_name`): those that a board holds, sorted


def shard_name(plan: str, of: int) -> str:
    return f"{plan}/{of}"


def missing_shards(name: str, numbers: Iterable[int]) -> list[int]:
    """The shards of a plan that are not among these."""
    return sorted(set(range(1, int(name.rpartition("/")[2]) + 1)) - set(numbers))


def joined_shards(several: Iterable[Shards]) -> Shards:
    found: dict[str, set[int]] = {}
    for shards in several:
        for name, numbers in shards.items():
            found.setdefault(name, set()).update(numbers)
    return {name: sorted(found[name]) for name in sorted(found)}


def without_copies(cells: Cells, of: Iterable[Trial]) -> Cells:
    """The cells without other seeds of the deterministic trials among ``of``: each of these stands for all seeds."""
    chosen = {trial.place: trial.seed for trial in of if trial.deterministic}
    models = {place[1] for place in chosen}

    def is_copy(trial: Trial) -> bool:
        if trial.model_label not in models:
            return False
        seedless = trial if trial.deterministic else replace(trial, deterministic=True)
        return chosen.get(seedless.place, trial.seed) != trial.seed

    return {cell: planned for cell, planned in cells.items() if not is_copy(planned.trial)} if chosen else cells


class PlanFile:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: tuple[Any, tuple[Cells, list[str], list[str]]] | None = None  # the state of the file, its content
        self._shards: Shards = {}

    def _read(self) -> tuple[Cells, list[str], list[str]]:
        """An unchanged file is not read again: ten thousand cells take most of a second."""
        state = file_state(self.path)
        if state is None or self._known is None or self._known[0] != state:
            content = validation.parse_json(read_plain(self.path, validation.LARGEST_PLAN))
            shards = validation.check_shards(content)
            trials, commands, complaints = validation.check_plan(content)
            cells = {cell: Planned(trial.key, trial) for cell, trial in trials.items()}
            self._known, self._shards = (state, (cells, commands, complaints)), shards
        cells, commands, complaints = self._known[1]
        return dict(cells), list(commands), list(complaints)

    def read(self) -> tuple[Cells, list[str], list[str]]:
        """Cells, commands, and what is wrong with the rest."""
        try:
            return self._read()
        except FileNotFoundError:
            return {}, [], []
        except BadFile as error:
            return {}, [], [f"{error}; only existing records are shown"]

    def labelled(self, model: str, task: str) -> list[Trial]:
        """The trials of one model on one task, by their labels; empty if there are none, or the plan can't be used.
        Other cells are not checked: of a large plan that would take longer than all else that a model is loaded by."""
        try:
            content = validation.parse_json(read_plain(self.path, validation.LARGEST_PLAN))
            if isinstance(cells := content.get("cells"), dict):
                content["cells"] = {cell: entry for cell, entry in cells.items() if _labels(entry) == (model, task)}
            return list(validation.check_plan(content)[0].values())
        except (FileNotFoundError, BadFile):
            return []

    def shards(self) -> Shards:
        """The shards of plans that a board holds; empty if it was made without."""
        try:
            self._read()
        except (FileNotFoundError, BadFile):
            return {}
        return dict(self._shards)

    def add(self, cells: Cells, command: str, shards: Shards | None = None) -> None:
        known, commands, _ = self.read()
        if command and command not in commands:
            commands.append(command)
        known = without_copies(known, (planned.trial for planned in cells.values()))
        known.update(cells)
        self.write(known, commands, joined_shards([self.shards(), shards or {}]))

    def write(self, cells: Cells, commands: list[str], shards: Shards) -> None:
        head = {"schema": validation.SCHEMA, "commands": commands, **({"shards": shards} if shards else {})}
        entries = ((cell, {"key": p.key, "trial": p.trial.to_dict()}) for cell, p in cells.items())
        with replacing(self.path) as temporary, temporary.open("w", encoding="utf-8") as file:
            file.writelines(_text(head, entries))
        self._known, self._shards = (file_state(self.path), (cells, commands, [])), shards

    def tidy(self) -> None:
        """The same content with a line per cell, as `add` writes it. Earlier versions wrote a line for each value."""
        try:
            content = validation.parse_json(read_plain(self.path, validation.LARGEST_PLAN))
            self._read()
        except (FileNotFoundError, BadFile):
            return  # whoever uses it reports what is wrong with it
        cells = content.pop("cells")
        text = "".join(_text(content, cells.items()))
        if text.encode() != self.path.read_bytes():
            write_text(self.path, text)

    def refuse_newer(self) -> None:
        """Refuse to replace a plan of a newer schema."""
        try:
            self._read()
        except Newer as error:
            raise StoreError(f"{self.path} is {error}; use that version or another --out") from None
        except (FileNotFoundError, BadFile):
            pass

    def set_aside(self, folder: Path) -> list[str]:
        """Keep a copy of a plan if some of its cells will be dropped; returns a line for each complaint."""
        try:
            complaints = self._read()[2]
        except FileNotFoundError:
            return []
        except BadFile as error:
            moved = set_aside(self.path, folder)
            return [f"plan.json can't be used ({error}); set aside as records/set_aside/{moved.name if moved else ''}"]
        if complaints:
            write_text(folder / "plan.json", self.path.read_text(encoding="utf-8"))
        return [f"plan.json: {complaint}; dropped (the old plan is in records/set_aside)" for complaint in complaints]


def _labels(entry: Any) -> tuple[Any, Any]:
    """Those of a cell that is not checked yet."""
    trial = entry.get("trial") if isinstance(entry, dict) else None
    return (trial.get("model_label"), trial.get("task_label")) if isinstance(trial, dict) else (None, None)


def _text(head: Mapping[str, Any], cells: Iterable[tuple[str, Any]]) -> Iterator[str]:
    """The file in parts, a line for each cell: a large plan is never in memory as one text."""
    fields = ",\n".join(f" {json.dumps(name)}: {_compact(value)}" for name, value in head.items())
    yield f'{{\n{fields},\n "cells": {{\n'
    separator = ""
    for cell, entry in cells:
        yield f"{separator}  {json.dumps(cell)}: {_compact(entry)}"
        separator = ",\n"
    yield "\n }\n}\n"


_compact = json.JSONEncoder(separators=(",", ":")).encode
