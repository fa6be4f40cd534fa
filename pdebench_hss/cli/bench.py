"""``bench``: how long and how much memory, measured here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..base.errors import UsageError
from ..contract.registry import load_reference
from .output import Format, FormatOption, PluginOption, StrictOption, installed, print_rows


def bench(
    name: Annotated[str, typer.Argument(help="models, layers, or a plugin's bench; see list benches.")],
    models: Annotated[str, typer.Option(help="Models to time, if the bench times models.")] = "all",
    tasks: Annotated[str | None, typer.Option(help="Tasks to time them on.  [default: the bench's own]")] = None,
    scale: Annotated[str, typer.Option(help="smoke, small, medium or paper.")] = "paper",
    threads: Annotated[int | None, typer.Option(help="Threads per computation.  [default: cores]")] = None,
    repeats: Annotated[int, typer.Option(help="Measurements of each, in turn.")] = 9,
    seconds: Annotated[
        float, typer.Option(help="Limit of the time for one row of the table; a step may take a fifth of it.")
    ] = 60.0,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print the reasons behind a choice; measure nothing.")
    ] = False,
    cpu_time: Annotated[
        bool,
        typer.Option("--cpu-time", help="CPU time instead of time on the clock: for one thread on a busy machine."),
    ] = False,
    out: Annotated[str, typer.Option(help="Directory for the CSV and the charts.")] = "leaderboards/bench",
    form: FormatOption = Format.table,
    plugin: PluginOption = None,
    strict: StrictOption = None,
) -> None:
    """Measure time, memory and FLOPs side by side; write a CSV and charts.

    `bench models` also says what limits a step on this machine (arithmetic or memory), the least time that limit
    allows, and how many times that the step takes.

    \b
    pdebench-hss bench models --tasks poisson_2d --models neural_hss,fno,resnet
    pdebench-hss bench models --threads 1 --cpu-time --seconds 10
    pdebench-hss bench layers --explain
    """
    registry = installed(plugin, strict=strict)
    measure = load_reference("bench", name, registry.bench(name))

    from ..base.plain_text import visible
    from ..bench.timing import BenchRequest
    from ..runs.config import available_cores

    threads = threads or available_cores()
    if cpu_time and threads > 1:
        raise UsageError(f"--cpu-time counts one thread, but there are {threads}; add --threads 1")
    request = BenchRequest(
        registry=registry,
        models=models,
        tasks=tasks,
        scale=scale,
        threads=threads,
        repeats=repeats,
        seconds=seconds,
        explain=explain,
        cpu_time=cpu_time,
        say=lambda text: print(visible(text, keep="\n"), flush=True) if form is Format.table else None,
    )
    result = measure(request)
    columns = result.shown if result.shown and form is Format.table else result.columns
    print_rows([{**row, **_short(row)} for row in result.rows], columns, form)
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
