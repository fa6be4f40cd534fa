"""``bench``: how long and how much memory, measured here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..contract.registry import load_reference
from .output import Format, FormatOption, PluginOption, StrictOption, installed, print_rows


def bench(
    name: Annotated[str, typer.Argument(help="models, layers, or what a plugin brings; see list benches.")],
    models: Annotated[str, typer.Option(help="Models to time, if the bench times models.")] = "all",
    tasks: Annotated[str | None, typer.Option(help="Tasks to time them on.  [default: the bench's own]")] = None,
    scale: Annotated[str, typer.Option(help="smoke, small or paper.")] = "paper",
    threads: Annotated[int | None, typer.Option(help="Threads of every computation.  [default: cores]")] = None,
    repeats: Annotated[int, typer.Option(help="Measurements of each, in turn.")] = 9,
    seconds: Annotated[float, typer.Option(help="Bound on the time for one row of the table.")] = 60.0,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print the reasons behind a choice; measure nothing.")
    ] = False,
    out: Annotated[str, typer.Option(help="Directory for the CSV and the charts.")] = "leaderboards/bench",
    form: FormatOption = Format.table,
    plugin: PluginOption = None,
    strict: StrictOption = None,
) -> None:
    """Measure time, memory and FLOPs side by side; write a CSV and bar charts.

    \b
    pdebench-hss bench models --tasks poisson_2d --models neural_hss,fno,resnet
    pdebench-hss bench layers --explain
    """
    registry = installed(plugin, strict=strict)
    measure = load_reference("bench", name, registry.bench(name))

    from ..base.plain_text import visible
    from ..bench.timing import BenchRequest
    from ..runs.config import available_cores

    request = BenchRequest(
        registry=registry,
        models=models,
        tasks=tasks,
        scale=scale,
        threads=threads or available_cores(),
        repeats=repeats,
        seconds=seconds,
        explain=explain,
        say=lambda text: print(visible(text, keep="\n"), flush=True) if form is Format.table else None,
    )
    result = measure(request)
    print_rows([{**row, **_short(row)} for row in result.rows], result.columns, form)
    if explain:
        return
    for path in _write(Path(out), name, result):
        if form is Format.table:
            print(f"wrote {visible(path)}")


def _short(row: dict) -> dict[str, str]:
    """Numbers as people read them; the CSV has all digits."""
    return {key: f"{value:.4g}" for key, value in row.items() if isinstance(value, float)}


def _write(folder: Path, name: str, result) -> list[Path]:  # type: ignore[no-untyped-def]
    import pandas as pd

    from ..base.files import replacing
    from ..base.plain_text import write_csv
    from ..plots.style import save

    folder.mkdir(parents=True, exist_ok=True)
    table = folder / f"{name}.csv"
    with replacing(table) as temporary:
        write_csv(pd.DataFrame(result.rows, columns=result.columns), temporary)
    written = [table]
    for figure_name, figure in result.figures.items():
        written += save(figure, [folder / f"{figure_name}.png"])
    return written
