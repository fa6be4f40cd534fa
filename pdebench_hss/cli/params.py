"""``params``: how large each model is on each task, without allocating it, next to what is printed."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..contract.reference_table import printed
from ..contract.selection import Choice, check_options
from .output import Format, FormatOption, PluginOption, StrictOption, installed, print_rows

COLUMNS = ["task", "model", "params_real", "params_numel", "paper_params", "deviation"]


def params(
    models: Annotated[str, typer.Option(help="Models: names, globs, name[key=value], or all.")] = "all",
    tasks: Annotated[str, typer.Option(help="Tasks, likewise.")] = "all",
    scale: Annotated[str, typer.Option(help="smoke, small, medium or paper.")] = "paper",
    form: FormatOption = Format.table,
    plugin: PluginOption = None,
    strict: StrictOption = None,
) -> None:
    """Parameter counts of models on tasks: real degrees of freedom (complex = 2), entries, and the paper's.

    Nothing is allocated or trained (torch's meta device). The deviation is against whichever of the two counts is
    closer to the paper's, which does not say how it counts.

    Example:  pdebench-hss params --scale paper --format csv
    """
    registry = installed(plugin, strict=strict)
    rows = []
    for task in registry.choose_tasks(tasks):
        for model in registry.choose_models(models):
            rows += _row(registry, task, model, scale)
    print_rows(rows, COLUMNS, form)


def _row(registry: Any, task_choice: Choice, model_choice: Choice, scale: str) -> list[dict[str, Any]]:
    from ..training.parameters import count_on_meta

    task, model = registry.task(task_choice.name).spec, registry.model(model_choice.name).spec
    if scale not in task.scales:
        return []
    task, params = task.with_options(task_choice.options)
    info = task.info(scale, params)
    if model.unsupported(info):
        return []
    hparams = model.hparams_for(info)
    hparams |= check_options(model_choice.options, hparams, f"model {model.name!r}")
    count = count_on_meta(model, info, hparams)
    cell = printed(registry.reference_tables(), task.name, model.name) if scale == "paper" else None
    paper = cell.param_count if cell else None
    deviation = None
    if paper and count.numel:
        closest = min((count.real, count.numel), key=lambda value: abs(value - paper))
        deviation = f"{100 * (closest / paper - 1):+.1f} %"
    return [
        {
            "task": task_choice.label,
            "model": model_choice.label,
            "params_real": count.real,
            "params_numel": count.numel,
            "paper_params": cell.params if cell and cell.params else None,
            "deviation": deviation,
        }
    ]
