"""``recommend``: which models of a board are fast and accurate enough."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .fitted_table import fitted_table
from .output import Format, FormatOption, PluginOption, installed

if TYPE_CHECKING:
    import pandas as pd

    from ..boards.recommendation import Limits, Recommendation

NOTHING = 3


def recommend(
    source: Annotated[Path, typer.Argument(metavar="BOARD", help="A directory that `run` wrote.")] = Path(
        "leaderboards/latest"
    ),
    task: Annotated[str, typer.Option(help="The task, as it stands on the board.")] = "",
    max_ms: Annotated[float | None, typer.Option(help="Milliseconds that one answer may take.")] = None,
    max_error: Annotated[float | None, typer.Option(help="The largest mean test error, in the task's metric.")] = None,
    batched: Annotated[
        bool, typer.Option("--batched", help="Judge the time per sample in batches of the best size, not of one alone.")
    ] = False,
    where: Annotated[
        list[str] | None, typer.Option(help="Of several settings on one board, which: n_train=512, budget=steps=300.")
    ] = None,
    form: FormatOption = Format.table,
    plugin: PluginOption = None,
) -> None:
    """Which models are fast and accurate enough, which level of the classical solver is, and what they cost.

    Exits with 3 if nothing qualifies; the table says how near everything is.

    \b
    pdebench-hss recommend leaderboards/latest --task poisson_2d --max-ms 2 \\
        --max-error 0.05
    pdebench-hss recommend leaderboards/latest --task heat_1d --max-error 1e-3 \\
        --batched --format json
    """
    from ..base.errors import UsageError
    from ..boards.recommendation import Limits
    from ..boards.recommendation import recommend as choose
    from ..trials.store import Store

    limits, store = Limits(max_ms, max_error), Store(source)
    if not source.is_dir():
        raise UsageError(f"{source}: no such directory")
    if not store.keys():
        raise UsageError(f"{source} holds no records; make some with: pdebench-hss run --out {source} --tasks ...")
    if not task:
        raise UsageError(f"which task? write --task NAME; see: pdebench-hss leaderboard {source}")
    found = choose(store, installed(plugin), task, limits, batched=batched, setting=where or ())
    _print(found, limits, form)
    if found.qualifying.empty:
        raise typer.Exit(NOTHING)


def _print(found: Recommendation, limits: Limits, form: Format) -> None:
    from ..base.plain_text import markdown, visible, write_csv

    if form is Format.csv:
        write_csv(found.table, sys.stdout)
        return
    if form is Format.json:
        print(found.table.to_json(orient="records", indent=1, double_precision=15))
        return
    plain = markdown if form is Format.markdown else visible
    rows = [[plain(text) for text in _row(row)] for _, row in found.table.iterrows()]
    headers = ["", "model", "error", "samples within", "time", "answers/s", "training", "params", ""]
    print(visible(_question(found, limits)) + "\n")
    if form is Format.markdown:
        from tabulate import tabulate

        print(tabulate(rows, headers=headers, tablefmt="github", disable_numparse=True) + "\n")
    else:
        print(fitted_table(headers, rows, optional=("answers/s", "params"), rule=False) + "\n")
    for line in _answers(found):
        print(visible(line))


def _question(found: Recommendation, limits: Limits) -> str:
    wishes = [f"{found.metric} at most {limits.max_error:g}"] if limits.max_error is not None else []
    wishes += [f"at most {limits.max_ms:g} ms for an answer"] if limits.max_ms is not None else []
    return f"{found.task}: {' and '.join(wishes)} (times: {found.measure}; {', '.join(found.hardware) or 'unknown'})"


def _row(row: pd.Series) -> list[str]:
    from ..boards.text import format_error, human_count

    def known(value: float, text: str) -> str:
        return "–" if value != value or value is None else text

    training = row["fit_seconds"] if row["kind"] == "model" else float("nan")
    data = f" + {row['data_seconds']:.3g} s of data" if row["data_seconds"] > 0 else ""
    return [
        "✓" if row["qualifies"] else "",
        str(row["model"]),
        format_error(row["error"]),
        known(row["samples_within"], f"{100 * row['samples_within']:.0f} %"),
        known(row["ms"], f"{row['ms']:.3g} ms"),
        known(row["throughput"], f"{row['throughput']:.3g}"),
        known(training, f"{training:.3g} s{data}"),
        human_count(row["params_real"]) if row["params_real"] > 0 else "–",
        str(row["note"]),
    ]


def _answers(found: Recommendation) -> list[str]:
    """What a reader takes home: what qualifies, what the classical solver offers, who is missing."""
    from ..boards.recommendation import KINDS
    from ..boards.text import format_error

    def named(row: pd.Series) -> str:
        return f"{row['model']} (error {format_error(row['error'])}, {row['ms']:.3g} ms)"

    good, (model, baseline, level) = found.qualifying, KINDS
    models, levels = good[good["kind"] == model], good[good["kind"] == level]
    trained = int((found.table["kind"] == model).sum())
    lines = [f"{len(models)} of {trained} trained models qualify" + (f": {_list(models)}." if len(models) else ".")]
    if (free := good["kind"] == baseline).any():
        lines.append(f"Of the baselines that need no gradient: {_list(good[free])}.")
    if (found.table["kind"] == level).any():
        lines.append(
            f"Of the classical solver, {named(levels.iloc[0])} qualifies without training."
            if len(levels)
            else "No level of the classical solver qualifies."
        )
    if len(good) == 0:
        lines.append(f"Nearest: {named(found.table.iloc[0])}, {found.table.iloc[0]['note']}.")
    elif len(levels) and len(models) and (models[["error", "ms"]] >= levels.iloc[0][["error", "ms"]]).all(axis=None):
        lines.append("It is faster and more accurate than every trained model that qualifies.")
    lines += [f"No result: {name} ({why})" for name, why in found.without.items()]
    return lines


def _list(models: pd.DataFrame) -> str:
    return ", ".join(str(name) for name in models["model"])
