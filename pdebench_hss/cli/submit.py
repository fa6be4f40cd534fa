"""``submit``: make a board ready to be added to a repository of boards."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .output import PluginOption, installed

CONTRADICTION = 3


def submit(
    source: Annotated[Path, typer.Argument(metavar="BOARD", help="A directory that `run` or `merge` wrote.")],
    name: Annotated[str, typer.Option(help="The submission's name: small letters, digits, _ and -.")],
    licence: Annotated[str, typer.Option(help="Under which others may use it, e.g. CC-BY-4.0.")],
    contact: Annotated[str, typer.Option(help="Whom to ask: an address that you want to be public.")],
    into: Annotated[Path, typer.Option(help="The folder of submissions.")] = Path("leaderboards/submissions"),
    install: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PACKAGE=HOW", help="What to give to pip for a plugin's package.  [default: NAME==VERSION]"
        ),
    ] = None,
    data: Annotated[str, typer.Option(help="Data sets to make again when it is checked, as of `verify`.")] = "3",
    rerun: Annotated[str, typer.Option(help="Trials to train again when it is checked, as of `verify`.")] = "0",
    plugin: PluginOption = None,
) -> None:
    """Pack a board with its plugins' source, licence and contact, check it as a maintainer would, print a text for it.

    What contradicts itself is not written (exit 3). The folder is complete: commit it and open a pull request.

    \b
    pdebench-hss submit leaderboards/latest --name my-solver \\
        --licence CC-BY-4.0 --contact https://example.org/me
    """
    from ..base.errors import UsageError
    from ..base.plain_text import visible
    from ..trials.store import Store
    from ..use.submitting import BOARD, other_boards, pull_request
    from ..use.submitting import submit as make
    from ..use.verification import to_markdown
    from .verify import verified

    how = dict(word.partition("=")[::2] for word in install or ())
    if "" in {*how, *how.values()}:
        raise UsageError(f"--install {' '.join(install or ())}: write PACKAGE=HOW, such as my-solver=./my_solver")
    folder = into / name
    found = make(
        source,
        into,
        name,
        installed(plugin),
        lambda made: verified(made, rerun, data, True, None, 1, list(plugin or []), other_boards(folder, source)),
        licence=licence,
        contact=contact,
        install=how,
    )
    if found.contradicted:
        print(visible(to_markdown(found), keep="\n"), end="")
        print(f"not written: {folder}")
        raise typer.Exit(CONTRADICTION)
    trials = [record.trial for record in Store(folder / BOARD).current()]
    labels = [sorted({getattr(trial, f"{what}_label") for trial in trials}) for what in ("model", "task")]
    print(f"wrote {folder}; the text of its pull request:\n")
    print(visible(pull_request(folder, found, *labels), keep="\n"), end="")
