"""Tuning: rounds of tries through the same executors as every run, and the best of each model's tries.

    config -> plan of the defaults -> subjects -> [ draw a round -> run it -> tell its errors ]... -> chosen options

A try is a trial that is judged by samples held out from train (``judge="val"``), so nothing of the test split is read.
Every model has the same number of tries, each of the same budget, its defaults among them. No try is cut short: under a
rate that falls with the budget the error half-way says little, and a model whose tries were cut short would have been
tuned less.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
from filelock import FileLock, Timeout

from ..base.errors import StoreError
from ..base.files import check_writable
from ..contract.registry import Registry
from ..data.cache import Dataset
from ..data.hdf5 import Header
from ..runs.estimates import estimate
from ..runs.plan import Action, Cell, Plan, make_plan, plan_of
from ..runs.reporter import Reporter
from ..runs.runner import Run
from ..trials.record import Record
from ..trials.status import Status
from ..trials.store import Store
from ..trials.trial import Trial
from .config import TuneConfig
from .sampling import ROUND, Draws, Storage
from .subjects import Subject, subjects

DATABASE = "optuna.db"


@dataclass(frozen=True)
class Try:
    """One choice of options, and the outcome of its trial."""

    number: int
    options: Mapping[str, Any]
    record: Record

    @property
    def error(self) -> float:
        """On the held-out samples; infinite where there is none."""
        found = self.record.metrics.get("val_err") if self.record.status == Status.OK else None
        return found if found is not None and math.isfinite(found) else math.inf

    @property
    def seconds(self) -> float:
        return self.record.seconds.get("total") or 0.0


@dataclass(frozen=True)
class Chosen:
    """All tries of a subject. The best one is the first of those with the smallest held-out error."""

    subject: Subject
    tries: Sequence[Try]

    @property
    def before(self) -> Try:
        return self.tries[0]

    @property
    def best(self) -> Try:
        return min(self.tries, key=lambda one: (one.error, one.number))

    @property
    def failed(self) -> int:
        """Tries that the same command tries again; one that diverged is settled."""
        return sum(not one.record.status.is_settled for one in self.tries)

    @property
    def seconds(self) -> float:
        return sum(one.seconds for one in self.tries)


class RoundOfTries(Run):
    """A run of tries: it keeps their records, and makes no tables of them. ``ready`` are data of earlier rounds."""

    def __init__(self, tuning: Tuning, trials: Iterable[tuple[Trial, Dataset]]) -> None:
        super().__init__(tuning.config, tuning.registry, tuning.reporter)
        self.trials, self.ready = trials, tuning.ready

    def _make_plan(self) -> Plan:
        return plan_of(self.trials, self.store, self.config)

    def _ensure(self, dataset: Dataset) -> Header:
        if dataset.id not in self.ready:
            self.ready[dataset.id] = super()._ensure(dataset)
        return self.ready[dataset.id]

    def write_tables(self) -> tuple[pd.DataFrame, list[Path]]:
        return pd.DataFrame(), []


class Tuning:
    """One `tune`. ``reporter`` is told about each round as about a run."""

    def __init__(self, config: TuneConfig, registry: Registry, reporter: Reporter | None = None) -> None:
        self.config, self.registry, self.reporter = config, registry, reporter or Reporter()
        self.folder = Path(config.out)
        self.store = Store(config.out)
        self.ready: dict[str, Header] = {}
        self.defaults = make_plan(config, registry, self.store, self.reporter.source_progress)
        self.subjects = subjects(config, registry, self.defaults)
        self.skipped = {  # what a model can't do has no tries, and says why
            f"{cell.trial.model_label} on {cell.trial.task_label}": cell.reason
            for cell in self.defaults.cells
            if cell.action is Action.SKIP and not cell.trial.training_free
        }

    def estimate(self) -> float:
        """Seconds that all tries may take, judged by their defaults."""
        cells = [Cell(subject.trial({}), subject.dataset, Action.RUN) for subject in self.subjects]
        expected = estimate(replace(self.defaults, cells=cells), self.config.plugins)
        return expected.seconds * self.config.tries

    def execute(self) -> list[Chosen]:
        """If interrupted it raises as a run does; repeating the command resumes."""
        with self._alone():
            storage = Storage(self.folder / DATABASE)
            try:
                return self._rounds(
                    {
                        subject.name: Draws(storage, subject, self.config.sampler, self.config.seed)
                        for subject in self.subjects
                    }
                )
            finally:
                storage.close()

    def _rounds(self, draws: Mapping[str, Draws]) -> list[Chosen]:
        tries: dict[str, list[Try]] = {subject.name: [] for subject in self.subjects}
        for start in range(0, self.config.tries, ROUND):
            numbers = range(start, min(start + ROUND, self.config.tries))
            options = {(s.name, n): draws[s.name].options(n) for s in self.subjects for n in numbers}
            found = self._run_round(options)
            for subject in self.subjects:
                for number in numbers:
                    chosen = options[subject.name, number]
                    one = Try(number, chosen, found[subject.trial(chosen).key])
                    tries[subject.name].append(one)
                    draws[subject.name].tell(number, _told(one))
        return [Chosen(subject, tries[subject.name]) for subject in self.subjects]

    def _run_round(self, options: Mapping[tuple[str, int], Mapping[str, Any]]) -> dict[str, Record]:
        by_name = {subject.name: subject for subject in self.subjects}
        trials = {}  # by key: two tries of one choice are one trial
        for (name, _), chosen in options.items():
            trial = by_name[name].trial(chosen)
            trials[trial.key] = (trial, by_name[name].dataset)
        outcome = RoundOfTries(self, trials.values()).execute()
        return {record.key: record for record in outcome.records}

    @contextmanager
    def _alone(self) -> Iterator[None]:
        check_writable(self.folder)
        lock = FileLock(self.folder / ".tune.lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise StoreError(f"another tune is writing to {self.folder}; wait for it or choose another --out") from None
        try:
            yield
        finally:
            lock.release()


def _told(one: Try) -> float | None:
    """What a sampler learns: an error, that a choice diverges, or nothing, where the machine may be at fault."""
    return one.error if one.record.status in (Status.OK, Status.DIVERGED) else None
