"""``cite``: BibTeX for what a run used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..base.errors import UsageError
from ..base.plain_text import visible
from ..contract.citations import SOFTWARE, bibliography
from ..contract.registry import Registry, load_registry
from ..contract.selection import choose_any
from ..trials.status import Status
from ..trials.store import Store
from .output import PluginOption

LATEST = Path("leaderboards/latest")


def cite(
    what: Annotated[
        list[str] | None,
        typer.Argument(metavar="[DIR | NAME...]", help="A results directory, or models and tasks, globs, all."),
    ] = None,
    plugin: PluginOption = None,
) -> None:
    """Print BibTeX for the models and tasks of a run (default: leaderboards/latest), or for the names given.

    Example:  pdebench-hss cite leaderboards/latest > used.bib
    """
    registry = load_registry(plugin or ())
    words = what or [str(LATEST)]
    if len(words) == 1 and (what is None or Path(words[0]).is_dir()):
        models, tasks = _used(Path(words[0]))
    else:
        models, tasks = choose_any(words, registry.models, registry.tasks)
    text = bibliography([("this program", SOFTWARE), *_citations(registry, models, tasks)])
    print(visible(text, keep="\n\t"), end="")


def _used(directory: Path) -> tuple[list[str], list[str]]:
    """Names of the models and tasks with a record in a results directory."""
    if not (directory / "records").is_dir():
        raise UsageError(f"{directory} holds no records; name a results directory, or models and tasks")
    trials = [record.trial for record in Store(directory).all() if record.status is not Status.SKIPPED]
    return sorted({trial.model for trial in trials}), sorted({trial.task for trial in trials})


def _citations(registry: Registry, models: list[str], tasks: list[str]) -> list[tuple[str, str]]:
    """What each name asks to be cited by; not known for a plugin that is no longer installed."""
    found = []
    for kind, names, known in (("model", models, registry.models), ("task", tasks, registry.tasks)):
        for name in names:
            gone = "its plugin is not installed here"
            found.append((f"{kind} {name}", known[name].spec.citation if name in known else gone))
    return found
