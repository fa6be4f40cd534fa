"""What all kinds of task files have in common: their keys are the fields of a dataclass.

The annotation of a field says what may stand there, a field without a default must be given, and a number is at least
its default.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from ..base.errors import UsageError, did_you_mean
from .task import NAME

FOLDER = "folder"  # where the file lies, to which its places are relative: no key
KINDS: dict[str, tuple[type, str]] = {
    "str": (str, "text"),
    "bool": (bool, "true or false"),
    "int": (int, "a whole number"),
    "Mapping[str, Any]": (Mapping, "keys and values"),
}

Described = TypeVar("Described", bound="FileKeys")


class FileKeys:
    """To be inherited by a frozen dataclass, which calls `check_values` when it is made."""

    name: str

    @classmethod
    def file_keys(cls) -> list[dataclasses.Field[Any]]:
        return [key for key in dataclasses.fields(cls) if key.name != FOLDER]  # type: ignore[arg-type]

    @classmethod
    def from_content(cls: type[Described], content: Mapping[str, Any], path: Path) -> Described:
        """From what was read; every complaint names the file."""
        keys = {key.name: key for key in cls.file_keys()}
        try:
            for name in content:
                if name not in keys:
                    raise UsageError(f"unknown key {name!r}.{did_you_mean(str(name), keys)}  Keys: {', '.join(keys)}")
            for name, key in keys.items():
                if name not in content and key.default is key.default_factory is dataclasses.MISSING:
                    raise UsageError(f"{name} is missing")
            return cls(**content, **{FOLDER: str(path.resolve().parent)})
        except UsageError as error:
            raise UsageError(f"task file {path}: {error}") from None

    def check_values(self) -> None:
        for key in self.file_keys():
            value, (kind, words) = getattr(self, key.name), KINDS.get(str(key.type), (object, ""))
            fits = isinstance(value, kind)
            if kind is int:
                words += f" of at least {key.default}"
                fits = fits and not isinstance(value, bool) and value >= key.default
            if not fits:
                raise UsageError(f"{key.name} must be {words}, not {value!r}")
        if not NAME.fullmatch(self.name) or self.name == "all":
            raise UsageError(f"name {self.name!r}: lower-case letters, digits and _, starting with a letter; not 'all'")

    def plain(self) -> dict[str, Any]:
        """What a YAML file holds: all that is not as by default."""
        values = {key.name: (getattr(self, key.name), key.default) for key in self.file_keys()}
        chosen = {name: value for name, (value, default) in values.items() if value not in (default, {}, (), [])}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in chosen.items()}
