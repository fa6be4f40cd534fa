"""``study``: reproduce one table or figure. Flags become the settings that the study's experiments share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .fitted_table import fitted_table
from .output import PluginOption, StrictOption
from .where import (
    CudaGraphsOption,
    DataDirOption,
    DdpOption,
    DeviceOption,
    ExecutorOption,
    ForceOption,
    JobsOption,
    KeepModelsOption,
    KeepPredictionsOption,
    KeepUpToOption,
    MaxMemoryOption,
    MaxResidentOption,
    PrecisionOption,
    RayAddressOption,
    ResourcesOption,
    StorageOption,
    TimeoutOption,
)

FORMATS = ("png", "pdf", "svg")
FigureOption = Annotated[str, typer.Option(help="Formats of the figure: png, pdf, svg; or none.")]


def study(
    name: Annotated[str, typer.Argument(help="A study; see: pdebench-hss list studies")],
    scale: Annotated[str, typer.Option(help="smoke, small, medium or paper.")] = "small",
    seeds: Annotated[str | None, typer.Option(help="3 means seeds 0, 1, 2; 0,7 those.  [default: the study's]")] = None,
    models: Annotated[str | None, typer.Option(help="These models instead of the study's own.")] = None,
    out: Annotated[
        str | None, typer.Option(help="Results directory.  [default: leaderboards/studies/NAME-SCALE]")
    ] = None,
    figure: FigureOption = "png,pdf",
    executor: ExecutorOption = None,
    jobs: JobsOption = None,
    timeout: TimeoutOption = None,
    ddp: DdpOption = None,
    ray_address: RayAddressOption = None,
    storage: StorageOption = None,
    resources: ResourcesOption = None,
    device: DeviceOption = None,
    precision: PrecisionOption = None,
    cuda_graphs: CudaGraphsOption = None,
    max_memory: MaxMemoryOption = None,
    max_resident: MaxResidentOption = None,
    data_dir: DataDirOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and an estimate of time.")] = False,
    keep_models: KeepModelsOption = None,
    keep_models_up_to: KeepUpToOption = None,
    keep_predictions: KeepPredictionsOption = None,
    force: ForceOption = None,
    plugin: PluginOption = None,
    strict: StrictOption = None,
) -> None:
    """Run the trials behind one table or figure of the paper, and draw it. Repeat the command to resume.

    \b
    pdebench-hss study data_efficiency_1d --dry-run
    pdebench-hss study exact_recovery --scale smoke
    pdebench-hss study table_1d --models my_solver,fno,linear \\
        --out leaderboards/mine
    """
    from ..contract.registry import load_registry

    registry = load_registry(plugin or (), strict=bool(strict))
    found = registry.study(name).spec
    formats = formats_of(figure)

    from ..base.plain_text import visible
    from ..studies.study_run import StudyRun, write_study
    from .display import console, make_reporter, print_estimate, print_plan

    folder = Path(out or f"leaderboards/studies/{name}-{scale}")
    settings = {
        "out": str(folder),
        "seeds": seeds,
        "executor": executor,
        "jobs": jobs,
        "timeout": timeout,
        "ddp": ddp,
        "ray_address": ray_address,
        "storage": storage,
        "resources": resources,
        "device": device,
        "precision": precision,
        "cuda_graphs": cuda_graphs,
        "max_memory": max_memory,
        "max_resident": max_resident,
        "data_dir": data_dir,
        "keep_models": keep_models,
        "keep_models_up_to": keep_models_up_to,
        "keep_predictions": keep_predictions,
        "force": force,
        "plugins": plugin,
    }
    console.print(visible(f"{found.title}   ({found.paper})" if found.paper else found.title), markup=False)
    with make_reporter() as reporter:
        given = {key: value for key, value in settings.items() if value is not None}
        engine = StudyRun(found, scale, given, registry, reporter, models)
        if dry_run:
            plan = engine.plan()
            print_plan(engine.config, plan)
            print_estimate(plan, engine.config.plugins)
            return
        if formats:
            from ..plots.style import matplotlib

            matplotlib()  # if it is missing, fail now and not after hours of training
        outcome = engine.execute()
    table, paths = write_study(found, outcome.records, registry, folder, formats)
    _print_points(table, list(found.columns))
    console.print(f"wrote {', '.join(str(path) for path in paths)}", markup=False)
    if outcome.failed:
        raise typer.Exit(1)


def formats_of(text: str, option: str = "--figure") -> list[str]:
    from ..base.errors import UsageError, did_you_mean
    from ..contract.selection import split

    words = [word for word in split(text) if word != "none"]
    for word in words:
        if word not in FORMATS:
            hint = did_you_mean(word, FORMATS)
            raise UsageError(f"{option} {word}: not a format.{hint}  Formats: {', '.join(FORMATS)}, none")
    return words


def _print_points(table: Any, columns: list[str]) -> None:
    """The table behind the figure, as people read it."""
    from ..base.plain_text import visible
    from ..boards.text import format_error

    shown = ["task", "model", "n_train", *columns]
    rows = [
        [visible(cell) for cell in (*row[shown], _error(row, format_error), row["reason"])]
        for _, row in table.iterrows()
    ]
    print(fitted_table([*map(visible, shown), "error", ""], rows))


def _error(row: Any, format_error: Any) -> str:
    mean, spread = row["test_err_mean"], row["test_err_std"]
    text = str(format_error(mean))
    return text + (f" ± {format_error(spread)}" if spread == spread else "")
