"""``plan.json``: the cells that were asked for, and the commands that asked for them.

    {"schema": 2, "commands": [...], "cells": {identity of a cell: {"key": ..., "trial": {...}}}}

Read like a record: cells that can't be believed are left out and named, and a plan of a newer schema is never replaced.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base.errors import StoreError
from ..base.files import BadFile, read_plain, set_aside, write_text
from . import validation
from .validation import Newer

Cells = dict[str, dict[str, Any]]


class PlanFile:
    def __init__(self, path: Path) -> None:
        self.path = path

    def _read(self) -> tuple[Cells, list[str], list[str]]:
        return validation.check_plan(validation.parse_json(read_plain(self.path, validation.LARGEST_PLAN)))

    def read(self) -> tuple[Cells, list[str], list[str]]:
        """Cells, commands, and what is wrong with the rest."""
        try:
            return self._read()
        except FileNotFoundError:
            return {}, [], []
        except BadFile as error:
            return {}, [], [f"{error}; only existing records are shown"]

    def add(self, cells: Mapping[str, dict[str, Any]], command: str) -> None:
        known, commands, _ = self.read()
        if command and command not in commands:
            commands.append(command)
        content = {"schema": validation.SCHEMA, "commands": commands, "cells": {**known, **cells}}
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
