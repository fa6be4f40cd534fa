"""Who made a model or a task's data: part of keys and recipes, so that no plugin takes another's results for its own.

A plugin is known by the *name* of its distribution. What its parts compute is declared by `ModelSpec.version` and
`TaskSpec.data_version`, so a new release or a moved file changes nothing. A ``--plugin`` file has no release to rely
on: it is known by its content and that of the modules beside it that its specs name.

The source of a plugin is hashed too, for the record and not for the key: so a plugin that is developed without a new
version can be noticed (`runs.source_changes`).

Tasks that share a ``dataset`` must share its generator. One that does not is set aside: which of the two made the
file first would decide what the other is scored on.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.hashing import digest
from .task_file import is_task_file

if TYPE_CHECKING:
    from .model import ModelSpec
    from .registry import Origin, Registered
    from .task import TaskSpec

BUILT_IN = "pdebench-hss"  # the distribution that this module belongs to
# What makes the stored arrays, besides the numbers that are in a recipe anyway.
SHARED = ("generate", "read", "data_version", "dtype", "cases")
# What of a spec names code.
REFERENCES = ("build", "generate", "read", "view", "coarse", "mask", "coords")


def generator_of(task: Registered[TaskSpec]) -> str:
    """The identity of what makes a task's data, the same on every machine."""
    return _identity(task.origin, (task.spec.generate, task.spec.read))


def maker_of(model: Registered[ModelSpec]) -> str:
    """The identity of what brings a model, the same on every machine."""
    return _identity(model.origin, (model.spec.build,))


def _identity(origin: Origin, references: Iterable[Any]) -> str:
    if is_task_file(origin.file):  # the core reads it; what it says is in recipes and keys
        return BUILT_IN
    if not origin.file:
        return re.sub(r"[-_.]+", "-", origin.distribution).lower()  # one spelling of a distribution's name
    return "file " + _hash(_plugin_files(Path(origin.file), references))


def source_hash(found: Registered[Any]) -> str:
    """A hash of the Python files that a spec comes from, whatever they are called; empty if there are none to read."""
    files = source_files(found)
    return _hash(files) if files else ""


def source_files(found: Registered[Any]) -> set[Path]:
    """The Python files that a spec comes from."""
    origin = found.origin
    if is_task_file(origin.file):
        return set()
    if origin.file:
        return _plugin_files(Path(origin.file), (getattr(found.spec, name, None) for name in REFERENCES))
    return _module_files(origin.module)


def _plugin_files(plugin: Path, references: Iterable[Any]) -> set[Path]:
    named = {file for reference in references for file in _beside(plugin, reference)}
    return {file for file in {plugin, *named} if file.is_file()}


def _module_files(name: str) -> set[Path]:
    """All files of the package that a module is or lies in; a module outside of packages is one file."""
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    if not file or not Path(file).is_file():
        return set()
    is_in_package = hasattr(module, "__path__") or "." in name
    return set(Path(file).parent.rglob("*.py")) if is_in_package else {Path(file)}


def _hash(files: Iterable[Path]) -> str:
    return digest(sorted(hashlib.sha256(file.read_bytes()).hexdigest() for file in files))


def _beside(plugin: Path, reference: Any) -> Iterable[Path]:
    """The files of the module that a reference names, if it is found in the plugin's own folder."""
    if reference is None:
        return []
    module = reference.partition(":")[0] if isinstance(reference, str) else str(reference.__module__)
    place = plugin.parent.joinpath(*module.split("."))
    return [place.with_name(place.name + ".py"), place / "__init__.py"]


def clash(spec: TaskSpec, origin: Origin, known: Iterable[Registered[TaskSpec]]) -> str:
    """Why this task must not use the dataset it names, or nothing."""
    for other in known:
        if other.spec.dataset != spec.dataset or other.spec.name == spec.name:  # two of one name: another error
            continue
        different = [name for name in SHARED if getattr(other.spec, name) != getattr(spec, name)]
        if _place(origin) != _place(other.origin):
            different.insert(0, "origin")
        if different:
            return (
                f"task {spec.name!r} ({origin}) and task {other.spec.name!r} ({other.origin}) share the dataset "
                f"{spec.dataset!r} but not its generator (different: {', '.join(different)}); "
                f"task {spec.name!r} is set aside, give it its own dataset name"
            )
    return ""


def _place(origin: Origin) -> tuple[str, str]:
    return origin.file, "" if origin.file else origin.distribution
