"""``verify``: check a board that somebody else made."""

from __future__ import annotations

import enum
import sys
from pathlib import Path
from typing import Annotated

import typer

from .output import PluginOption, installed

CONTRADICTION = 3


class Report(str, enum.Enum):
    markdown = "markdown"
    json = "json"


def verify(
    source: Annotated[Path, typer.Argument(metavar="BOARD", help="A directory that `run` or `merge` wrote.")],
    rerun: Annotated[
        str, typer.Option(help="Train a random sample of trials again: 5%, a number, all, or 0 for none.")
    ] = "0",
    data: Annotated[str, typer.Option(help="Make a random sample of data sets again: likewise.")] = "3",
    rescore: Annotated[
        bool, typer.Option("--rescore/--no-rescore", help="Score kept predictions, or else weights, again.")
    ] = True,
    seed: Annotated[
        int | None, typer.Option(help="Of the samples, to repeat them.  [default: a new one, which is stated]")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Data sets and scores side by side.", min=1)] = 1,
    report: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write verification.md and verification.json there.")
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Record in the board what was re-scored and re-run, and make its tables.")
    ] = False,
    form: Annotated[Report, typer.Option("--format", help="How to print the report.")] = Report.markdown,
    plugin: PluginOption = None,
) -> None:
    """Check a board: files and records against hashes, tables and data made again, scores computed again.

    With --rerun a stated random sample of trials is trained again: equal to the bit on the same machine with the same
    versions, else within what seeds give. Ends with a report of what was confirmed, what was not, and what could not be
    checked and why; exit 3 if something contradicts. Nothing in the board changes unless --write is given.

    \b
    pdebench-hss verify leaderboards/small-cpu
    pdebench-hss verify leaderboards/small-cpu --rerun 5% --data all --report reports
    """
    from ..base.plain_text import visible
    from ..boards.trust import read_checks, write_checks
    from ..boards.writing import write_board
    from ..use.choosing import open_board
    from ..use.verification import Verification, to_json, to_markdown, write_reports
    from ..use.verifying import Request, verify
    from .display import make_reporter

    def said(line: str) -> None:
        print(visible(line), file=sys.stderr)

    store, registry = open_board(source), installed(plugin)
    drawn = seed if seed is not None else int.from_bytes(_random_bytes(), "big")
    request = Request(data, rerun, rescore, drawn, jobs, tuple(plugin or ()), said)
    with make_reporter() as reporter:
        findings = verify(store, registry, request, reporter)
    found = Verification(source.resolve().name, findings, drawn)
    print(visible(to_json(found) if form is Report.json else to_markdown(found), keep="\n"), end="")
    if report is not None:
        print(f"wrote {' and '.join(map(str, write_reports(found, report)))}", file=sys.stderr)
    if write:
        write_checks(store.path, [*read_checks(store.path), *found.checks(store)])
        write_board(store, registry)
    if found.contradicted:
        raise typer.Exit(CONTRADICTION)


def _random_bytes() -> bytes:
    import os

    return os.urandom(4)
