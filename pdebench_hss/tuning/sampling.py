"""Which options are tried: Optuna's samplers, one Optuna study for each subject, all of them in one SQLite file.

Tries come in rounds of `ROUND`, and a round is drawn before any of it runs. So the same seed gives the same tries,
however many of them run side by side and in which order they end, and also after a kill: what was drawn is in the file.
The first try is the model's defaults; the rest of the first `FILLING` fill the space evenly (a scrambled Sobol
sequence); then `tpe` draws near the best. Choices that a model refuses, or that are too large, are bad ones for the
sampler, and are drawn again.

The file can be lost: the records of tries are kept elsewhere, and the same draws find them again.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.samplers import BaseSampler, QMCSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial
from sqlalchemy.exc import SQLAlchemyError

from ..base.errors import StoreError, UsageError
from ..base.hashing import digest, seed_from
from ..contract.search import Integer, OneOf, Range, Real
from .subjects import Subject

ROUND = 4
FILLING = 2 * ROUND
DRAWS = 200  # refused draws in a row after which a space counts as unusable
LOCK_SECONDS = 5.0
TRY, OPTIONS, REFUSED = "try", "options", "refused"


optuna.logging.set_verbosity(optuna.logging.ERROR)


class Draws:
    """The tries of one subject, as Optuna draws them. Numbers count tries from 0 on."""

    def __init__(self, storage: Storage, subject: Subject, sampler: str, seed: int) -> None:
        self.storage, self.subject, self.sampler = storage, subject, sampler
        self.seed = seed_from("tune", seed, subject.default.task_label, subject.default.model_label)
        name = digest([subject.identity, sampler, seed, ROUND, FILLING])[:12]
        self.distributions = {option: _distribution(found) for option, found in subject.space.items()}
        with storage.guarded():
            self._study = optuna.create_study(
                study_name=f"{subject.name} {name}", storage=storage.backend, direction="minimize", load_if_exists=True
            )

    def options(self, number: int) -> dict[str, Any]:
        """The options of a try, drawn now, with the rest of its round, if it was not before."""
        with self.storage.guarded():
            known = self._tries()
            while len(known) <= number or len(known) % ROUND:
                self._draw(len(known))
                known = self._tries()
        return dict(known[number].user_attrs[OPTIONS])

    def tell(self, number: int, error: float | None) -> None:
        """The held-out error of a try, infinite if it diverged, None if the machine failed; only the first counts."""
        with self.storage.guarded():
            trial = self._tries()[number]
            if trial.state.is_finished():
                return
            if error is None or math.isnan(error):
                return  # it is tried again by the same command
            self._study.tell(trial.number, error)

    def _tries(self) -> list[FrozenTrial]:
        found = [trial for trial in self._study.get_trials(deepcopy=False) if TRY in trial.user_attrs]
        return sorted(found, key=lambda trial: trial.user_attrs[TRY])

    def _draw(self, number: int) -> None:
        if number == 0:
            self._study.enqueue_trial(
                {name: _inside(found, self.subject.defaults[name]) for name, found in self.subject.space.items()}
            )
        reason = ""
        for _ in range(DRAWS):
            drawn = len(self._study.get_trials(deepcopy=False))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Optuna's, about samplers that it calls experimental
                self._study.sampler = self._sampler(number, drawn)
                trial = self._study.ask(self.distributions)
            options = {} if number == 0 else {name: _rounded(value) for name, value in trial.params.items()}
            reason = self.subject.refusal(options) if number else ""
            if not reason:
                trial.set_user_attr(OPTIONS, options)
                trial.set_user_attr(TRY, number)
                return
            trial.set_user_attr(REFUSED, reason)
            self._study.tell(trial.number, math.inf)  # a sampler that forgot it would go on drawing there
        raise UsageError(f"{self.subject.name}: {DRAWS} choices in a row can't be tried, the last one: {reason}")

    def _sampler(self, number: int, drawn: int) -> BaseSampler:
        """A fresh one for each draw, seeded by what is drawn: its state need not outlive a kill."""
        seed = seed_from(self.seed, drawn) % 2**32
        if self.sampler == "random":
            return RandomSampler(seed=seed)
        if self.sampler == "qmc" or number < FILLING:
            return Filling(self.distributions, self.seed % 2**32, RandomSampler(seed=seed))
        return TPESampler(seed=seed, n_startup_trials=0, multivariate=True, constant_liar=True)


class Filling(QMCSampler):
    """Optuna's own looks for the space in tries that have ended; here it is known before the first one has.

    Which point of the sequence comes next is in Optuna's file. Choices have no order to fill: they are drawn at random.
    """

    def __init__(self, space: Mapping[str, BaseDistribution], seed: int, choices: BaseSampler) -> None:
        super().__init__(qmc_type="sobol", scramble=True, seed=seed, independent_sampler=choices)
        self.space = {name: kind for name, kind in space.items() if not isinstance(kind, CategoricalDistribution)}

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self.space


class Storage:
    """Optuna's SQLite file. Any problem with it is reported in one line and loses no try."""

    def __init__(self, path: Path) -> None:
        self.path = path
        timeout = {"connect_args": {"timeout": LOCK_SECONDS}}
        try:
            with self.guarded():
                self.backend = optuna.storages.RDBStorage(f"sqlite:///{path}", engine_kwargs=timeout)
        except (RuntimeError, AssertionError) as error:  # a database of another program, or of another Optuna
            raise StoreError(self._line(error)) from error

    def close(self) -> None:
        self.backend.engine.dispose()

    @contextmanager
    def guarded(self) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, optuna.exceptions.OptunaError) as error:
            raise StoreError(self._line(error)) from error

    def _line(self, error: BaseException) -> str:
        cause = error.__cause__ if isinstance(error, optuna.exceptions.StorageInternalError) else error
        said = str(getattr(cause, "orig", cause) or type(error).__name__).splitlines()[0]
        if "locked" in said:
            return f"{self.path} is locked by another process; wait for it. The tries that are done are kept"
        return (
            f"{self.path} can't be used ({said}); remove it and run the same command: "
            f"the records of tries in {self.path.parent} are kept, and it is made again from them"
        )


def _distribution(found: Range) -> BaseDistribution:
    if isinstance(found, Real):
        return FloatDistribution(found.low, found.high, log=found.log)
    if isinstance(found, Integer):
        return IntDistribution(found.low, found.high, log=found.log)
    return CategoricalDistribution(found.values)


def _inside(found: Range, value: Any) -> Any:
    """The value of a range that is nearest to a default: the sampler can't remember what lies outside."""
    if value in found:
        return value
    if isinstance(found, OneOf):
        return found.values[0]
    return min(max(value, found.low), found.high)


def _rounded(value: Any) -> Any:
    """Three digits are precise enough for a tuned option."""
    return float(f"{value:.3g}") if isinstance(value, float) else value
