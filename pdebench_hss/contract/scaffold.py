"""New plugins from templates: a package that can be installed, is discovered, and passes its own tests as generated.

Templates are files under ``templates/{model,task}`` with the suffix ``.tmpl`` and ``${...}`` placeholders; the folder
``package`` takes the plugin's name.
"""

from __future__ import annotations

import importlib.util
import keyword
import sys
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from ..base.errors import UsageError
from ..base.version import __version__
from .registry import Registry
from .task import NAME

if TYPE_CHECKING:
    from importlib.abc import Traversable

SUFFIX = ".tmpl"


def create(kind: str, name: str, parent: Path, registry: Registry) -> list[Path]:
    """Write the package ``parent/name`` and return its files; refuses bad names and never overwrites."""
    target = parent / name
    if target.exists():
        raise UsageError(f"{target} exists already; choose another name, or another place with --into")
    _check_name(kind, name, registry)
    words = {
        "name": name,
        "distribution": name.replace("_", "-"),
        "title": name.replace("_", " ").title(),
        "class_name": name.title().replace("_", ""),
        "version": __version__,
    }
    written = []
    for relative, text in _templates(files("pdebench_hss.contract") / "templates" / kind):
        path = target / relative.replace("package", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(Template(text).substitute(words), encoding="utf-8")
        written.append(path)
    return sorted(written)


def _templates(folder: Traversable, prefix: str = "") -> list[tuple[str, str]]:
    """(path without the suffix, text) of every template below a folder, in a wheel or in a source tree."""
    found = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _templates(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(SUFFIX):
            found.append((prefix + entry.name.removesuffix(SUFFIX), entry.read_text(encoding="utf-8")))
    return found


def _check_name(kind: str, name: str, registry: Registry) -> None:
    """The name becomes a plugin's, a module's and a class's: refuse what can't be all three."""
    if not NAME.fullmatch(name):
        raise UsageError(f"{name!r} can't name a {kind}: use lower-case letters, digits and _, and start with a letter")
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        raise UsageError(f"{name!r} can't name a {kind}: it is a Python keyword")
    known = registry.models if kind == "model" else registry.tasks
    if name in known:
        raise UsageError(f"a {kind} {name!r} exists already, from {known[name].origin}; choose another name")
    if name in sys.stdlib_module_names or importlib.util.find_spec(name):
        raise UsageError(f"{name!r} can't name a {kind}: a Python module of that name is installed")
