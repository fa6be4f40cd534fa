"""plan -> data -> trials -> records -> tables. One direction; this is the only module that writes results.

Whatever happens, every trial that ended is on disk before the next event is handled, and a second run of the same
command runs only what is missing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from ..base import machine, storage
from ..base.errors import DataError, PdebenchError, StoreError
from ..base.files import check_writable
from ..boards.writing import write_board
from ..contract.registry import Registry, load_reference, load_registry
from ..contract.resources import Resources, needs
from ..contract.traits import misnamed
from ..data import cache
from ..data.hdf5 import Header
from ..trials.context import Context
from ..trials.lock import BoardLock
from ..trials.plan_file import shard_name
from ..trials.predictions import KIND
from ..trials.record import Record, shared
from ..trials.run_trial import ended_without_record
from ..trials.status import Status
from ..trials.store import Store
from ..trials.trial import Trial
from .config import RunConfig, available_cores
from .executors import Executor, ExecutorLost, LazyWork, TrialFinished, TrialProgress, TrialStarted, Work
from .metric_plugins import complaints, scoring_files, unscored
from .plan import Action, Cell, Plan, ask, make_plan
from .reporter import Reporter
from .shards import plan_id
from .source_changes import changed_sources, plugins_of

FINE = (Status.OK, Status.SKIPPED)


class RunInterrupted(PdebenchError):
    """Ctrl-C: finished trials are kept."""

    exit_code = 130


@dataclass(frozen=True)
class Outcome:
    """What a run leaves behind.

    records    the board's record of each cell of the plan
    attempts   those of this run that ended worse than the records that are kept
    """

    plan: Plan
    records: list[Record]
    board: pd.DataFrame
    paths: list[Path]
    attempts: list[Record] = field(default_factory=list)

    @property
    def failed(self) -> list[Record]:
        return [record for record in (*self.records, *self.attempts) if record.status not in FINE]


class Run:
    """One run of one experiment."""

    def __init__(self, config: RunConfig, registry: Registry | None = None, reporter: Reporter | None = None) -> None:
        self.config = config
        self.reporter = reporter or Reporter()
        self.registry = registry or load_registry(config.plugins, strict=config.strict_plugins)
        self.store = Store(config.out)
        self.attempts: list[Record] = []
        self._done: dict[str, Record] = {}  # by key: the records known so far of the plan's cells
        self._contexts: dict[str, Context] = {}
        self._parts: dict[str, Any] = {}
        self._made_of: dict[tuple[str, str], tuple[dict[str, Any], dict[str, str]]] = {}
        self._stated: dict[tuple[str, ...], Resources] = {}
        self._complained: set[str] = set()  # metrics that did not work; each is reported once
        for line in (*map(str, self.registry.broken), *unscored(self.registry)):
            self.reporter.warn(line)

    def plan(self) -> Plan:
        plan = self._make_plan()
        for line in changed_sources(plan, self.registry):
            self.reporter.warn(line)
        return plan

    def _make_plan(self) -> Plan:
        return make_plan(self.config, self.registry, self.store, self.reporter.source_progress)

    def execute(self) -> Outcome:
        """Nothing in the directory is touched before the lock is held, and nothing is written before it is certain that
        the run can start."""
        with BoardLock(self.store.path) as lock, closing(self._executor()) as executor:
            plan = self.plan()
            self._check(plan, executor)
            lock.keep()
            self._open_store(plan)
            self.reporter.plan(self.config, plan)
            for note in executor.notes:
                self.reporter.note(note)
            headers = self._make_data(plan)
            todo = [cell for cell in plan.todo if cell.dataset.id in headers] + self._stale(plan, headers)
            self._run_trials(executor, todo)
            board, paths = self.write_tables()
        return Outcome(plan, [self._done[cell.trial.key] for cell in plan.cells], board, paths, self.attempts)

    def _executor(self) -> Executor:
        name = self.config.executor
        kind = load_reference("executor", name, self.registry.executor(name))
        return kind(self.registry, self.config)

    def _check(self, plan: Plan, executor: Executor) -> None:
        """Find problems that would make every trial fail before anything starts."""
        if self.config.storage:
            storage.check_writable(self.config.storage)
        self.store.plan_file.refuse_newer()
        if any(not dataset.path.exists() for dataset in plan.datasets(plan.todo)):
            check_writable(cache.data_dir(), "It is the data cache: set PDEBENCH_HSS_CACHE to another place.")
        executor.prepare(list({self._needs(cell) for cell in plan.todo}))

    def _open_store(self, plan: Plan) -> None:
        """Prepare the directory, write the plan, and collect the cells that need no run."""
        self.store.prepare()
        for line in self.store.set_aside():
            self.reporter.warn(line)
        self._warn_misnamed(plan)
        for cell in plan.having(Action.KEEP):
            self.reporter.warn(f"{cell.trial.model_label} on {cell.trial.task_label} is not run: {cell.reason}")
        self._warn_unkept(plan)
        self._write_plan(plan)
        for cell in plan.having(Action.CACHED, Action.SKIP, Action.KEEP):
            if cell.record is not None:
                kept = self.store.put(cell.record) if cell.action is Action.SKIP else None
                self._done[cell.trial.key] = kept or cell.record

    def _write_plan(self, plan: Plan) -> None:
        shard, command = self.config.part, self.config.command
        if shard is None:
            self.store.add_to_plan((cell.trial for cell in plan.cells), command)
        else:
            named = shard_name(plan_id(trial.key for trial in plan.whole), shard.of)
            self.store.add_to_plan(plan.whole, command, {named: [shard.number]})

    def write_tables(self) -> tuple[pd.DataFrame, list[Path]]:
        """The leaderboard, and the files that were written."""
        return write_board(self.store, self.registry)

    def _warn_misnamed(self, plan: Plan) -> None:
        """Report methods that look like part of the contract but are not."""
        for name in dict.fromkeys(cell.trial.model for cell in plan.todo):
            model = self.registry.model(name).spec.model_class()
            for line in misnamed(model) if model is not None else ():
                self.reporter.warn(f"model {name!r}: {line}")

    def _warn_unkept(self, plan: Plan) -> None:
        """Report cached trials without predictions: they are not run again for that."""
        cached = [cell.record for cell in plan.having(Action.CACHED) if cell.record and cell.record.status is Status.OK]
        if self.config.keep_predictions and (bare := sum(KIND not in record.artefacts for record in cached)):
            self.reporter.warn(f"{bare} cached trials have no predictions; --force runs them again and keeps them")

    # --- data --------------------------------------------------------------------------------------------------------

    def _make_data(self, plan: Plan) -> dict[str, Header]:
        """Make the missing data of trials to run; returns the headers of the files by the id of the dataset. If a
        dataset can't be made, only its trials fail."""
        headers: dict[str, Header] = {}
        for dataset in plan.datasets(plan.todo):
            try:
                headers[dataset.id] = self._ensure(dataset)
            except KeyboardInterrupt:
                raise RunInterrupted(
                    "stopped while making data; finished parts are kept. Run the same command to continue."
                ) from None
            except DataError as error:
                for cell in plan.todo:
                    if cell.dataset.id == dataset.id:
                        self._finish(cell.trial, ended_without_record(cell.trial, Status.FAILED, str(error)))
        return headers

    def _ensure(self, dataset: cache.Dataset) -> Header:
        start = time.perf_counter()
        header = cache.ensure(
            dataset,
            jobs=self.config.jobs or available_cores(),  # on the CPU, whatever the training device
            plugin_files=tuple(self.config.plugins),
            progress=lambda done, total: self.reporter.data_progress(dataset, done, total),
        )
        self.reporter.data_ready(dataset, header, time.perf_counter() - start)
        return header

    def _stale(self, plan: Plan, headers: Mapping[str, Header]) -> list[Cell]:
        """Cells to run again: a record counts only for the data it was made with."""
        cached = plan.having(Action.CACHED)
        now = {dataset.id: headers.get(dataset.id) or cache.existing(dataset) for dataset in plan.datasets(cached)}
        stale = []
        for cell in cached:
            header, used = now[cell.dataset.id], cell.record and cell.record.data.get("sha256")
            if header is not None and used is not None and header.sha256 != used:
                stale.append(replace(cell, action=Action.RUN))
                del self._done[cell.trial.key]
        if stale:
            self.reporter.warn(f"{len(stale)} trials were run on data that have changed since; running them again")
        return stale

    # --- trials ------------------------------------------------------------------------------------------------------

    def _run_trials(self, executor: Executor, todo: Sequence[Cell]) -> None:
        event = None
        try:
            for event in executor.run(self._work(todo)):
                if isinstance(event, TrialStarted):
                    self.reporter.trial_started(event.trial)
                elif isinstance(event, TrialProgress):
                    self.reporter.trial_progress(event.trial, event.progress)
                elif isinstance(event, TrialFinished):
                    self._finish(event.trial, event.record)
        except KeyboardInterrupt:
            if isinstance(event, TrialFinished) and event.trial.key not in self._done:  # while its record was written
                self._finish(event.trial, event.record)
            for event in executor.stop():
                self._finish(event.trial, event.record)
            self.write_tables()
            raise RunInterrupted(f"stopped. {self._kept(todo)}") from None
        except ExecutorLost as error:
            self.write_tables()
            raise ExecutorLost(f"{error}. {self._kept(todo)}") from error

    def _kept(self, todo: Sequence[Cell]) -> str:
        ended = sum(cell.trial.key in self._done for cell in todo)
        return f"{ended} of {len(todo)} trials done and kept; run the same command to continue."

    def _work(self, cells: Sequence[Cell]) -> Sequence[Work]:
        if self.config.force:
            for cell in cells:
                storage.remove(self._checkpoint(cell.trial))
        return LazyWork(cells, self._work_of)

    def _work_of(self, cell: Cell) -> Work:
        kept = self.config.model_bytes if cell.trial.judge == "test" else 0
        context = replace(
            self._context(cell.dataset),
            checkpoint=self._checkpoint(cell.trial),
            predictions=self._predictions(cell.trial),
            keep_models=kept,
        )
        return Work(cell.trial, context, self._needs(cell), str(self.store.log(cell.trial.key)))

    def _context(self, dataset: cache.Dataset) -> Context:
        """What the trials of one dataset have in common."""
        if dataset.id not in self._contexts:
            plugins = tuple(str(file) for file in self.config.plugins)
            self._contexts[dataset.id] = Context(
                data=dataset.path.name,
                threads=self.config.threads,
                plugin_files=plugins,
                scoring_files=scoring_files(plugins, dataset.task.origin.file, self.registry),
                cuda_graphs=self.config.cuda_graphs,
                max_memory=self.config.memory_limit,
                max_resident=self.config.resident_limit,
            )
        return self._contexts[dataset.id]

    def _needs(self, cell: Cell) -> Resources:
        """The resources of a trial; computed once for each model on each form of a task and device."""
        place = (cell.trial.model, cell.dataset.id, cell.trial.task_label, cell.trial.device)
        if place not in self._stated:
            self._stated[place] = self._state_needs(cell)
        return self._stated[place]

    def _state_needs(self, cell: Cell) -> Resources:
        """As the model, the task and the user state them."""
        spec, model = cell.dataset.spec, self.registry.model(cell.trial.model)
        on_gpu, trained = cell.trial.device == "cuda", model.spec.is_trained()
        default = Resources(cpus=1, gpus=1) if on_gpu else Resources(cpus=self.config.threads)
        task = spec.info(cell.trial.scale, cell.trial.task_params)
        stated = {
            f"model {model.spec.name!r}": ask(model, spec, lambda: model.spec.resources_for(task)),
            f"task {spec.name!r}": cell.dataset.size.resources,
        }
        found = needs(default, stated, self.config.resources)
        return found if trained else replace(found, gpus=0.0)  # closed forms stay on the CPU, whatever the model states

    def _predictions(self, trial: Trial) -> str:
        """Where the scorer writes them; absolute, as its process may have another working directory."""
        asked = self.config.keep_predictions and trial.judge == "test"
        return str(self.store.predictions.pending(trial.key).absolute()) if asked else ""

    def _checkpoint(self, trial: Trial) -> str:
        if self.config.storage:
            return storage.join(self.config.storage, "checkpoints", f"{trial.key}.pt")
        return str(self.store.checkpoint(trial.key))

    # --- records -----------------------------------------------------------------------------------------------------

    def _finish(self, trial: Trial, record: Record) -> None:
        """Store a record and notify the reporter."""
        record, kept = self._put(self._with_plugins(record))
        complete, record = record, replace(record, samples={})  # on disk; those of a long plan would fill the memory
        if kept is not None:
            where = f"attempts/{trial.key}.json"
            reason = f"{record.reason} (the {kept.status} record is kept; this attempt: {where})"
            record = replace(record, reason=reason)
            self.attempts.append(record)
        self._done[trial.key] = kept or record
        self.reporter.trial_finished(trial, record)
        self._complain(record)
        for failure in self.registry.notify_finished(complete):
            self.reporter.warn(str(failure))

    def _complain(self, record: Record) -> None:
        for name, reason in complaints(record).items():
            if name not in self._complained:
                self._complained.add(name)
                where = f"{record.trial.model_label} on {record.trial.task_label}"
                self.reporter.warn(f"metric {name!r} is not measured ({where}): {reason}")

    def _with_plugins(self, record: Record) -> Record:
        """The record with the trial's plugins, their versions and the hash of their source."""
        place = (record.trial.model, record.trial.task)
        if place not in self._made_of:
            plugins = plugins_of(record, self.registry)
            versions = machine.versions(tuple(plugin["distribution"] for plugin in plugins.values()))
            self._made_of[place] = plugins, versions
        plugins, versions = self._made_of[place]
        known = record.provenance.get("versions", {})
        provenance = {**record.provenance, "versions": {**versions, **known}, "plugins": plugins}
        return replace(record, provenance=shared(provenance, self._parts))

    def _put(self, record: Record) -> tuple[Record, Record | None]:
        """Write a record and the model it carries, and remove what else its trial left; returns the record as written,
        and the one that is kept instead, if any."""
        trial = record.trial
        try:
            record = self.store.keep_model(record)
            kept = self.store.put(record)
        except OSError as error:
            raise StoreError(
                f"can't write the record of {trial.model_label} on {trial.task_label} to {self.store.path}: "
                f"{error.strerror or error}. {len(self._done)} records are kept; "
                "fix this and run the same command to continue."
            ) from error
        if self.config.storage:
            storage.remove(self._checkpoint(trial))
        if record.status in FINE:
            self.store.log(trial.key).unlink(missing_ok=True)
        return record, kept
