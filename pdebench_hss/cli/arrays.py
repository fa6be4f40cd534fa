"""``data add`` and ``data remove``: users' own arrays as a task; ``--task-file`` of other commands."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ..base.errors import UsageError
from ..contract.registry import ARRAYS, load_registry
from ..contract.task_file import TaskFile, is_task_file, read_task_file
from ..contract.well_task_file import WellTaskFile
from .bars import bar

TaskFileOption = Annotated[
    list[str] | None,
    typer.Option(metavar="FILE.yaml", help="A task from a YAML file that names its arrays; repeatable."),
]


def add(
    name: Annotated[str, typer.Argument(help="What the task is called.")],
    inputs: Annotated[str, typer.Option(help="x.npy, or FILE:NAME of an .npz, .h5, .zarr or .pt.")],
    outputs: Annotated[str, typer.Option(help="Likewise. A rollout has none.")] = "",
    rollout: Annotated[bool, typer.Option("--rollout", help="Inputs are trajectories (n, time, ...).")] = False,
    history: Annotated[int, typer.Option(min=1, help="Rollouts: how many frames a model sees.")] = 1,
    channels_last: Annotated[bool, typer.Option("--channels-last", help="Axes are (n, ..., channels).")] = False,
    channels_first: Annotated[bool, typer.Option("--channels-first", help="They are (n, channels, ...).")] = False,
    no_channels: Annotated[bool, typer.Option("--no-channels", help="There is one field and no such axis.")] = False,
    split: Annotated[str, typer.Option(help="Train/test: shares, or counts such as 50/14.")] = "80/20",
    split_by: Annotated[
        str,
        typer.Option(help="Samples of one label stay together: NAME beside the inputs, FILE:NAME or FILE.csv:COLUMN."),
    ] = "",
    periodic: Annotated[bool, typer.Option("--periodic", help="The domain is periodic along every axis.")] = False,
    linear: Annotated[bool, typer.Option("--linear", help="Outputs are linear in the inputs.")] = False,
    evolves: Annotated[bool, typer.Option("--evolves", help="Inputs are the outputs' fields, earlier.")] = False,
    domain: Annotated[str, typer.Option(help="Ends of every axis, e.g. 0:1,0:2.  [default: 0:1]")] = "",
    title: Annotated[str, typer.Option(help="How tables call it.  [default: from its name]")] = "",
    allow_duplicates: Annotated[
        bool, typer.Option("--allow-duplicates", help="Test samples may be copies of train samples.")
    ] = False,
) -> None:
    """Make a task of your own arrays: they are checked and copied into the cache with their hash.

    Afterwards it is a task like any other: show, run, tune, report. The first samples are train, the last are test.

    \b
    pdebench-hss data add my_flow --inputs x.npy --outputs y.npy
    pdebench-hss data add my_run --inputs runs.h5:velocity --rollout \\
        --channels-last --periodic --history 4
    pdebench-hss data add my_sim --inputs sim.npz:a --outputs sim.npz:u \\
        --split 90/10 --split-by case
    """
    orders = {"last": channels_last, "first": channels_first, "none": no_channels}
    said = [order for order, chosen in orders.items() if chosen]
    if len(said) > 1:
        raise UsageError("--channels-last, --channels-first and --no-channels exclude each other")
    if name in (registry := load_registry()).tasks and registry.task(name).origin.distribution != ARRAYS:
        raise UsageError(f"there is a task {name!r} already ({registry.task(name).origin}); choose another name")
    task = TaskFile(
        name=name,
        inputs=inputs,
        outputs=outputs,
        channels=said[0] if said else "",
        rollout=rollout,
        history=history,
        split=split,
        split_by=split_by,
        periodic=periodic,
        linear=linear,
        evolves=evolves,
        domain=_domain(domain),
        title=title,
    )
    from ..data import adding
    from ..data.inspection import sentence

    with bar(f"add {name}") as progress:
        spec, findings = adding.add(task, allow_duplicates, progress)
    print(sentence(spec, findings))
    for note in findings.notes:
        print(f"note: {note}")
    print(f"run it:  pdebench-hss run --models all --tasks {name}")


def _domain(text: str) -> list[list[float]]:
    try:
        return [[float(end) for end in axis.split(":")] for axis in text.split(",")] if text else []
    except ValueError:
        raise UsageError(f"--domain {text}: write the ends of every axis, 0:1,0:2") from None


def remove(
    name: Annotated[str, typer.Argument(help="Arrays that were added.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")] = False,
) -> None:
    """Remove arrays that were added, and the datasets made of them; results are not touched.

    Example:  pdebench-hss data remove my_flow
    """
    from ..base.files import human_bytes
    from ..data import adding, cache, hdf5

    known = adding.added()
    if name not in known:
        raise UsageError(f"no arrays {name!r} were added; there are: {', '.join(known) or 'none'}")
    size = human_bytes(adding.size_of(name))
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError(f"the copy of {name!r} ({size}) would be removed; add --yes")
        typer.confirm(f"remove the copy of {name!r} ({size})?", abort=True)
    adding.remove(name)
    made = 0
    for path in cache.cached_files():
        try:
            made += hdf5.read_header(path).recipe["dataset"] == name and cache.remove(path)
        except hdf5.CorruptData:
            continue
    print(f"removed {name} ({size}) and {made} datasets made of it")


def with_task_files(plugins: list[str] | None, files: list[str] | None) -> list[str] | None:
    """``--task-file`` is a plugin that is not code."""
    for file in files or ():
        if not is_task_file(file):
            raise UsageError(f"--task-file {file}: a YAML file is needed (.yaml); code is given by --plugin")
    return [*(plugins or ()), *files] if files else plugins


def tasks_of(files: list[str]) -> str:
    return ",".join(read_task_file(Path(file)).name for file in files)


def inspect_files(files: list[str] | None, registry: Any) -> None:
    """Say what was understood of task files, and refuse what ``data add`` would refuse; once for each content."""
    from ..data import well_finding
    from ..data.cache import find_source
    from ..data.inspection import inspect, sentence

    for file in files or ():
        task = read_task_file(Path(file))
        if isinstance(task, WellTaskFile):
            print(well_finding.sentence(task, task.found or well_finding.find(task)), file=sys.stderr)
            continue
        spec = registry.task(task.name).spec
        source = find_source(spec)
        assert source is not None  # it has no generator
        findings = inspect(spec, source)
        for line in (sentence(spec, findings), *(f"note: {note}" for note in findings.notes)):
            print(line, file=sys.stderr)
