"""Whether a library that a plugin builds on is there, in a version that the plugin was tested with."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version

from .errors import PluginError


def needs_library(name: str, at_least: str, below: str) -> None:
    """Raises `PluginError`, one line, unless the distribution ``name`` has ``at_least <= version < below``.

    A plugin calls it when it is imported: it is then set aside with that line, and no trial fails somewhere inside of
    the library. The library itself is not imported.
    """
    wanted = f"{name} >= {at_least}, < {below}"
    fix = f"pip install '{name}>={at_least},<{below}'"
    try:
        found = version(name)
    except PackageNotFoundError:
        raise PluginError(f"needs {wanted}, which is not installed: {fix}") from None
    if not _release(at_least) <= _release(found) < _release(below):
        raise PluginError(f"was tested with {wanted}, not with the {found} that is installed: {fix}")


def _release(text: str) -> tuple[int, ...]:
    """(2, 1) of "2.1.0rc1": the numbers it begins with, without zeros at the end."""
    leading = re.match(r"\d+(\.\d+)*", text)
    numbers = [int(part) for part in leading[0].split(".")] if leading else [0]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
