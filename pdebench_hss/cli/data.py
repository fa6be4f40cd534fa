"""``data``: the dataset cache."""

from __future__ import annotations

import functools
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from ..base.errors import UsageError
from ..contract.registry import load_registry
from .output import Format, FormatOption, PluginOption, print_rows, warn_broken

app = typer.Typer(
    help="Add your arrays; make, check, list and remove datasets.", no_args_is_help=True, rich_markup_mode=None
)

TasksOption = Annotated[str, typer.Option(help="Tasks: names, globs, name[key=value], or all.")]
ScaleOption = Annotated[str, typer.Option(help="smoke, small, medium or paper.")]


def _datasets(tasks: str, scale: str, seed: int, plugins: list[str] | None, data_dir: Path | None = None) -> list[Any]:
    """Each dataset of the chosen tasks once: a forward and an inverse problem share theirs."""
    from ..data import cache
    from .display import make_reporter

    registry = load_registry(plugins or ())
    warn_broken(registry)
    found: dict[str, Any] = {}
    with make_reporter() as reporter:
        for choice in registry.choose_tasks(tasks):
            task = registry.task(choice.name)
            spec = task.spec
            if scale not in spec.scales:
                raise UsageError(f"task {spec.name!r} has no scale {scale!r}; it has {', '.join(spec.scales)}")
            _, params = spec.with_options(choice.options)  # the same data, however many frames of them a model sees
            source = cache.find_source(spec, data_dir, reporter.source_progress)
            dataset = cache.Dataset(task, scale, params, seed, source)
            found.setdefault(dataset.id, dataset)
    return list(found.values())


@app.command("list")
def list_(form: FormatOption = Format.table) -> None:
    """The datasets in the cache, and the arrays that were added."""
    from ..base.files import human_bytes
    from ..base.places import arrays_dir
    from ..data import adding, cache, hdf5

    rows = []
    for path in cache.cached_files():
        row: dict[str, Any] = {"file": path.name, "size": human_bytes(path.stat().st_size)}
        try:
            header = hdf5.read_header(path)
            recipe = header.recipe
            row |= {
                "dataset": recipe["dataset"],
                "scale": recipe["scale"],
                "train": recipe["sizes"]["train"],
                "test": recipe["sizes"]["test"],
                "seed": recipe["seed"],
                "from": _made_by(recipe),
                "sha256": header.sha256[:12],
            }
        except hdf5.CorruptData as error:
            row["dataset"] = f"unreadable: {error}"
        rows.append(row)
    columns = ["dataset", "scale", "train", "test", "seed", "from", "size", "sha256", "file"]
    print_rows(rows, columns, form, optional=["sha256", "file"])
    if form is Format.table:
        print(f"in {cache.data_dir()}")
        for name in adding.added():
            print(f"arrays {name}: {human_bytes(adding.size_of(name))} in {arrays_dir() / name}")


def _made_by(recipe: dict[str, Any]) -> str:
    """The generator as people know it: a distribution, or the start of a plugin file's hash; old files have none."""
    kind, _, file = recipe.get("generator", "").partition(" ")
    return (f"file {file[:8]}" if file else kind) + ("" if recipe["source"] == "generated" else ", public files")


@app.command()
def generate(
    tasks: TasksOption,
    scale: ScaleOption = "small",
    seed: Annotated[int, typer.Option(help="Data seed.")] = 0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; default: one per core.")] = None,
    plugin: PluginOption = None,
) -> None:
    """Make datasets now, so that runs need not.

    Example:  pdebench-hss data generate --tasks all --scale small
    """
    datasets = _datasets(tasks, scale, seed, plugin)
    _make(datasets, jobs, plugin)


def _make(datasets: list[Any], jobs: int | None, plugin: list[str] | None) -> None:
    from ..data import cache
    from ..runs.config import available_cores
    from .display import make_reporter

    with make_reporter() as reporter:
        for dataset in datasets:
            start = time.perf_counter()
            header = cache.ensure(
                dataset,
                jobs=jobs or available_cores(),
                plugin_files=plugin or (),
                progress=functools.partial(reporter.data_progress, dataset),
            )
            reporter.data_ready(dataset, header, time.perf_counter() - start)


@app.command("import")
def import_(
    tasks: TasksOption,
    data_dir: Annotated[Path, typer.Option(help="The directory with the public files.")],
    scale: ScaleOption = "paper",
    plugin: PluginOption = None,
) -> None:
    """Read public files (The Well, DiffusionPDE) into the cache; `run --data-dir` does the same on its way.

    Only the slices that a task needs are read.

    Example:  pdebench-hss data import --tasks gray_scott_forward --data-dir /data/the_well
    """
    _make(_datasets(tasks, scale, 0, plugin, data_dir), None, plugin)


@app.command()
def export(
    task: Annotated[str, typer.Argument(help="A task.")],
    out: Annotated[Path, typer.Option(help="A directory to make.")],
    layout: Annotated[str, typer.Option(help="The layout to write: well.")] = "well",
    scale: ScaleOption = "small",
    seed: Annotated[int, typer.Option(help="Data seed.")] = 0,
    plugin: PluginOption = None,
) -> None:
    """Write a task's data in another project's layout (The Well's HDF5, readable by its `WellDataset`).

    Example:  pdebench-hss data export gray_scott_forward --layout well --out gray_scott_well
    """
    if layout != "well":
        raise UsageError(f"no layout {layout!r}; layouts: well")
    if out.exists() and any(out.iterdir()):
        raise UsageError(f"--out {out} is not empty; name a new directory")
    from ..data.well import export_well

    samples = _load(task, scale, seed, plugin)
    splits = {"train": samples.train, "test": samples.test}
    for path in export_well(out, samples.task, {name: (s.inputs, s.outputs) for name, s in splits.items()}):
        print(f"wrote {path}")


@app.command()
def preview(
    task: Annotated[str, typer.Argument(help="A task.")],
    out: Annotated[Path, typer.Option(help="The picture to write, e.g. preview.png.")],
    scale: ScaleOption = "small",
    samples: Annotated[int, typer.Option(min=1, max=8, help="How many samples.")] = 3,
    seed: Annotated[int, typer.Option(help="Data seed.")] = 0,
    plugin: PluginOption = None,
) -> None:
    """Draw inputs, outputs and spectra of a few test samples (needs the extra `plot`: matplotlib).

    Example:  pdebench-hss data preview helmholtz_2d --out helmholtz.png
    """
    try:
        from ..data.preview import preview as draw

        found = _load(task, scale, seed, plugin)
        path = draw(found.task, found.test.inputs[:samples], found.test.outputs[:samples], out, samples)
    except ModuleNotFoundError as error:
        raise UsageError(f"{error}; install the extra: pip install 'pdebench-hss[plot]'") from None
    print(f"wrote {path}")


def _load(task: str, scale: str, seed: int, plugin: list[str] | None) -> Any:
    """One task's samples, made now if they have to be."""
    from ..data import cache
    from ..runs.config import available_cores

    found = _datasets(task, scale, seed, plugin)
    if len(found) != 1:
        raise UsageError(f"{task!r} names {len(found)} datasets; name one task")
    return cache.obtain(found[0], jobs=available_cores(), plugin_files=plugin or ())


@app.command()
def verify() -> None:
    """Read every cached dataset and compare its content with the hash it was written with; exit 1 if one differs.

    A dataset that differs is not used any more: what needs it makes it again, or reads its public files again. Arrays
    that were added are compared with the hashes they were copied with.
    """
    from ..data import adding, cache, hdf5

    bad = 0
    paths = cache.cached_files()
    for path in paths:
        try:
            header = hdf5.verify(path, deep=True)
            print(f"ok       {header.sha256[:12]}  {path.name}")
        except hdf5.CorruptData as error:
            bad += 1
            print(f"corrupt  {path.name}: {error}. It will be made again when it is needed.")
    for name in adding.added():
        damage = adding.damaged(name)
        bad += bool(damage)
        print("".join(f"corrupt  arrays {name}: {line}. Remove and add them again.\n" for line in damage), end="")
        if not damage:
            print(f"ok       arrays {name}")
    print(f"{len(paths)} datasets, {bad} corrupt")
    if bad:
        raise typer.Exit(1)


@app.command()
def clean(
    tasks: Annotated[str | None, typer.Option(help="Only the datasets of these tasks, at every scale.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")] = False,
    plugin: PluginOption = None,
) -> None:
    """Remove cached datasets and what unfinished generations left; results are not touched.

    What is needed again is made again, or read again from its public files. A dataset in use by another run stays.
    """
    from ..base.files import folder_size, human_bytes
    from ..data import cache, hdf5

    names = None
    if tasks:
        registry = load_registry(plugin or ())
        warn_broken(registry)
        names = {registry.task(c.name).spec.dataset for c in registry.choose_tasks(tasks)}
    doomed = []
    for path in cache.cached_files():
        try:
            dataset = hdf5.read_header(path).recipe["dataset"]
        except hdf5.CorruptData:
            dataset = None  # unreadable files go in any case
        if names is None or dataset is None or dataset in names:
            doomed.append(path)
    for parts in cache.unfinished():  # named like the file that they would become
        if (names is None or parts.name.partition("-")[0] in names) and parts.with_suffix(".h5") not in doomed:
            doomed.append(parts.with_suffix(".h5"))
    sizes = {p: p.stat().st_size if p.exists() else folder_size(p.with_suffix(".parts")) for p in doomed}
    total = human_bytes(sum(sizes.values()))
    if not doomed:
        print("nothing to remove")
        return
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError(f"{len(doomed)} datasets ({total}) would be removed; add --yes")
        typer.confirm(f"remove {len(doomed)} datasets ({total})?", abort=True)
    removed = []
    for path in doomed:
        if cache.remove(path):
            removed.append(path)
        else:
            print(f"in use, not removed: {path.name}")
    print(f"removed {len(removed)} datasets ({human_bytes(sum(sizes[path] for path in removed))})")
