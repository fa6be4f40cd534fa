"""plan -> data -> trials -> records -> tables. One direction; this is the only module that writes results.

Whatever happens, every trial that ended is on disk before the next event is looked at, and a second run of the same
command runs only what is missing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd
from filelock import FileLock, Timeout

from ..base import storage
from ..base.errors import DataError, PdebenchError, StoreError
from ..base.files import check_writable, missing_folders, remove_made
from ..boards.writing import write_board
from ..contract.registry import Registry, load_reference, load_registry
from ..contract.resources import Resources, needs
from ..contract.traits import misnamed
from ..data import cache
from ..data.hdf5 import Header
from ..trials.context import Context
from ..trials.record import Record
from ..trials.run_trial import ended_without_record
from ..trials.status import Status
from ..trials.store import Store
from ..trials.trial import Trial
from .config import RunConfig, available_cores
from .executors import Executor, ExecutorLost, Work
from .plan import CACHED, KEEP, RUN, SKIP, Cell, Plan, ask, make_plan


class Reporter:
    """What a run tells as it goes. The default keeps silent; the command line draws."""

    def warn(self, message: str) -> None: ...
    def note(self, message: str) -> None: ...
    def plan(self, config: RunConfig, plan: Plan) -> None: ...
    def source_progress(self, source: Path, done: int, total: int) -> None: ...
    def data_progress(self, dataset: cache.Dataset, done: int, total: int) -> None: ...
    def data_ready(self, dataset: cache.Dataset, header: Header, seconds: float) -> None: ...
    def trial_started(self, trial: Trial) -> None: ...
    def trial_progress(self, trial: Trial, event: dict[str, Any]) -> None: ...
    def trial_finished(self, trial: Trial, record: Record) -> None: ...


class RunInterrupted(PdebenchError):
    """Ctrl-C: what is done is kept."""

    exit_code = 130


@dataclass(frozen=True)
class Outcome:
    """What a run leaves behind.

    records    of each cell of the plan, as the board has it
    attempts   of this run that ended worse than the records that are kept
    """

    plan: Plan
    records: list[Record]
    board: pd.DataFrame
    paths: list[Path]
    attempts: list[Record] = field(default_factory=list)

    @property
    def failed(self) -> list[Record]:
        return [
            record for record in (*self.records, *self.attempts) if record.status not in (Status.OK, Status.SKIPPED)
        ]


def kept(todo: Sequence[Cell], done: Mapping[str, Record]) -> str:
    ended = sum(cell.trial.key in done for cell in todo)
    return f"{ended} of {len(todo)} trials done and kept; run the same command to go on."


class Run:
    """One run of one experiment."""

    def __init__(self, config: RunConfig, registry: Registry | None = None, reporter: Reporter | None = None) -> None:
        self.config = config
        self.reporter = reporter or Reporter()
        self.registry = registry or load_registry(config.plugins, strict=config.strict_plugins)
        self.store = Store(config.out)
        self.attempts: list[Record] = []
        for broken in self.registry.broken:
            self.reporter.warn(str(broken))

    def plan(self) -> Plan:
        return make_plan(self.config, self.registry, self.store, self.reporter.source_progress)

    def execute(self) -> Outcome:
        """Nothing in the directory is touched before the lock is held, and nothing written to it before it is known
        that the run can start. A run that is refused leaves no directory that it made."""
        self._started = False
        made = missing_folders(self.store.path)
        check_writable(self.store.path)
        lock = FileLock(self.store.path / ".lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise StoreError(
                f"another run is writing to {self.store.path}; wait for it or choose another --out"
            ) from None
        try:
            return self._execute()
        finally:
            lock.release()
            if not self._started and made:
                remove_made(made, self.store.path / ".lock")

    def _execute(self) -> Outcome:
        executor = self._executor()
        try:
            return self._execute_on(executor)
        finally:
            executor.close()

    def _execute_on(self, executor: Executor) -> Outcome:
        plan = self.plan()
        if self.config.storage:
            storage.check_writable(self.config.storage)
        self.store.plan_file.refuse_newer()
        self._check_data(plan)
        executor.prepare(list({self._needs(cell) for cell in plan.todo}))
        self._started = True
        self.store.prepare()
        for line in self.store.set_aside():
            self.reporter.warn(line)
        self._warn_misnamed(plan)
        for cell in plan.having(KEEP):
            self.reporter.warn(f"{cell.trial.model_label} on {cell.trial.task_label} is not run: {cell.reason}")
        self.store.add_to_plan((cell.trial for cell in plan.cells), self.config.command)
        done: dict[str, Record] = {
            cell.trial.key: cell.record for cell in plan.having(CACHED, SKIP, KEEP) if cell.record is not None
        }
        for cell in plan.having(SKIP):
            key = cell.trial.key
            done[key] = self.store.put(done[key]) or done[key]
        self.reporter.plan(self.config, plan)
        for note in executor.notes:
            self.reporter.note(note)
        todo = self._with_data(plan, done)
        try:
            for event in executor.run(self._work(todo)):
                if event.kind == "started":
                    self.reporter.trial_started(event.trial)
                elif event.kind == "progress":
                    self.reporter.trial_progress(event.trial, event.value)
                else:
                    self._finish(event.trial, event.value, done)
        except KeyboardInterrupt:
            for event in executor.stop():
                self._finish(event.trial, event.value, done)
            self.write_tables()
            raise RunInterrupted(f"stopped. {kept(todo, done)}") from None
        except ExecutorLost as error:
            self.write_tables()
            raise ExecutorLost(f"{error}. {kept(todo, done)}") from error
        board, paths = self.write_tables()
        return Outcome(plan, [done[cell.trial.key] for cell in plan.cells], board, paths, self.attempts)

    def write_tables(self) -> tuple[pd.DataFrame, list[Path]]:
        """The leaderboard, and the files that were written."""
        return write_board(self.store)

    def _warn_misnamed(self, plan: Plan) -> None:
        """What looks like part of the contract and is not is not passed over in silence."""
        for name in dict.fromkeys(cell.trial.model for cell in plan.todo):
            model = self.registry.model(name).spec.model_class()
            for line in misnamed(model) if model is not None else ():
                self.reporter.warn(f"model {name!r}: {line}")

    def _check_data(self, plan: Plan) -> None:
        """A data cache that can't be written is found before anything is: it would be the failure of every trial."""
        if any(not dataset.path.exists() for dataset in plan.datasets(plan.todo)):
            check_writable(cache.data_dir(), "It is the data cache: set PDEBENCH_HSS_CACHE to another place.")

    def _with_data(self, plan: Plan, done: dict[str, Record]) -> list[Cell]:
        """Make what is missing of the data; returns the cells that can run. A dataset that can't be made is the
        failure of its trials only."""
        todo = plan.todo
        hashes: dict[str, str] = {}
        for dataset in plan.datasets(todo):
            try:
                hashes[dataset.id] = self._ensure(dataset).sha256
            except KeyboardInterrupt:
                raise RunInterrupted(
                    "stopped while making data; what was made is kept, run the same command to go on."
                ) from None
            except DataError as error:
                for cell in todo:
                    if cell.dataset.id == dataset.id:
                        self._finish(cell.trial, ended_without_record(cell.trial, Status.FAILED, str(error)), done)
        stale = [cell for cell in plan.having(CACHED) if self._is_stale(cell, hashes)]
        if stale:
            self.reporter.warn(f"{len(stale)} trials were run on data that have changed since; running them again")
        for cell in stale:
            done.pop(cell.trial.key)
        runnable = [cell for cell in todo if cell.dataset.id in hashes]
        return runnable + [replace(cell, action=RUN) for cell in stale]

    def _is_stale(self, cell: Cell, hashes: dict[str, str]) -> bool:
        """A record counts only for the data it was made with."""
        assert cell.record is not None
        if cell.dataset.id not in hashes and (header := cache.existing(cell.dataset)):
            hashes[cell.dataset.id] = header.sha256
        known, used = hashes.get(cell.dataset.id), cell.record.data.get("sha256")
        return known is not None and used is not None and known != used

    def _ensure(self, dataset: cache.Dataset) -> Header:
        start = time.perf_counter()
        header = cache.ensure(
            dataset,
            jobs=self.config.jobs or available_cores(),  # on the CPU, whatever trains on
            plugin_files=tuple(self.config.plugins),
            progress=lambda done, total: self.reporter.data_progress(dataset, done, total),
        )
        self.reporter.data_ready(dataset, header, time.perf_counter() - start)
        return header

    def _executor(self) -> Executor:
        name = self.config.executor
        kind = load_reference("executor", name, self.registry.executor(name))
        return kind(self.registry, self.config)

    def _work(self, cells: Sequence[Cell]) -> list[Work]:
        if self.config.force:
            for cell in cells:
                storage.remove(self._checkpoint(cell.trial))
        return [
            Work(
                cell.trial,
                Context(
                    data=cell.dataset.path.name,
                    threads=self.config.threads,
                    checkpoint=self._checkpoint(cell.trial),
                    plugin_files=tuple(str(f) for f in self.config.plugins),
                    cuda_graphs=self.config.cuda_graphs,
                ),
                log=str(self.store.log(cell.trial.key)),
                needs=self._needs(cell),
                data=str(cell.dataset.path),
            )
            for cell in cells
        ]

    def _needs(self, cell: Cell) -> Resources:
        """What a trial needs where it runs, as the model, the task and the user state it."""
        spec, model = cell.dataset.spec, self.registry.model(cell.trial.model)
        on_gpu, trained = cell.trial.device == "cuda", model.spec.is_trained()
        default = Resources(cpus=1, gpus=1) if on_gpu else Resources(cpus=self.config.threads)
        task = spec.info(cell.trial.scale, cell.trial.task_params)
        stated = {
            f"model {model.spec.name!r}": ask(model, spec, lambda: model.spec.resources_for(task)),
            f"task {spec.name!r}": cell.dataset.size.resources,
        }
        found = needs(default, stated, self.config.resources)
        return found if trained else replace(found, gpus=0.0)  # closed forms stay on the CPU, whatever is stated

    def _checkpoint(self, trial: Trial) -> str:
        if self.config.storage:
            return storage.join(self.config.storage, "checkpoints", f"{trial.key}.pt")
        return str(self.store.checkpoint(trial.key))

    def _finish(self, trial: Trial, record: Record, done: dict[str, Record]) -> None:
        try:
            kept = self.store.put(record)
        except OSError as error:
            raise StoreError(
                f"can't write the record of {trial.model_label} on {trial.task_label} to {self.store.path}: "
                f"{error.strerror or error}. {len(done)} records are kept; mend it and run the same command to go on."
            ) from error
        if self.config.storage:
            storage.remove(self._checkpoint(trial))
        if record.status in (Status.OK, Status.SKIPPED):
            self.store.log(trial.key).unlink(missing_ok=True)
        record = replace(record, samples={})  # they are on disk; a long plan's would fill the memory
        if kept is not None:
            where = f"attempts/{trial.key}.json"
            record = replace(
                record, reason=f"{record.reason} (the {kept.status} record is kept; this attempt: {where})"
            )
            self.attempts.append(record)
        done[trial.key] = kept or record
        self.reporter.trial_finished(trial, record)
        for failure in self.registry.notify_finished(record):
            self.reporter.warn(str(failure))
