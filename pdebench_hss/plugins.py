"""Discovery: entry points -> hooks -> a registry of specs, with broken plugins set aside.

Entry points of group ``pdebench_hss`` are loaded one by one. One that raises, on import or in a hook, is kept as a
`BrokenPlugin` with its reason and the rest go on. Two specs with one name are an error that names both
distributions: whichever won would make a leaderboard mean something else on another machine.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

import pluggy

from . import hookspecs
from .errors import PluginError, UsageError, did_you_mean
from .generators import clash
from .model import ModelSpec
from .selection import Choice, choose
from .study import Study
from .task import TaskSpec

GROUP = hookspecs.PROJECT
BUILT_IN = "pdebench-hss"  # the distribution that this module belongs to
Spec = TypeVar("Spec")


@dataclass(frozen=True)
class Origin:
    """Where a spec came from: a distribution and its version, or a file and its content's hash."""

    distribution: str
    version: str
    entry_point: str
    file: str = ""

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}"


@dataclass(frozen=True)
class BrokenPlugin:
    origin: Origin
    stage: str
    reason: str
    traceback: str

    def __str__(self) -> str:
        return f"plugin {self.origin.entry_point!r} ({self.origin}) failed in {self.stage}: {self.reason}"


@dataclass(frozen=True)
class Registered(Generic[Spec]):
    spec: Spec
    origin: Origin


@dataclass
class Registry:
    """Everything that was found, by name."""

    models: dict[str, Registered[ModelSpec]] = field(default_factory=dict)
    tasks: dict[str, Registered[TaskSpec]] = field(default_factory=dict)
    executors: dict[str, Registered[str]] = field(default_factory=dict)
    benches: dict[str, Registered[str]] = field(default_factory=dict)
    studies: dict[str, Registered[Study]] = field(default_factory=dict)
    device_checks: dict[str, Registered[str]] = field(default_factory=dict)
    plugins: list[Origin] = field(default_factory=list)
    broken: list[BrokenPlugin] = field(default_factory=list)
    manager: pluggy.PluginManager = field(default_factory=lambda: pluggy.PluginManager(GROUP))

    def model(self, name: str) -> Registered[ModelSpec]:
        return _lookup(self.models, "model", name)

    def task(self, name: str) -> Registered[TaskSpec]:
        return _lookup(self.tasks, "task", name)

    def choose_models(self, text: str | Sequence[str]) -> list[Choice]:
        return choose(text, self.models, "model")

    def choose_tasks(self, text: str | Sequence[str]) -> list[Choice]:
        return choose(text, self.tasks, "task", {name for name, task in self.tasks.items() if not task.spec.in_all})

    def executor(self, name: str) -> Registered[str]:
        return _lookup(self.executors, "executor", name)

    def bench(self, name: str) -> Registered[str]:
        return _lookup(self.benches, "bench", name, "benches")

    def study(self, name: str) -> Registered[Study]:
        return _lookup(self.studies, "study", name, "studies")

    def notify_finished(self, record: Any) -> list[BrokenPlugin]:
        """Tell trackers about a record; a tracker that raises is reported, and the others still hear of it."""
        failures = []
        for implementation in self.manager.hook.pdebench_hss_trial_finished.get_hookimpls():
            try:
                implementation.function(*[record][: len(implementation.argnames)])
            except Exception as error:
                origin = _origin_of(implementation.plugin_name)
                failures.append(_broken(origin, "pdebench_hss_trial_finished", error))
        return failures


def _lookup(table: dict[str, Registered[Spec]], kind: str, name: str, plural: str = "") -> Registered[Spec]:
    try:
        return table[name]
    except KeyError:
        hint = did_you_mean(name, table)
        raise UsageError(f"no {kind} {name!r}.{hint}  See: pdebench-hss list {plural or kind + 's'}") from None


def load_registry(plugin_files: Sequence[str | Path] = (), *, strict: bool = False) -> Registry:
    """Load all installed plugins and the given files."""
    registry = Registry()
    registry.manager.add_hookspecs(hookspecs)
    for entry_point in sorted(entry_points(group=GROUP), key=_turn):
        _load(registry, _distribution(entry_point), entry_point.load)
    add_files(registry, plugin_files)
    if strict and registry.broken:
        raise PluginError("; ".join(map(str, registry.broken)) + "  (--strict-plugins)")
    return registry


def _turn(entry_point: EntryPoint) -> tuple[bool, str, str]:
    """By name, the built-in ones first: so no other plugin takes a dataset's name from a built-in task."""
    distribution = _distribution(entry_point).distribution
    return distribution != BUILT_IN, distribution, entry_point.name


def add_files(registry: Registry, plugin_files: Sequence[str | Path]) -> None:
    for path in plugin_files:
        origin, load = _file_plugin(Path(path))
        _load(registry, origin, load)


def _load(registry: Registry, origin: Origin, load: Callable[[], Any]) -> None:
    """Import one plugin and take what its hooks return; all or nothing."""
    try:
        plugin = load()
    except Exception as error:
        registry.broken.append(_broken(origin, "import", error))
        return
    name = f"{origin.distribution}|{origin.version}|{origin.entry_point}"
    try:
        registry.manager.register(plugin, name=name)
        registry.manager.check_pending()
        found = {
            "models": _call(registry, plugin, "pdebench_hss_models", ModelSpec),
            "tasks": _call(registry, plugin, "pdebench_hss_tasks", TaskSpec),
            "studies": _call(registry, plugin, "pdebench_hss_studies", Study),
        }
        executors = _hook(registry, plugin, "pdebench_hss_executors") or {}
        benches = _hook(registry, plugin, "pdebench_hss_benches") or {}
        device_checks = _hook(registry, plugin, "pdebench_hss_device_checks") or {}
    except Exception as error:
        if registry.manager.is_registered(plugin):
            registry.manager.unregister(plugin)
        registry.broken.append(_broken(origin, getattr(error, "hook", "its hooks"), error))
        return
    registry.plugins.append(origin)
    for kind, specs in found.items():
        for spec in specs:
            if kind == "tasks" and (reason := clash(spec, origin, registry.tasks.values())):
                registry.broken.append(BrokenPlugin(origin, "pdebench_hss_tasks", reason, ""))
                continue
            _add(getattr(registry, kind), "study" if kind == "studies" else kind[:-1], spec.name, spec, origin)
    for executor_name, reference in executors.items():
        _add(registry.executors, "executor", executor_name, reference, origin)
    for bench_name, reference in benches.items():
        _add(registry.benches, "bench", bench_name, reference, origin)
    for check_name, reference in device_checks.items():
        _add(registry.device_checks, "device check", check_name, reference, origin)


def _add(table: dict[str, Registered[Any]], kind: str, name: str, spec: Any, origin: Origin) -> None:
    if name in table:
        first = table[name].origin
        raise PluginError(
            f"two plugins bring a {kind} named {name!r}: {first} (entry point {first.entry_point!r}) and "
            f"{origin} (entry point {origin.entry_point!r}). Rename one or uninstall one of the two."
        )
    table[name] = Registered(spec, origin)


def _hook(registry: Registry, plugin: Any, hook: str) -> Any:
    """What one plugin's implementation of a hook returns (None if it has none)."""
    for implementation in getattr(registry.manager.hook, hook).get_hookimpls():
        if implementation.plugin is plugin:
            try:
                return implementation.function()
            except Exception as error:
                error.hook = hook  # type: ignore[attr-defined]
                raise
    return None


def _call(registry: Registry, plugin: Any, hook: str, kind: type) -> Iterable[Any]:
    specs = _hook(registry, plugin, hook) or []
    if not isinstance(specs, (list, tuple)):
        raise _hook_error(hook, f"must return a list, not {type(specs).__name__}")
    for spec in specs:
        if not isinstance(spec, kind):
            raise _hook_error(hook, f"must return a list of {kind.__name__}, found {type(spec).__name__}")
    return specs


def _hook_error(hook: str, message: str) -> TypeError:
    error = TypeError(f"{hook} {message}")
    error.hook = hook  # type: ignore[attr-defined]
    return error


def _broken(origin: Origin, stage: str, error: Exception) -> BrokenPlugin:
    reason = f"{type(error).__name__}: {error}".splitlines()[0]
    return BrokenPlugin(origin, stage, reason, "".join(traceback.format_exception(error)))


def _distribution(entry_point: EntryPoint) -> Origin:
    dist = entry_point.dist
    return Origin(dist.name if dist else "unknown", dist.version if dist else "0", entry_point.name)


def _origin_of(plugin_name: str) -> Origin:
    return Origin(*plugin_name.split("|", 2))


def _file_plugin(path: Path) -> tuple[Origin, Callable[[], ModuleType]]:
    """A plugin from ``--plugin path/to/file.py``; its version is its content."""
    if not path.is_file():
        raise UsageError(f"--plugin {path}: no such file")
    version = hashlib.sha256(path.read_bytes()).hexdigest()[:12]

    def load() -> ModuleType:
        # Its folder goes on the path so that "file:Class" references and files beside it resolve.
        folder = str(path.resolve().parent)
        if folder not in sys.path:
            sys.path.insert(0, folder)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
        return module

    return Origin(os.fspath(path.name), version, path.stem, str(path.resolve())), load
