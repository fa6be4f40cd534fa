"""A spec's parts as plain JSON values: for recipes, keys and `show`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any


def describe(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: describe(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): describe(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [describe(v) for v in value]
    if callable(value):
        return value.__qualname__  # not its module: a file may be moved
    return value


def without_module(part: Any) -> Any:
    """``"package.module:function"`` as the function's name; anything else as it is."""
    return part.rpartition(":")[2] if isinstance(part, str) else part
