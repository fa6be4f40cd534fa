"""Models that are given as they are, classes and specs, as plugin files that every process can load.

    class, function or ModelSpec -> a `PluginFile`: its source (`sources`) and a hook -> BOARD/plugins/NAME_HASH.py

From there on such a model is like any other from a ``--plugin`` file. Workers load it, in whatever way they were
started; the content of the file is in the key of every trial, so an edited class is another model; the command on the
board names the file. Each model has a file of its own: editing one changes nothing for the others.

The text of a file, and so every key, follows from what is written here: change it only for a reason.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from ..base.errors import PluginError, UsageError
from ..base.files import write_text
from ..base.references import call_target
from ..contract.model import ModelSpec
from ..contract.registry import Registry, add_files
from ..contract.search import Range
from .sources import NoSource, Sources, is_plain

Model: TypeAlias = "str | type | Callable[..., Any] | ModelSpec"
FOLDER = "plugins"  # of a board
HEADER = "# A model that was given to pdebench_hss.run. This text is in the keys of its trials.\n"
HOOK = """

import pdebench_hss as _pdebench_hss


@_pdebench_hss.hookimpl
def pdebench_hss_models():
    return [
        _pdebench_hss.ModelSpec(
{fields}
        )
    ]
"""


@dataclasses.dataclass(frozen=True)
class PluginFile:
    """A model as the text of a plugin."""

    name: str  # of the model
    text: str

    @property
    def file(self) -> str:
        return f"{self.name}_{hashlib.sha256(self.text.encode()).hexdigest()[:8]}.py"

    def path(self, board: str | Path) -> Path:
        return Path(board) / FOLDER / self.file


def plugin_file(model: Model) -> PluginFile:
    """A class, a build function or a spec, written down."""
    if isinstance(model, ModelSpec):
        return _from_spec(model)
    if not callable(model) or not hasattr(model, "__name__"):
        kind = type(model).__name__
        hint = f"; give the class {kind} itself: every trial builds its own" if hasattr(model, "parameters") else ""
        raise UsageError(f"a model is a name, a class or a ModelSpec, not an object of type {kind}{hint}")
    return _from_spec(spec_of(model))


def spec_of(model: Callable[..., Any]) -> ModelSpec:
    """A class by itself: its name in lower case, and what its ``__init__`` has defaults for as hyper-parameters."""
    words = (model.__doc__ or "").strip().splitlines()
    return ModelSpec(
        name=snake_case(model.__name__),
        title=model.__name__,
        build=model,
        hparams=_hparams(model),
        description=words[0] if words else "",
    )


def snake_case(name: str) -> str:
    """``MyNet`` -> ``my_net``, ``FNO2d`` -> ``fno2d``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower().strip("_")


def _hparams(model: Callable[..., Any]) -> dict[str, Any]:
    who = f"{model.__name__}.__init__" if isinstance(model, type) else model.__name__
    parameters = list(inspect.signature(model).parameters.values())
    first = parameters[0] if parameters else None
    if first is None or first.kind not in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD):
        raise UsageError(
            f"{who} must take the task first, as in def __init__(self, task, width=32): the task has dim, grid, "
            "in_channels, out_channels and more"
        )
    hparams = {}
    for parameter in parameters[1:]:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.default is parameter.empty:
            raise UsageError(
                f"{who} needs a value for {parameter.name!r}: give it a default, or a value in the hparams of a "
                "ModelSpec"
            )
        if isinstance(parameter.default, (bool, int, float, str)):  # others stay what they are by default
            hparams[parameter.name] = parameter.default
    return hparams


def _from_spec(spec: ModelSpec) -> PluginFile:
    sources, fields = Sources(), []
    for field in dataclasses.fields(spec):
        value = getattr(spec, field.name)
        default = field.default_factory() if callable(field.default_factory) else field.default
        if value is default or (not callable(value) and value == default):
            continue
        if field.name == "build":
            value = _target(spec)
        fields.append(f"            {field.name}={_expression(value, sources, f'{spec.name}: {field.name}')},")
    text = HEADER + sources.text + HOOK.format(fields="\n".join(fields))
    return PluginFile(spec.name, text)


def _target(spec: ModelSpec) -> Callable[..., Any]:
    """What builds the model, imported now if the spec only names it: its source is wanted."""
    try:
        return call_target(spec.build)
    except Exception as error:
        raise PluginError(f"model {spec.name!r}: build {spec.build!r} can't be imported: {error}") from error


def _expression(value: Any, sources: Sources, where: str) -> str:
    """A value as Python; what has a source is added to the sources, and named."""
    if is_plain(value):
        return repr(value)
    if isinstance(value, Range):  # its repr is its constructor
        return f"_pdebench_hss.{value!r}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_expression(item, sources, where)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        inside = ", ".join(_expression(item, sources, where) for item in value)
        return f"[{inside}]" if isinstance(value, list) else f"({inside},)"
    if callable(value) and hasattr(value, "__name__"):
        return sources.add(value)
    raise NoSource(f"model {where} is a {type(value).__name__}, which has no source; give a plain value or a function")


# ---------------------------------------------------------------- a run with such models


@dataclasses.dataclass(frozen=True)
class Given:
    """The models of a run: names for those that are installed or brought along, and files for the latter."""

    names: list[str]
    files: list[PluginFile]


def given(models: Model | Sequence[Model]) -> Given:
    """What was given as ``models``; nothing is written yet."""
    listed: list[Model] = list(models) if isinstance(models, (list, tuple)) else [models]  # type: ignore[list-item]
    names: list[str] = []
    files: dict[str, PluginFile] = {}
    for model in listed:
        if isinstance(model, str):
            names.append(model)
            continue
        found = plugin_file(model)
        if files.setdefault(found.name, found) != found:
            raise UsageError(f"two different models are called {found.name!r}; rename one")
        names.append(found.name)
    return Given(names, list(files.values()))


def bring(files: Sequence[PluginFile], registry: Registry, board: str | Path) -> list[str]:
    """Write the files to a board and load them; returns their paths."""
    for plugin in files:
        if plugin.name in registry.models:
            origin = registry.models[plugin.name].origin
            raise UsageError(
                f"a model {plugin.name!r} is installed ({origin}); rename the class, or give a ModelSpec with another "
                "name"
            )
    paths = [str(_written(plugin, board)) for plugin in files]
    add_files(registry, paths)
    for broken in registry.broken:
        for plugin in files:
            if broken.origin.distribution == plugin.file:
                raise PluginError(f"model {plugin.name!r} does not work from its source alone: {broken.reason}")
    return paths


def _written(plugin: PluginFile, board: str | Path) -> Path:
    path = plugin.path(board)
    if not path.is_file() or path.read_text(encoding="utf-8") != plugin.text:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, plugin.text)
    return path


def trained_file(model: Model, board: str | Path) -> tuple[str, list[str]]:
    """The name of a class or spec on a board, and its file there; raises `UsageError` if it was not trained so."""
    plugin = plugin_file(model)
    path = plugin.path(board)
    if not path.is_file() or path.read_text(encoding="utf-8") != plugin.text:
        others = sorted(found.name for found in path.parent.glob(f"{plugin.name}_*.py"))
        there = f"; {path.parent} has {', '.join(others)}" if others else ""
        raise UsageError(f"{plugin.name!r} as it is defined now was not trained on {board}{there}; run it first")
    return plugin.name, [str(path)]
