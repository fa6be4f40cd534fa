"""The file that `tune` writes and ``run --tuned`` reads: which options were chosen for each model on each task.

    schema: 1
    scale: small
    chosen:
    - {task: my_task, model: my_solver, options: {lr: 0.0044, width: 20}, tries: 12, seconds: 113.2, ...}

The rest of the file (every try, held-out errors, versions) is for readers. Light.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ..base.errors import UsageError
from ..contract.selection import Choice

SCHEMA = 1


@dataclass(frozen=True)
class Entry:
    """The options chosen for one model on one task, the number of tries and their cost; nothing by default."""

    options: Mapping[str, Any] = field(default_factory=dict)
    tries: int = 0
    seconds: float = 0.0

    @property
    def facts(self) -> dict[str, Any]:
        """In the form of `Trial.tuned`; empty where nothing was tuned."""
        return {"tries": self.tries, "seconds": self.seconds, "options": dict(self.options)} if self.tries else {}


@dataclass(frozen=True)
class Tuned:
    """A tuned file; without one, every model has its defaults."""

    path: str = ""
    scale: str = ""
    entries: Mapping[tuple[str, str], Entry] = field(default_factory=dict)  # by label of the task and of the model

    def check(self, scale: str, task: str) -> None:
        """Refuse a file of another scale or of other tasks."""
        if not self.path:
            return
        if scale != self.scale:
            raise UsageError(f"--tuned {self.path}: it was tuned at scale {self.scale}, and this run is at {scale}")
        known = list(dict.fromkeys(known for known, _ in self.entries))
        if task not in known:
            raise UsageError(f"--tuned {self.path}: it was not tuned on task {task!r}; it has {', '.join(known)}")

    def entry(self, task: str, model: Choice) -> Entry:
        """The choice for the model as it was typed, or for its name alone; a model that was not tuned is refused."""
        if not self.path:
            return Entry()
        for label in (model.label, model.name):
            if found := self.entries.get((task, label)):
                return found
        raise UsageError(
            f"--tuned {self.path}: model {model.label!r} was not tuned on task {task!r}; tune it as the others were "
            f"(their tries are kept), or leave it out"
        )


def read_tuned(path: str | None) -> Tuned:
    """Raises `UsageError` in one line if it is not such a file."""
    if path is None:
        return Tuned()
    content = _content(path)
    try:
        chosen = {
            (str(one["task"]), str(one["model"])): Entry(
                {str(name): value for name, value in one["options"].items()}, int(one["tries"]), float(one["seconds"])
            )
            for one in content["chosen"]
        }
        return Tuned(path, str(content["scale"]), chosen)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"--tuned {path}: it is damaged ({type(error).__name__}: {error})") from None


def _content(path: str) -> dict[str, Any]:
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--tuned {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise UsageError(f"--tuned {path}: not valid YAML") from None
    if not isinstance(content, dict) or "chosen" not in content or not isinstance(content.get("schema"), int):
        raise UsageError(f"--tuned {path}: it is not a file that pdebench-hss tune wrote")
    if content["schema"] > SCHEMA:
        raise UsageError(f"--tuned {path}: written by a newer pdebench-hss (schema {content['schema']})")
    return content
