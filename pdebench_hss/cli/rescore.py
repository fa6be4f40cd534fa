"""``rescore``: compute every metric of a board again, and say whether its numbers are confirmed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .bars import bar
from .output import PluginOption, installed

if TYPE_CHECKING:
    from ..use.rescoring import Verdict

CONTRADICTION = 3
MOST = 20  # lines of one kind


def rescore(
    source: Annotated[Path, typer.Argument(metavar="BOARD", help="A directory that `run` wrote.")] = Path(
        "leaderboards/latest"
    ),
    from_weights: Annotated[
        bool, typer.Option("--from-weights", help="Predict again, even where predictions were kept.")
    ] = False,
    write: Annotated[
        bool, typer.Option("--write", help="Write all metrics, also those that records lack, to BOARD/rescored.csv.")
    ] = False,
    jobs: Annotated[int, typer.Option(help="Records side by side.", min=1)] = 1,
    plugin: PluginOption = None,
) -> None:
    """Compute every metric of a board again, from kept predictions or else from the weights, and compare.

    A record is confirmed to the bit, or within rounding, or contradicted (exit 3); what can't be checked is listed with
    its reason. Records are not changed. Data that are not in the cache are made again.

    \b
    pdebench-hss rescore leaderboards/latest
    pdebench-hss rescore leaderboards/latest --from-weights --write
    """
    from ..base.plain_text import visible
    from ..data.cache import ensure
    from ..use.again import KEPT, WEIGHTS
    from ..use.choosing import open_board
    from ..use.rescoring import CONTRADICTED, rescore, write_table

    store, registry = open_board(source), installed(plugin)
    with bar("rescoring") as progress:
        found = list(
            rescore(
                store,
                registry,
                lambda dataset: ensure(dataset, jobs=jobs, plugin_files=plugin or ()),
                sources=(WEIGHTS,) if from_weights else (KEPT, WEIGHTS),
                plugin_files=plugin or (),
                jobs=jobs,
                progress=progress,
            )
        )
    for line in _lines(found):
        print(visible(line))
    if write:
        print(f"wrote {write_table(store, found)}")
    if any(verdict.verdict == CONTRADICTED for verdict in found):
        raise typer.Exit(CONTRADICTION)


def _lines(found: list[Verdict]) -> list[str]:
    from ..use.rescoring import CONFIRMED, CONTRADICTED, ROUNDED, UNCHECKED

    lines = []
    for verdict in (CONTRADICTED, UNCHECKED):
        those = [v for v in found if v.verdict == verdict]
        lines += [f"{verdict:>15}  {v.record.trial.words}: {v.reason}" for v in those[:MOST]]
        lines += [f"{verdict:>15}  and {len(those) - MOST} more"] if len(those) > MOST else []
    largest = max((v for v in found if v.verdict == ROUNDED), key=lambda v: v.difference, default=None)
    if largest is not None:
        share = f"{100 * largest.difference:.2g} % of what rounding may explain"
        lines.append(f"{ROUNDED:>15}  at most {share}: {largest.metric} of {largest.record.trial.words}")
    counts = Counter(v.verdict for v in found)
    numbers = {CONFIRMED: "confirmed to the bit", ROUNDED: "within rounding", CONTRADICTED: "contradicted"}
    said = [f"{counts[v]} {words}" for v, words in numbers.items()] + [f"{counts[UNCHECKED]} not checked"]
    sources = Counter(v.source for v in found if v.verdict != UNCHECKED)
    made = " and ".join(f"{count} from {source}" for source, count in sorted(sources.items()))
    metrics = len({name for v in found for name in v.means})
    lines.append(f"{len(found)} records, {metrics} metrics: {', '.join(said)}" + (f" ({made})" if made else ""))
    if added := sorted({name for v in found for name in v.added}):
        lines.append(f"some records lack: {', '.join(added)} (--write puts them in rescored.csv)")
    if absent := sorted({name for v in found for name in v.absent} - {"val_err"}):
        lines.append(f"not computed here: {', '.join(absent)}")
    for reason, count in Counter(v.no_val for v in found if v.no_val).items():
        lines.append(f"val_err of {count} record{'s' * (count != 1)} is not checked: {reason}")
    return lines
