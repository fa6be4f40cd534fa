"""``tune``: options chosen alike for every model, on samples held out from train. The test set is not read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .arrays import TaskFileOption, inspect_files, tasks_of, with_task_files
from .output import PluginOption, StrictOption
from .where import (
    DataDirOption,
    DataSeedOption,
    DeviceOption,
    ExecutorOption,
    JobsOption,
    PrecisionOption,
    RayAddressOption,
    ResourcesOption,
    ScaleOption,
    StorageOption,
    TasksOption,
    TimeoutOption,
    TrainSizeOption,
    settings_of,
)

MOST_NAMES = 3  # of tasks on a line

if TYPE_CHECKING:
    from ..runs.plan import Plan
    from ..tuning.config import TuneConfig
    from ..tuning.tune import Chosen, Tuning


def tune(
    models: Annotated[str, typer.Option(help="Models: names, globs, name[key=value] (not tuned), or all.")] = "all",
    tasks: TasksOption = None,
    tries: Annotated[
        int | None, typer.Option(help="Choices of options for each model on each task.  [default: 12]")
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(help="Options to tune, e.g. lr: the others keep their defaults.  [default: all in its space]"),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            help="Of each try: epochs=N, steps=N, seconds=T, core_seconds=T or flops=F.  [default: the task's recipe]"
        ),
    ] = None,
    scale: ScaleOption = None,
    val: Annotated[
        str | None, typer.Option(help="Training samples to hold out: a share or a number.  [default: 20%]")
    ] = None,
    out: Annotated[str | None, typer.Option(help="The file to write.  [default: tuned.yaml]")] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same tries.  [default: 0]")] = None,
    sampler: Annotated[
        str | None, typer.Option(help="tpe (default: fill the space, then near the best), qmc or random.")
    ] = None,
    max_params: Annotated[
        str | None, typer.Option(help="Parameters of a try, at most.  [default: twice the model's own]")
    ] = None,
    train_size: TrainSizeOption = None,
    executor: ExecutorOption = None,
    jobs: JobsOption = None,
    timeout: TimeoutOption = None,
    ray_address: RayAddressOption = None,
    storage: StorageOption = None,
    resources: ResourcesOption = None,
    device: DeviceOption = None,
    precision: PrecisionOption = None,
    data_dir: DataDirOption = None,
    data_seed: DataSeedOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be tried, and stop.")] = False,
    plugin: PluginOption = None,
    task_file: TaskFileOption = None,
    strict: StrictOption = None,
) -> None:
    """Choose learning rates and sizes: the same tries for every model, judged by samples held out from train.

    Repeat the command to resume where it stopped. What may be chosen is shown by: pdebench-hss show MODEL

    \b
    pdebench-hss tune --models all --tasks 'poisson_*' --tries 12 \\
        --out tuned.yaml
    pdebench-hss tune --models fno,neural_hss --tasks poisson_2d \\
        --budget core_seconds=10 --dry-run
    pdebench-hss tune --models all --tasks poisson_2d --only lr --tries 6
    pdebench-hss run --models all --tasks 'poisson_*' --tuned tuned.yaml \\
        --seeds 3
    """
    plugin = with_task_files(plugin, task_file)
    if task_file and not tasks:
        tasks = tasks_of(task_file)
    given = settings_of(locals(), "dry_run", "task_file")

    from ..contract.registry import load_registry
    from ..tuning.config import make_tune_config

    config = make_tune_config(given)
    registry = load_registry(config.plugins, strict=config.strict_plugins)
    registry.choose_models(config.models)
    registry.choose_tasks(config.tasks)
    inspect_files(task_file, registry)
    _need_optuna()

    from ..tuning.tune import Tuning
    from ..tuning.tuned_file import write_tuned
    from .display import make_reporter

    with make_reporter() as reporter:
        reporter.plan = _print_round  # type: ignore[method-assign]
        tuning = Tuning(config, registry, reporter)
        _print_plan(config, tuning, spaces=dry_run)
        if dry_run:
            return
        chosen = tuning.execute()
    path = write_tuned(config, chosen, tuning.skipped)
    _print_chosen(chosen)
    _say(f"wrote {path}; every try is in it and in {config.out}")
    _say(f"use it:  {_run_command(config)}")
    if failed := sum(one.failed for one in chosen):
        _say(f"{failed} tries failed; the same command tries them again")
    if failed or any(one.best.error == float("inf") for one in chosen):
        raise typer.Exit(1)


def _need_optuna() -> None:
    """Checked before anything is created."""
    import importlib.util

    from ..base.errors import UsageError

    if importlib.util.find_spec("optuna") is None:
        raise UsageError("tune needs Optuna: pip install 'pdebench-hss[tune]'")


def _say(line: str) -> None:
    from ..base.plain_text import visible
    from .display import console

    console.print(visible(line), markup=False)


def _print_plan(config: TuneConfig, tuning: Tuning, spaces: bool) -> None:
    from .display import human_time, plural

    held_out = tuning.subjects[0].default.val
    budget = config.budget or "the recipe's budget"
    _say(
        f"tune   {len(tuning.subjects)} models on tasks, {config.tries} tries each of {budget}, "
        f"judged by {held_out} held-out training samples" + (", or as many as a task has" if _differ(tuning) else "")
    )
    jobs = plural(config.n_jobs, "job")
    _say(f"       about {human_time(tuning.estimate())} with {jobs}, making the data not counted")
    for line in _skipped(tuning.skipped):
        _say(f"skip   {line}")
    for subject in tuning.subjects if spaces else ():
        ranges = ", ".join(f"{name} {found}" for name, found in subject.space.items())
        _say(f"{subject.name}: {ranges}; at most {subject.largest:,} parameters")


def _skipped(reasons: dict[str, str]) -> list[str]:
    """A line for each model and reason; its tasks by name, or how many there are."""
    tasks: dict[tuple[str, str], list[str]] = {}
    for name, reason in reasons.items():
        model, _, task = name.partition(" on ")
        tasks.setdefault((model, reason), []).append(task)
    return [
        f"{model} on {', '.join(names) if len(names) <= MOST_NAMES else f'{len(names)} tasks'}: {reason}"
        for (model, reason), names in tasks.items()
    ]


def _print_round(config: Any, plan: Plan) -> None:
    """Printed instead of a run's own heading."""
    done = len(plan.cells) - len(plan.todo)
    _say(f"round  {len(plan.cells)} tries" + (f", {done} of them are done" if done else ""))


def _differ(tuning: Tuning) -> bool:
    return len({subject.default.val for subject in tuning.subjects}) > 1


def _print_chosen(chosen: list[Chosen]) -> None:
    """A line for each model, by task, best first."""
    from ..boards.text import format_error

    for task in dict.fromkeys(one.subject.default.task_label for one in chosen):
        _say("")
        _say(task)
        mine = sorted((one for one in chosen if one.subject.default.task_label == task), key=lambda o: o.best.error)
        names = max(len(one.subject.default.model_label) for one in mine)
        options = {id(one): _spelled(one) for one in mine}
        width = max(map(len, options.values()))
        for one in mine:
            after, before = (format_error(_or_nan(t.error)) for t in (one.best, one.before))
            _say(
                f"{one.subject.default.model_label:<{names}}   {len(one.tries)} tries   {options[id(one)]:<{width}}   "
                f"held-out {after:<9} (was {before})   {one.seconds:.0f} s"
            )
    _say("")
    _say("the test set was not read")


def _spelled(one: Chosen) -> str:
    if one.best.error == float("inf"):
        return f"no try ended well: {one.before.record.reason}"
    words = (
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in one.best.options.items()
    )
    return "  ".join(words) or "its defaults"


def _or_nan(error: float) -> Any:
    return error if error < float("inf") else float("nan")


def _run_command(config: TuneConfig) -> str:
    import shlex

    words = ["pdebench-hss", "run", "--models", str(config.models), "--tasks", str(config.tasks)]
    words += ["--scale", config.scale] if config.scale != "small" else []
    words += ["--budget", str(config.budget)] if config.budget else []
    return shlex.join([*words, "--tuned", config.file, "--seeds", "3"])
