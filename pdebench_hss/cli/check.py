"""``check``: does a model or a task keep the contract?"""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Annotated, Any

import typer

from ..base.plain_text import visible
from ..contract.selection import choose_any
from .output import Format, FormatOption, PluginOption, StrictOption, installed, print_rows, warn


def check(
    names: Annotated[str, typer.Argument(metavar="NAME", help="A model, a task, a glob or all.")],
    tasks: Annotated[str, typer.Option(help="Models: only on these tasks.")] = "*",
    data_dir: Annotated[
        str | None, typer.Option(help="Tasks with a reader: try it on the files in this directory.")
    ] = None,
    form: FormatOption = Format.table,
    plugin: PluginOption = None,
    strict: StrictOption = None,
) -> None:
    """Check a model on every task it supports (shapes, gradients, determinism, honesty), or a task (its samples).

    Exit 1 if a promise is broken. The same suite is in pdebench_hss.testing for your own tests.

    \b
    pdebench-hss check my_solver
    pdebench-hss check my_files --data-dir files
    """
    from ..testing.tasks import task_cases

    registry = installed(plugin, strict=strict)
    models, own_tasks = choose_any(names, registry.models, registry.tasks)
    quiet = form is not Format.table
    rows: list[dict[str, Any]] = []
    for task in own_tasks:
        rows += _check(task, "", task_cases(task, registry, data_dir), quiet)
    for model in models:
        from ..testing.models import cases

        found = cases(model, registry, tasks)
        for line in found[0].misnamed():
            warn(f"model {model!r}: {line}")
        rows += _check(model, model, found, quiet)
    if form is not Format.table:
        print_rows(rows, ["model", "task", "promise", "status", "message"], form)
    broken = [row for row in rows if row["status"] != "ok"]
    if broken:
        raise typer.Exit(1)


def _check(name: str, model: str, cases: Sequence[Any], quiet: bool) -> list[dict[str, Any]]:
    """Check every promise of one name; report each broken one as it is found, and how many were kept."""
    from .display import counting_bar

    start, rows = time.perf_counter(), []
    with nullcontext(lambda done, total: None) if quiet else counting_bar(f"check {name}") as tell:
        for done, case in enumerate(cases):
            tell(done, len(cases))
            status, message = _outcome(case)
            task = case.task.name
            rows.append({"model": model, "task": task, "promise": case.name, "status": status, "message": message})
            if status != "ok" and not quiet:
                message = visible(message, keep="\n")
                print(f"✗ {name}{f' on {task}' if model else ''}: {case.name}: {message}")
    if not quiet:
        kept = sum(row["status"] == "ok" for row in rows)
        mark = "✓" if kept == len(rows) else "✗"
        tasks = len({row["task"] for row in rows})
        on = f" on {tasks} task{'s' * (tasks != 1)}" if model else ""
        print(f"{mark} {name}: {kept} of {len(rows)} promises kept{on}   {time.perf_counter() - start:.1f} s")
    return rows


def _outcome(case: Any) -> tuple[str, str]:
    try:
        case.run()
    except AssertionError as error:
        return "broken", str(error)
    except Exception as error:
        return "error", traceback.format_exception_only(error)[-1].strip()
    return "ok", ""
