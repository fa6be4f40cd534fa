"""``list`` and ``show``: what there is. Neither torch nor scipy is imported here."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..errors import UsageError, did_you_mean
from ..model import ModelSpec
from ..plugins import Registry, load_registry
from ..task import TaskSpec
from .output import Format, FormatOption, PluginOption, StrictOption, print_rows, warn_broken

app = typer.Typer(
    help="List models, tasks, plugins or executors.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def _registry(plugins: list[str] | None, strict: bool | None) -> Registry:
    registry = load_registry(plugins or (), strict=bool(strict))
    warn_broken(registry)
    return registry


@app.command()
def models(form: FormatOption = Format.table, plugin: PluginOption = None, strict: StrictOption = None) -> None:
    """The models that are installed."""
    rows = [
        {
            "model": name,
            "title": found.spec.title,
            "kind": "training-free" if found.spec.training_free else "trained",
            "size knob": found.spec.size_knob,
            "version": found.spec.version,
            "from": str(found.origin),
        }
        for name, found in sorted(_registry(plugin, strict).models.items())
    ]
    print_rows(rows, ["model", "title", "kind", "size knob", "version", "from"], form)


@app.command()
def tasks(form: FormatOption = Format.table, plugin: PluginOption = None, strict: StrictOption = None) -> None:
    """The tasks that are installed."""
    rows = [
        {
            "task": name,
            "title": found.spec.title,
            "dim": found.spec.dim,
            "kind": "rollout" if found.spec.rollout else "steady",
            "linear": "yes" if found.spec.linear else "no",
            "metric": found.spec.metric,
            "scales": " ".join(f"{s}:{'x'.join(map(str, size.grid))}" for s, size in found.spec.scales.items()),
            "from": str(found.origin),
        }
        for name, found in sorted(_registry(plugin, strict).tasks.items())
    ]
    print_rows(rows, ["task", "title", "dim", "kind", "linear", "metric", "scales", "from"], form)


@app.command()
def plugins(form: FormatOption = Format.table, plugin: PluginOption = None, strict: StrictOption = None) -> None:
    """The plugins that were found, and what is wrong with those that are broken."""
    registry = load_registry(plugin or (), strict=bool(strict))
    rows = [
        {"plugin": o.entry_point, "distribution": o.distribution, "version": o.version, "status": "ok"}
        for o in registry.plugins
    ] + [
        {
            "plugin": b.origin.entry_point,
            "distribution": b.origin.distribution,
            "version": b.origin.version,
            "status": f"broken in {b.stage}: {b.reason}",
        }
        for b in registry.broken
    ]
    print_rows(rows, ["plugin", "distribution", "version", "status"], form)


@app.command()
def executors(form: FormatOption = Format.table, plugin: PluginOption = None, strict: StrictOption = None) -> None:
    """Where trials can run."""
    registry = _registry(plugin, strict)
    rows = [{"executor": name, "from": str(found.origin)} for name, found in sorted(registry.executors.items())]
    print_rows(rows, ["executor", "from"], form)


def show(
    name: Annotated[str, typer.Argument(help="A model or a task.")],
    form: FormatOption = Format.table,
    plugin: PluginOption = None,
    strict: StrictOption = None,
) -> None:
    """Everything about one model or task.

    Example:  pdebench-hss show poisson_1d
    """
    registry = _registry(plugin, strict)
    if name in registry.models:
        found_model = registry.models[name]
        rows = _model_rows(found_model.spec, registry, str(found_model.origin))
    elif name in registry.tasks:
        found_task = registry.tasks[name]
        rows = _task_rows(found_task.spec, registry, str(found_task.origin))
    else:
        hint = did_you_mean(name, [*registry.models, *registry.tasks])
        raise UsageError(f"no model or task {name!r}.{hint}  See: pdebench-hss list models, pdebench-hss list tasks")
    print_rows(rows, ["what", "value"], form)


def _rows(pairs: list[tuple[str, Any]]) -> list[dict[str, Any]]:
    return [{"what": what, "value": value} for what, value in pairs if value not in (None, "")]


def _model_rows(spec: ModelSpec, registry: Registry, origin: str) -> list[dict[str, Any]]:
    pairs: list[tuple[str, Any]] = [
        ("model", spec.name),
        ("title", spec.title),
        ("description", spec.description),
        ("version", spec.version),
        ("from", origin),
        ("kind", "training-free" if spec.training_free else "trained by the core"),
        ("size knob", spec.size_knob),
        ("citation", spec.citation),
    ]
    for task_name, task in sorted(registry.tasks.items()):
        for scale in task.spec.scales:
            info = task.spec.info(scale)
            reason = spec.unsupported(info)
            settings = f"– {reason}" if reason else _spell(spec.hparams_for(info))
            pairs.append((f"{task_name} ({scale})", settings))
    return _rows(pairs)


def _task_rows(spec: TaskSpec, registry: Registry, origin: str) -> list[dict[str, Any]]:
    pairs: list[tuple[str, Any]] = [
        ("task", spec.name),
        ("title", spec.title),
        ("equation", spec.equation),
        ("description", spec.description),
        ("from", origin),
        ("dataset", f"{spec.dataset}, data version {spec.data_version}"),
        ("domain", " x ".join(f"[{low:g}, {high:g}]" for low, high in spec.domain)),
        ("boundary", spec.boundary),
        ("channels", f"{spec.in_channels} in, {spec.out_channels} out"),
        ("kind", "rollout (residual learning)" if spec.rollout else "steady"),
        ("linear", "yes" if spec.linear else "no"),
        ("normalisation", spec.normalization),
        ("metric", spec.metric),
        ("parameters", _spell(spec.params)),
        ("coarse levels", spec.coarse_levels),
        ("citation", spec.citation),
    ]
    for name, size in spec.scales.items():
        recipe = size.recipe
        grid = "x".join(map(str, size.grid))
        steps = f", {size.steps} steps" if spec.rollout else ""
        pairs.append((f"scale {name}", f"{grid}{steps}, {size.train} train / {size.test} test"))
        pairs.append(
            (
                f"recipe {name}",
                f"{recipe.budget}, batch {recipe.batch}, lr {recipe.lr:g} to {recipe.lr_min:g}, "
                f"weight decay {recipe.weight_decay:g}",
            )
        )
    info = spec.info(next(iter(spec.scales)))
    able = [name for name, model in sorted(registry.models.items()) if model.spec.unsupported(info) is None]
    pairs.append(("models", ", ".join(able)))
    return _rows(pairs)


def _spell(options: Any) -> str:
    return ", ".join(f"{key}={value}" for key, value in dict(options).items()) or "none"
