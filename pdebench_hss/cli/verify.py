"""``verify``: check a board that somebody else made."""

from __future__ import annotations

import enum
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .output import PluginOption, installed

if TYPE_CHECKING:
    from ..use.verification import Verification

CONTRADICTION = 3


class Report(str, enum.Enum):
    markdown = "markdown"
    json = "json"


def verify(
    source: Annotated[Path, typer.Argument(metavar="BOARD", help="A directory that `run`, `merge` or `submit` wrote.")],
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
    pdebench-hss verify leaderboards/small-cpu --rerun 5% --data all \\
        --report reports
    """
    from ..base.plain_text import visible
    from ..boards.trust import read_checks, write_checks
    from ..boards.writing import write_board
    from ..trials.store import Store
    from ..use.submitting import board_in, other_boards
    from ..use.verification import to_json, to_markdown, write_reports

    others = other_boards(source) if board_in(source) != source else []
    found = verified(source, rerun, data, rescore, seed, jobs, plugin, others)
    print(visible(to_json(found) if form is Report.json else to_markdown(found), keep="\n"), end="")
    if report is not None:
        print(f"wrote {' and '.join(map(str, write_reports(found, report)))}", file=sys.stderr)
    if write:
        store = Store(board_in(source))
        write_checks(store.path, [*read_checks(store.path), *found.checks(store)])
        write_board(store, installed(plugin))
    if found.contradicted:
        raise typer.Exit(CONTRADICTION)


def verified(
    source: Path,
    rerun: str,
    data: str,
    rescore: bool,
    seed: int | None,
    jobs: int,
    plugin: list[str] | None,
    others: list[Path],
) -> Verification:
    """A board, or a submission with what else is wrong with it: its numbers are looked at only if nothing else is."""
    from ..boards import submissions
    from ..use.choosing import open_board
    from ..use.submitting import board_in, plugin_files
    from ..use.verification import Verification
    from ..use.verifying import Request, verify
    from .quiet import QuietReporter, say

    drawn = seed if seed is not None else int.from_bytes(os.urandom(4), "big")
    board, name, findings = board_in(source), source.resolve().name, []
    if board != source:
        findings = submissions.check(source, others)
        if any(finding.verdict == submissions.CONTRADICTED for finding in findings):
            return Verification(name, findings, drawn)
        own = plugin_files(source)
        brought = {Path(file).name for file in own}  # these count, and a plugin is not loaded twice
        plugin = [*(file for file in plugin or [] if Path(file).name not in brought), *own]
    store = open_board(board)
    request = Request(data, rerun, rescore, drawn, jobs, tuple(plugin or ()), say)
    findings += verify(store, installed(plugin), request, QuietReporter())
    return Verification(name, findings, drawn)
