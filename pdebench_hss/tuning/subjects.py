"""What is tuned: one model on one task, the options that may be chosen, and the trial of any choice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..base.errors import UsageError, did_you_mean
from ..base.hashing import digest
from ..contract.description import describe
from ..contract.model import RATES, ModelSpec
from ..contract.registry import Registry
from ..contract.search import Range
from ..contract.selection import Choice
from ..data.cache import Dataset
from ..runs.plan import Action, Plan, ask
from ..training.parameters import count_on_meta
from ..trials.trial import Trial
from .config import TuneConfig

LARGER = 2  # times the parameters that a model has by default: no try is larger, if nothing else is asked


@dataclass(frozen=True)
class Subject:
    """A model on a task. ``default`` is its trial without tuning; ``largest`` the parameters that a try may have."""

    spec: ModelSpec
    default: Trial
    dataset: Dataset
    space: Mapping[str, Range]
    typed: Mapping[str, Any]
    largest: int

    @property
    def name(self) -> str:
        return f"{self.default.model_label} on {self.default.task_label}"

    @property
    def defaults(self) -> dict[str, Any]:
        """What the options of the space are without tuning."""
        return {name: self._default(name) for name in self.space}

    def _default(self, name: str) -> Any:
        if name in self.default.hparams:
            return self.default.hparams[name]
        return getattr(self.default.optimizer if name in RATES else self.default, name)

    def trial(self, options: Mapping[str, Any]) -> Trial:
        """The trial of a choice of options; of none, that of the defaults."""
        hparams = {**self.default.hparams, **{k: v for k, v in options.items() if k in self.default.hparams}}
        rates = {k: v for k, v in options.items() if k not in hparams and k in RATES}
        others = {k: v for k, v in options.items() if k not in hparams and k not in RATES}
        return replace(
            self.default,
            hparams=hparams,
            optimizer=replace(self.default.optimizer, **rates),
            model_label=Choice(self.spec.name, {**self.typed, **options}).label,
            **others,
        )

    def refusal(self, options: Mapping[str, Any]) -> str:
        """Why a choice is not tried: too large, or refused by the model itself; empty if it can be."""
        trial = self.trial(options)
        task = self.dataset.spec.info(trial.scale, trial.task_params)
        try:
            count = count_on_meta(self.spec, task, trial.hparams).real
        except (ValueError, RuntimeError, AssertionError) as error:
            return str(error) or type(error).__name__
        return f"{count} parameters, at most {self.largest} are allowed" if count > self.largest else ""

    @property
    def identity(self) -> str:
        """A hash of everything a sequence of tries depends on, besides the sampler and its seed."""
        trial = {**self.default.to_dict(), "model_label": "", "task_label": ""}
        return digest([trial, describe(self.space), describe(self.typed), self.largest])


def subjects(config: TuneConfig, registry: Registry, plan: Plan) -> list[Subject]:
    """The models of a plan that are trained, each on each of its tasks. Baselines have nothing to tune."""
    typed = {choice.label: choice.options for choice in registry.choose_models(config.models)}
    found = []
    known: dict[str, None] = {}  # every option that some space has
    for cell in plan.cells:
        model = registry.model(cell.trial.model)
        if cell.action is Action.SKIP or model.spec.training_free or not model.spec.is_trained():
            continue
        trial = replace(cell.trial, judge="val")
        task = cell.dataset.spec.info(trial.scale, trial.task_params)
        options = typed[trial.model_label]
        space = ask(model, cell.dataset.spec, lambda spec=model.spec, task=task: spec.search_for(task))
        known |= dict.fromkeys(space)
        wanted = space if config.options is None else config.options
        space = {name: found for name, found in space.items() if name in wanted and name not in options}
        largest = config.largest or LARGER * count_on_meta(model.spec, task, trial.hparams).real
        found.append(Subject(model.spec, trial, cell.dataset, space, options, largest))
    if not found:
        raise UsageError("nothing to tune: none of the models is trained on any of the tasks")
    for name in config.options or []:
        if name not in known:
            hint = did_you_mean(name, known)
            raise UsageError(f"--only {name}: no model here tunes it.{hint}  Options: {', '.join(known)}")
    return found
