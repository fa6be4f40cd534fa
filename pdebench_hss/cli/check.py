"""``check``: does a model keep the contract?"""

from __future__ import annotations

import time
import traceback
from typing import Annotated, Any

import typer

from ..plugins import load_registry
from ..selection import choose
from .output import Format, FormatOption, PluginOption, StrictOption, print_rows, warn_broken


def check(
    names: Annotated[str, typer.Argument(metavar="NAME", help="A model, a glob or all.")],
    tasks: Annotated[str, typer.Option(help="Only on these tasks.")] = "*",
    form: FormatOption = Format.table,
    plugin: PluginOption = None,
    strict: StrictOption = None,
) -> None:
    """Check a model against the contract on every task it supports: shapes, gradients, determinism, honesty.

    Exit 1 if a promise is broken. The same suite is in pdebench_hss.testing for your own tests.

    Example:  pdebench-hss check my_solver
    """
    registry = load_registry(plugin or (), strict=bool(strict))
    warn_broken(registry)
    rows: list[dict[str, Any]] = []
    for choice in choose(names, registry.models, "model"):
        rows += _check(choice.name, registry, tasks, quiet=form is not Format.table)
    if form is not Format.table:
        print_rows(rows, ["model", "task", "promise", "status", "message"], form)
    broken = [row for row in rows if row["status"] != "ok"]
    if broken:
        raise typer.Exit(1)


def _check(name: str, registry: Any, tasks: str, quiet: bool) -> list[dict[str, Any]]:
    from ..testing import cases

    start, rows = time.perf_counter(), []
    for case in cases(name, registry, tasks):
        status, message = "ok", ""
        try:
            case.run()
        except AssertionError as error:
            status, message = "broken", str(error)
        except Exception as error:
            status, message = "error", traceback.format_exception_only(error)[-1].strip()
        rows.append({"model": name, "task": case.task.name, "promise": case.name, "status": status, "message": message})
        if status != "ok" and not quiet:
            print(f"✗ {name} on {case.task.name}: {case.name}: {message}")
    if not quiet:
        kept = sum(row["status"] == "ok" for row in rows)
        mark = "✓" if kept == len(rows) else "✗"
        on = len({row["task"] for row in rows})
        print(f"{mark} {name}: {kept} of {len(rows)} promises kept on {on} tasks   {time.perf_counter() - start:.1f} s")
    return rows
