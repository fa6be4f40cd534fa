"""``run``: the main command. Flags become a `RunConfig`; the engine does the rest."""

from __future__ import annotations

from typing import Annotated

import typer

from .arrays import TaskFileOption, inspect_files, tasks_of, with_task_files
from .output import PluginOption, StrictOption
from .where import (
    CudaGraphsOption,
    DataDirOption,
    DataSeedOption,
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
    ScaleOption,
    ShardOption,
    StorageOption,
    TasksOption,
    TimeoutOption,
    TrainSizeOption,
    settings_of,
)


def run(
    models: Annotated[
        str | None, typer.Option(help="Models: names, globs, name[width=8,lr=4e-3], or all (default).")
    ] = None,
    tasks: TasksOption = None,
    scale: ScaleOption = None,
    seeds: Annotated[str | None, typer.Option(help="3 means seeds 0, 1, 2; 0,7 means those.  [default: 1]")] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            help="epochs=N, steps=N, seconds=T, core_seconds=T (CPU time of the trial's threads) or flops=F for every "
            "model; several, core_seconds=10,40,160, are a ladder on one board.  [default: the task's recipe]"
        ),
    ] = None,
    match_params: Annotated[
        str | None, typer.Option(help="Resize every model to about this many parameters, e.g. 300k.")
    ] = None,
    train_size: TrainSizeOption = None,
    val: Annotated[
        str | None,
        typer.Option(help="Hold out 10% (or a number) of the training samples and record the error on them."),
    ] = None,
    tuned: Annotated[
        str | None, typer.Option(help="A file that tune wrote: its options for every model; name[key=value] wins.")
    ] = None,
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
    out: Annotated[str | None, typer.Option(help="Results directory.  [default: leaderboards/latest]")] = None,
    data_dir: DataDirOption = None,
    data_seed: DataSeedOption = None,
    config: Annotated[str | None, typer.Option(help="A YAML file with any of these options; flags win.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop.")] = False,
    keep_models: KeepModelsOption = None,
    keep_models_up_to: KeepUpToOption = None,
    keep_predictions: KeepPredictionsOption = None,
    shard: ShardOption = None,
    force: ForceOption = None,
    plugin: PluginOption = None,
    task_file: TaskFileOption = None,
    strict: StrictOption = None,
) -> None:
    """Run models on tasks and write leaderboards. The same command again runs only what is missing.

    \b
    pdebench-hss run --models all --tasks poisson_1d --seeds 3
    pdebench-hss run --models 'resnet[width=32],linear' --tasks 'poisson_*' \\
        --budget core_seconds=60
    pdebench-hss run --models all --tasks poisson_2d --scale medium \\
        --budget core_seconds=10,40,160
    pdebench-hss run --models 'fno[lr=4e-3,weight_decay=1e-4]' \\
        --tasks 'burgers_1d[history=4]' --val 10%
    pdebench-hss run --task-file my_flow.yaml --models resnet,linear
    pdebench-hss run --config experiment.yaml --dry-run
    pdebench-hss run --config experiment.yaml --shard 2/4 --out shards/2
    """
    plugin = with_task_files(plugin, task_file)
    if task_file and not (tasks or config):
        tasks = tasks_of(task_file)
    flags = settings_of(locals(), "config", "dry_run", "task_file")

    from ..contract.registry import load_registry
    from ..runs.config import load_config

    settings = load_config(config, flags)
    registry = load_registry(settings.plugins, strict=settings.strict_plugins)
    # A mistyped name should not wait until torch is imported; the plan looks at them again, with all else.
    registry.choose_models(settings.models)
    registry.choose_tasks(settings.tasks)
    inspect_files(task_file, registry)

    from ..runs.runner import Run
    from .display import make_reporter, print_estimate, print_outcome, print_plan

    with make_reporter() as reporter:
        engine = Run(settings, registry, reporter)
        if dry_run:
            plan = engine.plan()
            print_plan(settings, plan)
            print_estimate(plan, settings.plugins)
            return
        outcome = engine.execute()
    print_outcome(settings, outcome, registry.reference_tables())
    if outcome.failed:
        raise typer.Exit(1)
