"""``merge``: shards of one plan, or the boards of several people, as one board."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .bars import bar
from .output import PluginOption, installed

if TYPE_CHECKING:
    from ..boards.merging import Merged

MOST = 20  # conflicts that are printed


def merge(
    boards: Annotated[list[Path], typer.Argument(metavar="BOARD...", help="Directories that `run` wrote.")],
    out: Annotated[Path, typer.Option(help="The new board; nothing may be there yet.")],
    plugin: PluginOption = None,
) -> None:
    """Join boards: a trial with one result is there once, different results are a conflict that names both.

    The bytes of the new board do not depend on the order of boards, nor on which were merged before. Refused: shards of
    different plans, boards of different protocols, unlike data, cells that different trials stand for.

    \b
    pdebench-hss merge shards/1 shards/2 shards/3 shards/4 \\
        --out leaderboards/joined
    pdebench-hss merge leaderboards/mine leaderboards/theirs \\
        --out leaderboards/ours
    """
    from ..base.plain_text import visible
    from ..boards.merging import merge as merge_boards

    with bar("reading") as progress:
        done = merge_boards(boards, out, installed(plugin), progress)
    for line in _lines(done, len(boards)):
        print(visible(line))


def _lines(done: Merged, boards: int) -> list[str]:
    lines = []
    for claims in done.conflicts[:MOST]:
        lines += [f"conflict  {words}, in {board}" for board, words in claims]
    if len(done.conflicts) > MOST:
        lines.append(f"conflict  and {len(done.conflicts) - MOST} more")
    for name, numbers in done.missing.items():
        plan, _, of = name.partition("/")
        listed = ", ".join(map(str, numbers[:MOST])) + (", ..." if len(numbers) > MOST else "")
        lines.append(f"plan {plan[:8]}: shards {listed} of {of} are not here; their cells are shown as not run yet")
    conflicts = f"{len(done.conflicts)} in conflict (both kept, in conflicts/)" if done.conflicts else "no conflicts"
    lines.append(
        f"merged {boards} boards into {done.out}: {done.records} trials, {done.repeated} repeated, {conflicts}"
    )
    return lines
