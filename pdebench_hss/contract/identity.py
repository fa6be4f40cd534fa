"""Who makes a task's data: part of the dataset's recipe, so that no plugin gives another its data.

A generator is known by the *name* of the distribution that its task comes from. What it computes is declared by
`TaskSpec.data_version`, so a new release or a moved file changes nothing. A task from a ``--plugin`` file has no
declaration to rely on: its generator is the content of that file and of the modules beside it that the task names.

Tasks that share a ``dataset`` must share its generator. One that does not is set aside: which of the two made the
file first would decide what the other is scored on.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.hashing import digest

if TYPE_CHECKING:
    from .registry import Origin, Registered
    from .task import TaskSpec

# What makes the stored arrays, besides the numbers that are in a recipe anyway.
SHARED = ("generate", "read", "data_version", "dtype", "cases")


def generator_of(task: Registered[TaskSpec]) -> str:
    """The generator's identity, the same on every machine."""
    origin = task.origin
    if not origin.file:
        return re.sub(r"[-_.]+", "-", origin.distribution).lower()  # one spelling of a distribution's name
    plugin = Path(origin.file)
    files = {plugin, *(file for part in (task.spec.generate, task.spec.read) for file in _beside(plugin, part))}
    return "file " + digest(sorted(hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.is_file()))


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
                f"{spec.dataset!r} and not its generator (different: {', '.join(different)}); "
                f"task {spec.name!r} is set aside, give it a dataset name of its own"
            )
    return ""


def _place(origin: Origin) -> tuple[str, str]:
    return origin.file, "" if origin.file else origin.distribution
