"""``plan.json``: the cells that were asked for, and the commands that asked for them.

    {"schema": 3, "commands": [...], "cells": {identity of a cell: {"key": ..., "trial": {...}}}}

Read like a record: cells that can't be believed are left out and named, and a plan of a newer schema is never replaced.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.errors import StoreError
from ..base.files import BadFile, file_state, read_plain, set_aside, write_text
from . import validation
from .trial import Trial
from .validation import Newer


@dataclass(frozen=True)
class Planned:
    """A trial that was asked for, and the key under which its record is found."""

    key: str
    trial: Trial


Cells = dict[str, Planned]


class PlanFile:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: tuple[Any, tuple[Cells, list[str], list[str]]] | None = None  # the state of the file, its content

    def _read(self) -> tuple[Cells, list[str], list[str]]:
        """A file that has not changed since is not read again: ten thousand cells take most of a second."""
        state = file_state(self.path)
        if state is None or self._known is None or self._known[0] != state:
            content = validation.parse_json(read_plain(self.path, validation.LARGEST_PLAN))
            found, commands, complaints = validation.check_plan(content)
            cells = {cell: Planned(entry["key"], Trial.from_dict(entry["trial"])) for cell, entry in found.items()}
            self._known = state, (cells, commands, complaints)
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

    def add(self, cells: Cells, command: str) -> None:
        known, commands, _ = self.read()
        if command and command not in commands:
            commands.append(command)
        entries = {cell: {"key": p.key, "trial": p.trial.to_dict()} for cell, p in {**known, **cells}.items()}
        content = {"schema": validation.SCHEMA, "commands": commands, "cells": entries}
        write_text(self.path, json.dumps(content, indent=1) + "\n")

    def tidy(self) -> None:
        """The same content with a line per cell, which takes three quarters of the place."""
        try:
            content = validation.parse_json(read_plain(self.path, validation.LARGEST_PLAN))
            self._read()
        except (FileNotFoundError, BadFile):
            return  # what is wrong with it is told where it is used
        lines = [f"{json.dumps(cell)}: {_compact(entry)}" for cell, entry in content.pop("cells").items()]
        head = ",\n".join(f" {json.dumps(name)}: {_compact(value)}" for name, value in content.items())
        cells = ",\n".join(f"  {line}" for line in lines)
        text = f'{{\n{head},\n "cells": {{\n{cells}\n }}\n}}\n'
        if text.encode() != self.path.read_bytes():
            write_text(self.path, text)

    def refuse_newer(self) -> None:
        """A plan of a newer schema is not replaced by what this version would make of it."""
        try:
            self._read()
        except Newer as error:
            raise StoreError(f"{self.path} is {error}; use that version or another --out") from None
        except (FileNotFoundError, BadFile):
            pass

    def set_aside(self, folder: Path) -> list[str]:
        """Keep a copy of a plan whose cells will not all be written again; returns a line for each complaint."""
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


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
