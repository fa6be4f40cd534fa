"""Names as people type them: ``net``, ``net[rank=8,levels=2]``, ``wave_*``, ``all``, and lists of those."""

from __future__ import annotations

import fnmatch
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from ..base.errors import UsageError, did_you_mean

_ITEM = re.compile(r"(?P<name>[A-Za-z0-9_*?\-\.]+)(\[(?P<options>[^\[\]]*)\])?")


@dataclass(frozen=True)
class Choice:
    """One chosen name with the options set in brackets."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """How tables call it: options in a fixed order, so that equal choices have equal labels."""
        if not self.options:
            return self.name
        inside = ",".join(f"{key}={_spell(self.options[key])}" for key in sorted(self.options))
        return f"{self.name}[{inside}]"


def choose(text: str | Sequence[str], known: Iterable[str], kind: str, apart: Collection[str] = ()) -> list[Choice]:
    """Parse what was typed and expand globs and ``all`` (all but those ``apart``); order as typed, each choice once."""
    known = sorted(known)
    chosen: dict[str, Choice] = {}
    for item in split(text):
        match = _ITEM.fullmatch(item)
        if not match:
            raise UsageError(f"can't read {kind} {item!r}: write name or name[key=value,key=value]")
        options = parse_options(match["options"], f"{kind} {item!r}") if match["options"] else {}
        for name in _expand(match["name"], known, kind, apart):
            choice = Choice(name, options)
            chosen.setdefault(choice.label, choice)
    if not chosen:
        raise UsageError(f"no {kind} was named; write --{kind}s all, or see: pdebench-hss list {kind}s")
    return list(chosen.values())


def choose_any(text: str | Sequence[str], models: Iterable[str], tasks: Iterable[str]) -> tuple[list[str], list[str]]:
    """Names, globs or ``all`` of models and tasks together: the models and the tasks among them."""
    models, tasks = sorted(models), sorted(tasks)
    found: tuple[dict[str, None], dict[str, None]] = ({}, {})
    for item in split(text):
        pattern = "*" if item == "all" else item
        matches = [fnmatch.filter(known, pattern) for known in (models, tasks)]
        if not any(matches):
            hint = did_you_mean(item, [*models, *tasks])
            see = "pdebench-hss list models, pdebench-hss list tasks"
            raise UsageError(f"no model or task {item!r}.{hint}  See: {see}")
        for names, chosen in zip(matches, found):
            chosen.update(dict.fromkeys(names))
    return list(found[0]), list(found[1])


def split(text: str | Sequence[str]) -> list[str]:
    """Split at commas outside brackets."""
    if not isinstance(text, str):
        return [item for part in text for item in split(part)]
    return [item.strip() for item in re.split(r",(?![^\[]*\])", text) if item.strip()]


def parse_options(text: str, where: str) -> dict[str, Any]:
    """``key=value,key=value`` with YAML scalars as values."""
    options = {}
    for pair in text.split(","):
        key, equals, value = pair.partition("=")
        key, value = key.strip(), value.strip()
        if not equals or not key.isidentifier() or not value:
            raise UsageError(f"{where}: {pair.strip()!r} is not key=value")
        options[key] = parse_value(value)
    return options


def parse_value(text: str) -> Any:
    """A YAML scalar; ``1e-3``, which YAML 1.1 leaves a string, is a number too."""
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def check_options(options: Mapping[str, Any], defaults: Mapping[str, Any], who: str) -> dict[str, Any]:
    """The options, each known and of its default's type."""
    checked = {}
    for key, value in options.items():
        if key not in defaults:
            raise UsageError(
                f"{who} has no option {key!r}.{did_you_mean(key, defaults)}  "
                f"It has: {', '.join(sorted(defaults)) or 'none'}"
            )
        checked[key] = _like(value, defaults[key], f"{who}: {key}")
    return checked


def _like(value: Any, default: Any, where: str) -> Any:
    """``value`` as the type of ``default``, or a clear refusal."""
    if isinstance(default, bool) or default is None or isinstance(default, (list, tuple, dict)):
        fits = default is None or isinstance(value, type(default))
    elif isinstance(default, int):
        fits = isinstance(value, int) and not isinstance(value, bool)
        if isinstance(value, float) and value.is_integer():
            value, fits = int(value), True
    elif isinstance(default, float):
        fits = isinstance(value, (int, float)) and not isinstance(value, bool)
        value = float(value) if fits else value
    elif isinstance(default, str) and isinstance(value, bool):
        value, fits = str(value).lower(), True  # one of several words, true and false among them
    else:
        fits = isinstance(value, type(default))
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{where} must be a finite number, not {value!r}")
    if not fits:
        raise UsageError(f"{where} must be {type(default).__name__} (like {default!r}), not {value!r}")
    return value


def _expand(name: str, known: Sequence[str], kind: str, apart: Collection[str]) -> list[str]:
    if name == "all":
        return [other for other in known if other not in apart]
    if any(character in name for character in "*?"):
        names = fnmatch.filter(known, name)
        if not names:
            raise UsageError(f"no {kind} matches {name!r}. See: pdebench-hss list {kind}s")
        return names
    if name not in known:
        raise UsageError(f"no {kind} {name!r}.{did_you_mean(name, known)}  See: pdebench-hss list {kind}s")
    return [name]


def _spell(value: Any) -> str:
    if value is None:
        return "null"
    return repr(value) if isinstance(value, float) else str(value)
