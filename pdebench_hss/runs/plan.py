"""From an experiment to a list of trials: what to run, what is done already, what can't be done and why."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from ..base.errors import PdebenchError, PluginError, UsageError
from ..contract import traits
from ..contract.budget import CLOCKS, Budget
from ..contract.identity import maker_of
from ..contract.model import RATES, WINDOW, ModelSpec
from ..contract.optimizer import Optimizer
from ..contract.registry import Registered, Registry
from ..contract.selection import Choice, check_options
from ..contract.task import TaskInfo, TaskSpec, check_unroll
from ..data.cache import Dataset, find_source
from ..data.holdout import held_out_count
from ..data.sources import HashProgress
from ..training import counting
from ..trials.record import Record, missing
from ..trials.status import Status
from ..trials.store import Found, Store
from ..trials.trial import Trial
from ..trials.validation import Newer
from .config import RunConfig
from .shards import Shard
from .tuned import Entry, Tuned, read_tuned

# Seconds per training step, and other seconds, of earlier trials by model, task and scale.
History = Mapping[tuple[str, str, str], tuple[float, float]]


class Action(str, Enum):
    """What to do about a trial."""

    RUN = "run"
    RETRY = "retry"
    CACHED = "cached"
    SKIP = "skip"
    KEEP = "keep"  # a newer version wrote its record

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Cell:
    """A trial and what to do about it."""

    trial: Trial
    dataset: Dataset
    action: Action
    reason: str = ""
    record: Record | None = None


@dataclass
class Plan:
    cells: list[Cell]
    jobs: int
    history: History = field(default_factory=dict)
    threads: int = 1  # of each trial
    whole: list[Trial] = field(default_factory=list)  # of a shard: all trials of the plan that it is a part of

    def having(self, *actions: Action) -> list[Cell]:
        return [cell for cell in self.cells if cell.action in actions]

    @property
    def todo(self) -> list[Cell]:
        return self.having(Action.RUN, Action.RETRY)

    def datasets(self, cells: Iterable[Cell]) -> list[Dataset]:
        """Each dataset once, in the order of first use."""
        return list({cell.dataset.id: cell.dataset for cell in cells}.values())

    def estimate(self) -> tuple[float, int]:
        """Expected seconds of the trials to run by earlier records, and for how many of them there are none."""
        known = [expected_seconds(cell, self.history, self.threads) for cell in self.todo]
        return sum(s for s in known if s is not None) / self.jobs, sum(s is None for s in known)


def make_plan(
    config: RunConfig, registry: Registry, store: Store, hashing: HashProgress = lambda source, done, total: None
) -> Plan:
    """``hashing`` is called with the progress of identifying the files that tasks read."""
    models = registry.choose_models(config.models)
    tasks = registry.choose_tasks(config.tasks)
    tuned, there = read_tuned(config.tuned), store.look()
    cells: dict[str, Cell] = {}  # by key: one trial asked for under two labels is one trial
    for task_choice in tasks:
        dataset = _dataset(config, registry.task(task_choice.name), task_choice, hashing)
        for model_choice in models:
            model = registry.model(model_choice.name)
            for trial, unsupported in _trials(config, registry, dataset, model, model_choice, tuned):
                if trial.key not in cells:
                    cells[trial.key] = _cell(trial, dataset, unsupported, there, config.force)
    # The lowest rung of a ladder first: a long run that is stopped leaves whole tables.
    order = {budget: rung for rung, budget in enumerate(config.budgets)}
    ordered = sorted(cells.values(), key=lambda cell: order.get(cell.trial.budget, 0))
    plan = Plan(ordered, config.n_jobs, _history(there), config.threads)
    return plan if config.part is None else _shard_of(plan, config.part)


def _shard_of(plan: Plan, shard: Shard) -> Plan:
    cells = [cell for cell in plan.cells if shard.holds(cell.trial.key)]
    return replace(plan, cells=cells, whole=[cell.trial for cell in plan.cells])


def _dataset(config: RunConfig, task: Registered[TaskSpec], choice: Choice, hashing: HashProgress) -> Dataset:
    """The dataset of a task in this experiment."""
    spec, chosen = task.spec.with_options(choice.options)
    if config.scale not in spec.scales:
        raise UsageError(f"task {spec.name!r} has no scale {config.scale!r}; it has {', '.join(spec.scales)}")
    size = spec.scales[config.scale]
    if (config.train_size or 0) > size.train:
        limit = f"scale {config.scale} of task {spec.name!r} has {size.train}"
        raise UsageError(f"--train-size {config.train_size}: {limit}")
    source = find_source(spec, config.data_dir, hashing)
    return Dataset(replace(task, spec=spec), config.scale, {**spec.params, **chosen}, config.data_seed, source)


def _trials(
    config: RunConfig,
    registry: Registry,
    dataset: Dataset,
    model: Registered[ModelSpec],
    model_choice: Choice,
    tuned: Tuned,
) -> Iterable[tuple[Trial, str | None]]:
    """The trials of one model on one task, one per budget and seed; and the reason if it can't do them.

    Where no seed changes the result, the first one stands for all."""
    spec, params = dataset.spec, dataset.params
    info = spec.info(config.scale, params)
    n_train = config.train_size or info.size.train
    val = held_out_count(config.val, n_train, spec.cases, spec.name) if config.val is not None else 0
    unsupported = ask(model, spec, lambda: model.spec.unsupported(info))
    changed = {key: value for key, value in params.items() if value != spec.params[key]}
    if spec.history != registry.task(spec.name).spec.history:
        changed["history"] = spec.history
    task_label = Choice(spec.name, changed).label
    tuned.check(config.scale, task_label)
    is_tuned = not unsupported and not model.spec.training_free and model.spec.is_trained()
    best = tuned.entry(task_label, model_choice) if is_tuned else Entry()
    settings = {**best.options, **model_choice.options}  # what was typed wins
    hparams, optimizer, window = _settings(model, spec, info, settings, bool(unsupported))
    if config.params_target and not unsupported:
        from ..training.parameters import match_parameters

        target = config.params_target
        hparams = ask(model, spec, lambda: match_parameters(model.spec, info, hparams, target))
    budgets = config.budgets or [info.size.recipe.budget]
    for budget in budgets:
        budget.refuse_device(config.resolved_device.kind)
    training = "" if unsupported else _training(model, info, hparams)
    trial = Trial(
        model=model.spec.name,
        model_label=model_choice.label,
        model_version=model.spec.version,
        model_maker=maker_of(model),
        hparams=hparams,
        optimizer=optimizer,
        task=spec.name,
        task_label=task_label,
        task_params=params,
        data_id=dataset.id,
        data_seed=config.data_seed,
        scale=config.scale,
        budget=budgets[0],
        n_train=n_train - val,
        seed=config.seed_list[0],
        device=config.resolved_device.kind,  # which of several GPUs does not change what is asked for
        precision=config.precision,
        params_target=config.params_target,
        task_digest=spec.digest(),
        equation=spec.title,
        metric=spec.metric,
        training_free=model.spec.training_free,
        deterministic=model.spec.deterministic and not val,  # which samples are held out depends on the seed
        flops_rule=counting.RULE if budgets[0].kind == "flops" else 0,
        training=training,
        history=spec.history,
        val=val,
        tuned=best.facts,
        **window,
    )
    seeds = config.seed_list[:1] if trial.deterministic else config.seed_list
    for budget in budgets:
        for seed in seeds:
            yield replace(trial, budget=budget, seed=seed), unsupported


def _settings(
    model: Registered[ModelSpec], task: TaskSpec, info: TaskInfo, options: Mapping[str, Any], unsupported: bool
) -> tuple[dict[str, Any], Optimizer, dict[str, Any]]:
    """Hyper-parameters, optimiser and window (unroll, detach) of a model on a task, with options set or tuned."""
    recipe = info.size.recipe
    if unsupported:
        return {}, recipe.optimizer, {}
    hparams = ask(model, task, lambda: model.spec.hparams_for(info))
    own = ask(model, task, lambda: model.spec.recipe_for(info))
    settings = {key: own.get(key, getattr(recipe, key)) for key in (*RATES, *WINDOW)}
    known = {**settings, **{key: float(settings[key]) for key in RATES}, **hparams}
    chosen = check_options(options, known, f"model {model.spec.name!r}")
    hparams |= {key: value for key, value in chosen.items() if key in hparams}
    settings |= {key: value for key, value in chosen.items() if key not in hparams}
    check_unroll(settings["unroll"], info, f"model {model.spec.name!r}")
    window = {key: settings[key] for key in WINDOW} if settings["unroll"] > 1 else {}  # else there is none
    return hparams, replace(recipe.optimizer, **{key: settings[key] for key in RATES}), window


def _training(model: Registered[ModelSpec], info: TaskInfo, hparams: Mapping[str, Any]) -> str:
    """The parts of training that are the model's own. A build function is called on the meta device to find out."""
    if model.spec.training_free:
        return ""
    kind = model.spec.model_class()
    if kind is None:
        from ..training.parameters import kind_on_meta

        kind = kind_on_meta(model.spec, info, hparams)
    return traits.training_of(kind) if kind is not None else ""


def ask(model: Registered[ModelSpec], task: TaskSpec, question: Any) -> Any:
    """Call a plugin's own function; an exception is reported as the plugin's fault."""
    try:
        return question()
    except PdebenchError:
        raise
    except (Exception, SystemExit) as error:
        raise PluginError(
            f"model {model.spec.name!r} ({model.origin}) failed when asked about task {task.name!r}: "
            f"{type(error).__name__}: {error}"
        ) from error


def plan_of(trials: Iterable[tuple[Trial, Dataset]], store: Store, config: RunConfig) -> Plan:
    """A plan of trials that were made elsewhere."""
    there = store.look()
    cells = [_cell(trial, dataset, None, there, config.force) for trial, dataset in trials]
    return Plan(cells, config.n_jobs, _history(there), config.threads)


def _cell(trial: Trial, dataset: Dataset, unsupported: str | None, there: Found, force: bool) -> Cell:
    record = there.get(trial.key)
    if isinstance(record, Newer):
        return Cell(trial, dataset, Action.KEEP, str(record), missing(trial.key, trial, str(record)))
    if unsupported:
        return Cell(trial, dataset, Action.SKIP, unsupported, Record(trial.key, trial, Status.SKIPPED, unsupported))
    if force or not isinstance(record, Record):
        return Cell(trial, dataset, Action.RUN)
    if record.status.is_settled:
        return Cell(trial, dataset, Action.CACHED, record.reason, replace(record, trial=trial))
    return Cell(trial, dataset, Action.RETRY, f"{record.status} before: {record.reason}", record)


def _history(there: Found) -> History:
    """Medians over the trials that ended well."""
    seen: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for record in there.by_key.values():
        if isinstance(record, Record) and record.status is Status.OK:
            steps = record.spent.get("steps") or 0
            fit = record.seconds.get("fit") or 0.0
            rest = (record.seconds.get("total") or 0.0) - (fit if steps else 0.0)
            seen.setdefault(_place(record.trial), []).append((fit / steps if steps else 0.0, rest))
    return {
        place: (statistics.median(step for step, _ in numbers), statistics.median(rest for _, rest in numbers))
        for place, numbers in seen.items()
    }


def _place(trial: Trial) -> tuple[str, str, str]:
    return trial.model_label, trial.task_label, trial.scale


def expected_seconds(cell: Cell, history: History, threads: int = 1) -> float | None:
    """From earlier trials of the same model on the same task at the same scale; None if there are none."""
    trial = cell.trial
    if (known := history.get(_place(trial))) is None:
        return None
    per_step, rest = known
    budget = trial.budget
    if budget.kind in CLOCKS:
        return (clock_seconds(budget, threads) if per_step else 0.0) + rest
    if budget.kind == "flops":
        return None
    return per_step * (budget.steps(pairs(cell), trial.optimizer.batch, 0.0) or 0) + rest


def clock_seconds(budget: Budget, threads: int) -> float:
    """How long training lasts within a budget of time: threads that are all busy share core-seconds."""
    return budget.amount / threads if budget.kind == "core_seconds" else budget.amount


def pairs(cell: Cell) -> int:
    """The number of training pairs, or windows, of a trial's samples; for a steady task, one per sample."""
    trial = cell.trial
    return trial.n_train * (cell.dataset.size.steps - trial.history - trial.unroll + 2)
