"""References to heavy things by name: ``"package.module:attribute"``, imported on first use."""

from __future__ import annotations

import importlib
from typing import Any


def resolve(reference: str) -> Any:
    """Import and return what ``"package.module:attribute"`` names."""
    module, separator, attribute = reference.partition(":")
    if not separator or not module or not attribute:
        raise ValueError(f"{reference!r} is not a 'package.module:attribute' reference")
    target: Any = importlib.import_module(module)
    for part in attribute.split("."):
        try:
            target = getattr(target, part)
        except AttributeError as error:
            raise ImportError(f"{reference!r}: module {module!r} has no attribute {part!r}") from error
    return target


def check_reference(value: Any, owner: str, field: str) -> None:
    """Refuse, where a spec is made, a reference that could never be resolved."""
    if callable(value):
        return
    if not isinstance(value, str) or value.count(":") != 1 or value.startswith(":") or value.endswith(":"):
        raise ValueError(f"{owner}: {field} must be 'package.module:attribute', not {value!r}")


def call_target(value: Any) -> Any:
    """A callable given directly, or the one that a reference names."""
    return value if callable(value) else resolve(value)
