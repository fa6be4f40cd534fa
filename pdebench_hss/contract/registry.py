"""Discovery: entry points -> hooks -> a registry of specs, with broken plugins set aside.

Entry points of group ``pdebench_hss`` are loaded one by one, each inside a `guard`. One that raises, exits, hangs,
answers nonsense or changes what others depend on, on import or in a hook, is kept as a `BrokenPlugin` with its reason
and the rest go on. Two plugins that bring one name are an error that names both distributions: whichever won would
make a leaderboard mean something else on another machine.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

import pluggy

from ..base.errors import PdebenchError, PluginError, UsageError, did_you_mean
from ..base.places import TASK_FILES, arrays_dir
from ..base.references import check_reference, resolve
from . import hookspecs
from .guard import Misbehaved, TookTooLong, contained
from .identity import BUILT_IN, clash
from .metric import MetricSpec
from .model import ModelSpec
from .reference_table import ReferenceTable, printed_titles
from .selection import Choice, choose
from .study import Study
from .task import NAME, TaskSpec
from .task_file import is_task_file, read_task_file, spec_of

GROUP = hookspecs.PROJECT
ARRAYS = "arrays"  # in the place of a distribution, of tasks that `data add` made
HUNG_VARIABLE = "PDEBENCH_HSS_HUNG_PLUGINS"
Spec = TypeVar("Spec")


@dataclass(frozen=True)
class Origin:
    """Where a spec came from: a distribution and its version, or a file and its content's hash."""

    distribution: str
    version: str
    entry_point: str
    file: str = ""
    module: str = ""  # that the entry point names

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}"


@dataclass(frozen=True)
class BrokenPlugin:
    origin: Origin
    stage: str
    reason: str
    traceback: str

    def __str__(self) -> str:
        return f"{_name_of(self.origin)} failed in {self.stage}: {self.reason}"


@dataclass(frozen=True)
class Registered(Generic[Spec]):
    spec: Spec
    origin: Origin


@dataclass
class Registry:
    """Everything that was found, by name."""

    models: dict[str, Registered[ModelSpec]] = field(default_factory=dict)
    tasks: dict[str, Registered[TaskSpec]] = field(default_factory=dict)
    metrics: dict[str, Registered[MetricSpec]] = field(default_factory=dict)
    executors: dict[str, Registered[str]] = field(default_factory=dict)
    benches: dict[str, Registered[str]] = field(default_factory=dict)
    studies: dict[str, Registered[Study]] = field(default_factory=dict)
    references: dict[str, Registered[ReferenceTable]] = field(default_factory=dict)
    device_checks: dict[str, Registered[str]] = field(default_factory=dict)
    plugins: list[Origin] = field(default_factory=list)
    broken: list[BrokenPlugin] = field(default_factory=list)
    manager: pluggy.PluginManager = field(default_factory=lambda: pluggy.PluginManager(GROUP))
    origins: dict[str, Origin] = field(default_factory=dict)  # by the name that the manager knows a plugin by

    def model(self, name: str) -> Registered[ModelSpec]:
        return _lookup(self.models, "model", name)

    def task(self, name: str) -> Registered[TaskSpec]:
        return _lookup(self.tasks, "task", name)

    def metric(self, name: str) -> Registered[MetricSpec]:
        return _lookup(self.metrics, "metric", name)

    def choose_models(self, text: str | Sequence[str]) -> list[Choice]:
        return self._choose(text, self.models, "model")

    def choose_tasks(self, text: str | Sequence[str]) -> list[Choice]:
        return self._choose(text, self.tasks, "task", self._apart())

    def _apart(self) -> set[str]:
        """The tasks that ``all`` leaves out: those that ask for it, and those whose files nobody has named."""
        return {name for name, task in self.tasks.items() if not (task.spec.in_all and task.spec.finds_its_data)}

    def _choose(self, text: str | Sequence[str], known: Mapping[str, Any], kind: str, *apart: set[str]) -> list[Choice]:
        try:
            return choose(text, known, kind, *apart)
        except UsageError as error:  # a name may be unknown because its plugin was set aside
            raise UsageError("; ".join(map(str, (error, *self.broken)))) from None

    def executor(self, name: str) -> Registered[str]:
        return _lookup(self.executors, "executor", name)

    def bench(self, name: str) -> Registered[str]:
        return _lookup(self.benches, "bench", name, "benches")

    def study(self, name: str) -> Registered[Study]:
        return _lookup(self.studies, "study", name, "studies")

    def reference_tables(self) -> list[ReferenceTable]:
        return [found.spec for found in self.references.values()]

    def metric_specs(self) -> list[MetricSpec]:
        return [found.spec for found in self.metrics.values()]

    def models_in(self, role: str) -> list[str]:
        return [name for name, found in self.models.items() if found.spec.role == role]

    def titles(self) -> dict[str, str]:
        """How models and tasks are written. Models of printed tables come first, so that figures give them the first
        colours; a model that is installed says itself how it is written."""
        titles = printed_titles(self.reference_tables())
        titles |= {name: found.spec.title for name, found in self.models.items()}
        titles |= {name: found.spec.title for name, found in self.tasks.items()}
        return titles

    def families(self) -> dict[str, str]:
        """Tasks and the families that they belong to (`TaskSpec.family`)."""
        return {name: found.spec.family for name, found in self.tasks.items()}

    def notify_finished(self, record: Any) -> list[BrokenPlugin]:
        """Tell trackers about a record; a tracker that raises is reported, and the others are still told."""
        failures = []
        for implementation in self.manager.hook.pdebench_hss_trial_finished.get_hookimpls():
            origin = self.origins[implementation.plugin_name]
            try:
                # The libraries of trackers tell their own processes things by variables of theirs.
                with contained(_name_of(origin), may_extend_environment=True):
                    implementation.function(*[record][: len(implementation.argnames)])
            except Exception as error:
                failures.append(_broken(origin, "pdebench_hss_trial_finished", error))
        return failures


def load_reference(kind: str, name: str, found: Registered[str]) -> Any:
    """What an executor's or a bench's reference names; if it can't be imported, the error is one line."""
    try:
        with contained(_name_of(found.origin), may_extend_environment=True):
            return resolve(found.spec)
    except Exception as error:
        raise PluginError(f"{kind} {name!r}: {_broken(found.origin, found.spec, error)}") from error


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
    for entry_point, origin in sorted(_installed(), key=_turn):
        _load(registry, origin, entry_point.load)
    add_files(registry, plugin_files)
    add_arrays(registry)
    if strict and registry.broken:
        raise PluginError("; ".join(map(str, registry.broken)) + "  (--strict-plugins)")
    return registry


def _installed() -> Iterator[tuple[EntryPoint, Origin]]:
    """Entry points and where they come from. The metadata of a distribution are read once, not for each of its own."""
    known: dict[int, tuple[str, str]] = {}
    for entry_point in entry_points(group=GROUP):
        dist = entry_point.dist
        if dist is not None and id(dist) not in known:
            metadata = dist.metadata
            known[id(dist)] = metadata["Name"], metadata["Version"]
        name, version = known[id(dist)] if dist is not None else ("unknown", "0")
        yield entry_point, Origin(name, version, entry_point.name, module=entry_point.module)


def _turn(found: tuple[EntryPoint, Origin]) -> tuple[bool, str, str]:
    """By name, the built-in ones first: so no other plugin takes a dataset's name from a built-in task."""
    entry_point, origin = found
    return origin.distribution != BUILT_IN, origin.distribution, entry_point.name


def add_files(registry: Registry, plugin_files: Sequence[str | Path]) -> None:
    for path in plugin_files:
        if is_task_file(path):
            origin, spec = _task_file(Path(path))
            _add(registry.tasks, "task", spec.name, spec, origin)
        else:
            origin, load = _file_plugin(Path(path))
            _load(registry, origin, load)


def add_arrays(registry: Registry) -> None:
    """The arrays that were added to the cache. A file with the same task goes before them; a plugin sets them aside."""
    for path in sorted(arrays_dir().glob(TASK_FILES)):
        taken = registry.tasks.get(path.parent.name)
        origin = Origin(ARRAYS, path.parent.name, path.parent.name, str(path))
        try:
            if taken is None:
                origin, spec = _task_file(path, ARRAYS)
                registry.tasks[spec.name] = Registered(spec, origin)
            elif not is_task_file(taken.origin.file):
                raise UsageError(f"{taken.origin} has a task of that name; pdebench-hss data remove {path.parent.name}")
        except Exception as error:
            registry.broken.append(_broken(origin, "task.yaml", error))


def _task_file(path: Path, what: str = "") -> tuple[Origin, TaskSpec]:
    """A task from a file of arrays; its version is that of its content."""
    task = read_task_file(path)
    version = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    return Origin(what or path.name, version, task.name, str(path.resolve())), spec_of(task)


@dataclass
class _Found:
    """What one plugin's hooks returned, checked."""

    stage: str = "import"
    models: Sequence[ModelSpec] = ()
    tasks: Sequence[TaskSpec] = ()
    metrics: Sequence[MetricSpec] = ()
    studies: Sequence[Study] = ()
    references: Sequence[ReferenceTable] = ()
    executors: Mapping[str, str] = field(default_factory=dict)
    benches: Mapping[str, str] = field(default_factory=dict)
    device_checks: Mapping[str, str] = field(default_factory=dict)

    def named(self) -> Iterator[tuple[str, str, str, Any]]:
        """Table, kind in words, name, spec."""
        kinds = {"models": "model", "tasks": "task", "metrics": "metric", "studies": "study"}
        for table, kind in {**kinds, "references": "reference table"}.items():
            yield from ((table, kind, spec.name, spec) for spec in getattr(self, table))
        for table, kind in (("executors", "executor"), ("benches", "bench"), ("device_checks", "device check")):
            yield from ((table, kind, name, reference) for name, reference in getattr(self, table).items())


def _load(registry: Registry, origin: Origin, load: Callable[[], Any]) -> None:
    """Import one plugin and take what its hooks return; all or nothing."""
    found, plugin = _Found(), None
    try:
        if _name_of(origin) in os.environ.get(HUNG_VARIABLE, "").split(";"):
            raise Misbehaved("did not end in time before; it is not tried again")
        with _around(origin):
            plugin = load()
        _ask_all(registry, origin, plugin, found)
    except Exception as error:
        if plugin is not None and registry.manager.is_registered(plugin):
            registry.manager.unregister(plugin)
        registry.broken.append(_broken(origin, found.stage, error))
        if isinstance(error.__cause__, TookTooLong):  # processes started from here need not wait for it again
            os.environ[HUNG_VARIABLE] = ";".join([*filter(None, [os.environ.get(HUNG_VARIABLE)]), _name_of(origin)])
        return
    registry.plugins.append(origin)
    for table, kind, name, spec in found.named():
        if kind == "task" and (reason := clash(spec, origin, registry.tasks.values())):
            registry.broken.append(BrokenPlugin(origin, "pdebench_hss_tasks", reason, ""))
            continue
        _add(getattr(registry, table), kind, name, spec, origin)


def _around(origin: Origin) -> AbstractContextManager[None]:
    """The guard of plugins' code. Our own needs none, and every command and worker loads two dozen plugins of ours."""
    return nullcontext() if origin.distribution == BUILT_IN and not origin.file else contained(_name_of(origin))


def _ask_all(registry: Registry, origin: Origin, plugin: Any, found: _Found) -> None:
    found.stage = "its hooks"
    with _around(origin):
        name = registry.manager.register(plugin, name=_name_of(origin))
        registry.origins[name or ""] = origin
        registry.manager.check_pending()
    checks: dict[str, Callable[[str, Any], Any]] = {
        "models": partial(_specs, ModelSpec),
        "tasks": partial(_specs, TaskSpec),
        "metrics": partial(_specs, MetricSpec),
        "studies": partial(_specs, Study),
        "references": partial(_specs, ReferenceTable),
        "executors": _references,
        "benches": _references,
        "device_checks": _references,
    }
    for table, check in checks.items():
        found.stage = hook = f"pdebench_hss_{table}"
        for implementation in getattr(registry.manager.hook, hook).get_hookimpls():
            if implementation.plugin is plugin:
                with _around(origin):
                    setattr(found, table, check(hook, implementation.function()))


def _add(table: dict[str, Registered[Any]], kind: str, name: str, spec: Any, origin: Origin) -> None:
    if name in table:
        first = table[name].origin
        raise PluginError(
            f"two plugins provide a {kind} named {name!r}: {first} (entry point {first.entry_point!r}) and "
            f"{origin} (entry point {origin.entry_point!r}). Rename one or uninstall one of the two."
        )
    table[name] = Registered(spec, origin)


def _specs(kind: type[Spec], hook: str, answer: Any) -> Sequence[Spec]:
    if answer is None:
        return ()
    if not isinstance(answer, (list, tuple)):
        raise TypeError(f"{hook} must return a list, not {type(answer).__name__}")
    for spec in answer:
        if not isinstance(spec, kind):
            raise TypeError(f"{hook} must return a list of {kind.__name__}, found {type(spec).__name__}")
    names = [spec.name for spec in answer]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{hook} returns {name!r} {names.count(name)} times")
    return tuple(answer)


def _references(hook: str, answer: Any) -> Mapping[str, str]:
    if answer is None:
        return {}
    if not isinstance(answer, dict):
        raise TypeError(f"{hook} must return a dict of names and 'module:attribute', not {type(answer).__name__}")
    for name, reference in answer.items():
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise ValueError(f"{hook}: {name!r} is not a valid name (lower-case letters, digits and _)")
        check_reference(reference, f"{hook} {name!r}", "its value")
        if not isinstance(reference, str):
            raise TypeError(f"{hook} {name!r}: its value must be 'module:attribute', not {type(reference).__name__}")
    return dict(answer)


def _broken(origin: Origin, stage: str, error: Exception) -> BrokenPlugin:
    complete = isinstance(error, (Misbehaved, PdebenchError))
    reason = str(error) if complete else f"{type(error).__name__}: {_message(error)}"
    return BrokenPlugin(origin, stage, one_line(reason), "".join(traceback.format_exception(error)))


def _message(error: Exception) -> str:
    try:
        return str(error)
    except Exception as second:  # an exception of the plugin's own that can't even be printed
        return f"(its message raised {type(second).__name__})"


def one_line(text: str, limit: int = 500) -> str:
    """The first line, without terminal control sequences."""
    first = (text.strip().splitlines() or [""])[0]
    return "".join(c if c.isprintable() else "?" for c in first)[:limit]


def _name_of(origin: Origin) -> str:
    return f"plugin {origin.entry_point!r} ({origin})"


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
        before = sys.modules.get(path.stem)
        sys.modules[path.stem] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            if before is None:
                del sys.modules[path.stem]
            else:
                sys.modules[path.stem] = before
            raise
        return module

    return Origin(os.fspath(path.name), version, path.stem, str(path.resolve())), load
