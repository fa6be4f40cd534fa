"""``show``: everything about one model, task, metric or study. Torch is imported only for ``--params``."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from ..base.errors import UsageError, did_you_mean
from ..contract.citations import in_words
from ..contract.metric import MetricSpec
from ..contract.model import ModelSpec
from ..contract.registry import Registered, Registry
from ..contract.search import Space
from ..contract.study import Study
from ..contract.task import SCALES, TaskInfo, TaskSpec
from ..contract.traits import kind_of, outline
from .output import Format, FormatOption, PluginOption, StrictOption, installed, print_rows

Facts = list[tuple[str, Any]]


def show(
    name: Annotated[str, typer.Argument(help="A model, a task, a metric or a study.")],
    params: Annotated[bool, typer.Option("--params", help="Also count parameters (imports torch).")] = False,
    form: FormatOption = Format.table,
    plugin: PluginOption = None,
    strict: StrictOption = None,
) -> None:
    """Everything about one model, task, metric or study: equation, hyper-parameters, who can do what, citation, origin.

    Example:  pdebench-hss show poisson_1d --params
    """
    registry = installed(plugin, strict=strict)
    if name in registry.models:
        facts = _model_facts(registry.models[name], registry)
    elif name in registry.tasks:
        facts = _task_facts(registry.tasks[name], registry)
    elif name in registry.metrics:
        facts = _metric_facts(registry.metrics[name], registry)
    elif name in registry.studies:
        facts = _study_facts(registry.studies[name])
    else:
        known = ("models", "tasks", "metrics", "studies")
        hint = did_you_mean(name, [found for kind in known for found in getattr(registry, kind)])
        see = ", ".join(f"pdebench-hss list {kind}" for kind in known)
        raise UsageError(f"no model, task, metric or study {name!r}.{hint}  See: {see}")
    if params and (name in registry.models or name in registry.tasks):
        facts += _count_facts(name, registry)
    _print(facts, form)


def _print(facts: Facts, form: Format) -> None:
    """Long values are broken to the width of the terminal, in the table for people only."""
    rows = [{"what": what, "value": value} for what, value in facts if value not in (None, "")]
    if form is not Format.table:
        print_rows(rows, ["what", "value"], form)
        return
    from tabulate import tabulate

    from ..base.plain_text import visible

    room = shutil.get_terminal_size((120, 24)).columns - max(len(row["what"]) for row in rows) - 2
    cells = [[visible(row["what"]), visible(row["value"], keep="\n")] for row in rows]
    print(tabulate(cells, tablefmt="plain", maxcolwidths=[None, max(room, 40)], disable_numparse=True))


def _metric_facts(found: Registered[MetricSpec], registry: Registry) -> Facts:
    metric = found.spec
    facts: Facts = [
        ("metric", metric.name),
        ("title", metric.title),
        ("formula", f"{metric.formula}  (p: prediction, t: target, points inside the domain)"),
        ("better", metric.direction),
        (
            "unit",
            {"1": "none", "field": "that of the field", "field^2": "that of the field, squared"}.get(
                metric.unit, metric.unit
            ),
        ),
        ("no value", metric.undefined),
        ("source", metric.source),
        ("from", f"{found.origin} (entry point {found.origin.entry_point})"),
    ]
    reasons: dict[str, list[str]] = {}
    for name, task in sorted(registry.tasks.items()):
        reasons.setdefault(metric.unsupported(task.spec), []).append(name)
    every = len(reasons) == 1 and "" in reasons
    facts.append(("recorded on", "all tasks" if every else ", ".join(reasons.pop("", []))))
    facts += [("not on", f"{', '.join(names)}: {reason}") for reason, names in reasons.items() if reason]
    return [*facts, ("rank by it", f"pdebench-hss leaderboard BOARD --metric {metric.name}")]


def _study_facts(found: Registered[Study]) -> Facts:
    study = found.spec
    facts: Facts = [
        ("study", study.name),
        ("title", study.title),
        ("description", study.description),
        ("paper", study.paper),
        ("seeds", study.seeds),
        ("figure", _spell(study.figure)),
        ("from", str(found.origin)),
    ]
    for scale, sweeps in study.scales.items():
        runs = [experiment for sweep in sweeps for experiment in sweep.experiments()]
        trials = sum(len(run["models"]) * len(run["tasks"]) for run in runs) * study.seeds
        sizes = sorted({run["train_size"] for run in runs if run["train_size"]})
        facts += [
            (f"tasks at {scale}", ", ".join(dict.fromkeys(task for run in runs for task in run["tasks"]))),
            (f"models at {scale}", ", ".join(dict.fromkeys(model for run in runs for model in run["models"]))),
            (f"train sizes at {scale}", ", ".join(map(str, sizes))),
            (f"trials at {scale}", trials),
        ]
    return [*facts, ("run it", f"pdebench-hss study {study.name} --dry-run")]


def _model_facts(found: Registered[ModelSpec], registry: Registry) -> Facts:
    spec = found.spec
    facts: Facts = [
        ("model", spec.name),
        ("title", spec.title),
        ("description", spec.description),
        ("kind", "training-free" if spec.training_free else _kind(spec)),
        ("size knob", spec.size_knob),
        ("version", spec.version),
        *_source(found, spec.name, spec.citation),
    ]
    settings: dict[tuple[str, str], list[str]] = {}
    for info in _infos(registry):
        reason = spec.unsupported(info)
        said = ("can't do", reason) if reason else (f"at {info.scale}", _spell(spec.hparams_for(info)))
        settings.setdefault(said, []).append(info.name)
        if not reason and not spec.training_free:
            settings.setdefault((f"tuned at {info.scale}", _spell_space(spec.search_for(info))), []).append(info.name)
    every = len(registry.tasks)
    for (what, value), tasks in sorted(settings.items(), key=lambda item: _order(item[0][0])):
        names = sorted(set(tasks))
        facts.append((what, f"{value}:  {'all tasks' if len(names) == every else ', '.join(names)}"))
    return facts


def _kind(spec: ModelSpec) -> str:
    """Who trains it, and what it brings along for that: read off its source where that is enough, without torch."""
    found = outline(spec.build) or spec.model_class()
    return kind_of(found) if found is not None else "trained by the core, or by itself: its build is a function"


def _files(spec: TaskSpec) -> str | None:
    if not spec.read:
        return None
    return f"read from {spec.files}" if spec.files else f"read with --data-dir{'' if spec.generate else ' (needed)'}"


def _task_facts(found: Registered[TaskSpec], registry: Registry) -> Facts:
    spec = found.spec
    facts: Facts = [
        ("task", spec.name),
        ("title", spec.title),
        ("equation", spec.equation),
        ("description", spec.description),
        ("kind", "rollout (a model learns the residual of one step)" if spec.rollout else "steady"),
        ("history", f"{spec.history} frames" if spec.history > 1 else None),
        ("linear", "yes" if spec.linear else "no"),
        ("domain", " x ".join(f"[{low:g}, {high:g}]" for low, high in spec.domain)),
        ("boundary", spec.boundary),
        ("channels", f"{spec.in_channels} in, {spec.out_channels} out"),
        ("normalisation", spec.normalization),
        ("metric", spec.metric),
        ("residual", "of its equation, recorded for predictions and data" if spec.residual else None),
        ("parameters", _spell(spec.params)),
        ("dataset", f"{spec.dataset}, data version {spec.data_version}, {spec.dtype}"),
        ("public files", _files(spec)),
        ("coarse solver", f"levels 0 to {spec.coarse_levels}" if spec.coarse else None),
        *_source(found, spec.name, spec.citation),
    ]
    for name, size in spec.scales.items():
        recipe = size.recipe
        steps = f", {size.steps} steps" if spec.rollout else ""
        facts.append((f"at {name}", f"{'x'.join(map(str, size.grid))}{steps}, {size.train} train / {size.test} test"))
        rates = f"lr {recipe.lr:g} to {recipe.lr_min:g}, weight decay {recipe.weight_decay:g}"
        window = f", unrolled over {recipe.unroll} steps" if recipe.unroll > 1 else ""
        facts.append((f"recipe at {name}", f"{recipe.budget}, batch {recipe.batch}, {rates}{window}"))
    info = spec.info(next(iter(spec.scales)))
    reasons = {name: model.spec.unsupported(info) for name, model in sorted(registry.models.items())}
    facts.append(("models", ", ".join(name for name, reason in reasons.items() if reason is None)))
    facts += [("can't do", f"{name}: {reason}") for name, reason in reasons.items() if reason]
    return facts


def _source(found: Registered[Any], name: str, citation: str) -> Facts:
    bibtex = f"  (BibTeX: pdebench-hss cite {name})" if citation else ""
    return [
        ("from", f"{found.origin} (entry point {found.origin.entry_point})"),
        ("cite", in_words(citation) + bibtex),
    ]


def _infos(registry: Registry) -> Iterable[TaskInfo]:
    """Every task at every scale it has."""
    for _, task in sorted(registry.tasks.items()):
        for scale in task.spec.scales:
            yield task.spec.info(scale)


def _count_facts(name: str, registry: Registry) -> Facts:
    """Parameters on every task and scale (of a model), or of every model (on a task)."""
    from ..training.parameters import count_on_meta

    models = [registry.models[name]] if name in registry.models else [m for _, m in sorted(registry.models.items())]
    facts: Facts = []
    for info in _infos(registry):
        for model in models:
            asked = name in (model.spec.name, info.name)
            if not asked or model.spec.unsupported(info) or model.spec.training_free:
                continue
            count = count_on_meta(model.spec, info, model.spec.hparams_for(info))
            complex_ = f" ({count.numel:,} entries, some complex)" if count.numel != count.real else ""
            other = info.name if name in registry.models else model.spec.name
            facts.append((f"parameters at {info.scale}", f"{count.real:>12,}  {other}{complex_}"))
    return sorted(facts, key=lambda fact: _order(fact[0].removeprefix("parameters ")))


def _order(what: str) -> int:
    known = [f"{kind}at {scale}" for kind in ("", "tuned ") for scale in SCALES]
    return known.index(what) if what in known else len(known)


def _spell_space(space: Space) -> str:
    return ", ".join(f"{name} {found}" for name, found in space.items())


def _spell(options: Any) -> str:
    return ", ".join(f"{key}={value}" for key, value in dict(options).items()) or "none"
