"""``list``: what there is. Neither torch nor scipy is imported here."""

from __future__ import annotations

import typer

from ..contract.registry import load_registry
from .output import Format, FormatOption, PluginOption, StrictOption, installed, print_rows

app = typer.Typer(
    help="List models, tasks, metrics, studies, references, plugins, executors or benches.",
    short_help="List models, tasks, metrics, studies, plugins and more.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


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
        for name, found in sorted(installed(plugin, strict=strict).models.items())
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
        for name, found in sorted(installed(plugin, strict=strict).tasks.items())
    ]
    print_rows(
        rows, ["task", "title", "dim", "kind", "linear", "metric", "scales", "from"], form, optional=["title", "scales"]
    )


@app.command()
def metrics(form: FormatOption = Format.table, plugin: PluginOption = None, strict: StrictOption = None) -> None:
    """The metrics that are recorded for every trial they make sense for."""
    rows = [
        {
            "metric": name,
            "title": found.spec.title,
            "better": found.spec.direction,
            "unit": found.spec.unit,
            "needs": " ".join(found.spec.needs),
            "from": str(found.origin),
        }
        for name, found in installed(plugin, strict=strict).metrics.items()
    ]
    print_rows(rows, ["metric", "title", "better", "unit", "needs", "from"], form)


@app.command()
def studies(form: FormatOption = Format.table, plugin: PluginOption = None, strict: StrictOption = None) -> None:
    """The studies that are installed: named sets of trials, each with its figure."""
    rows = [
        {
            "study": name,
            "title": found.spec.title,
            "paper": found.spec.paper,
            "scales": " ".join(found.spec.scales),
            "from": str(found.origin),
        }
        for name, found in sorted(installed(plugin, strict=strict).studies.items())
    ]
    print_rows(rows, ["study", "title", "paper", "scales", "from"], form)


@app.command()
def references(form: FormatOption = Format.table, plugin: PluginOption = None, strict: StrictOption = None) -> None:
    """The printed tables that stand beside ours on a board."""
    rows = [
        {
            "reference": name,
            "source": found.spec.source,
            "title": found.spec.title,
            "rows": len(found.spec.rows),
            "models": " ".join(found.spec.models),
            "from": str(found.origin),
        }
        for name, found in sorted(installed(plugin, strict=strict).references.items())
    ]
    print_rows(rows, ["reference", "source", "title", "rows", "models", "from"], form)


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
    registry = installed(plugin, strict=strict)
    rows = [{"executor": name, "from": str(found.origin)} for name, found in sorted(registry.executors.items())]
    print_rows(rows, ["executor", "from"], form)


@app.command()
def benches(form: FormatOption = Format.table, plugin: PluginOption = None, strict: StrictOption = None) -> None:
    """Benchmarks of time and memory."""
    registry = installed(plugin, strict=strict)
    rows = [{"bench": name, "from": str(found.origin)} for name, found in sorted(registry.benches.items())]
    print_rows(rows, ["bench", "from"], form)
