"""A model on a task, prepared for the promises of the model contract: built, fitted, with samples made in memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..base.references import call_target
from ..contract import traits
from ..contract.budget import Budget
from ..contract.model import ModelSpec
from ..contract.task import TaskInfo, TaskSpec
from ..data import cache
from ..data.reading import read_whole
from ..training.allowance import Allowance
from ..training.windows import TrainSet, prepare

SCALE = "smoke"
SEED = 20240229
FIT_STEPS, FIT_BATCH = 4, 4  # for models that train themselves


@dataclass(frozen=True)
class Subject:
    """A model on a task, with what the promises need of it."""

    spec: ModelSpec
    task: TaskInfo

    def build(self, seed: int = SEED, **changes: Any) -> Any:
        torch.manual_seed(seed)
        return self.spec.make(self.task, {**self.spec.hparams_for(self.task), **changes})

    def inputs(self, n: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return self.pairs(dtype).inputs[:n].clone()

    def pairs(self, dtype: torch.dtype = torch.float32) -> TrainSet:
        return prepare(samples(self.task.spec), dtype)

    @property
    def is_trained(self) -> bool:
        kind = type(self.build())
        return not (traits.is_closed_form(kind) or traits.trains_itself(kind))

    def fit(self, model: Any, train: TrainSet) -> None:
        """Fit it as the core does: within a small budget, if it takes one."""
        if traits.trains_itself(type(model)):
            model.train()
            model.fit(train, Allowance(Budget("steps", FIT_STEPS), len(train), FIT_BATCH, 0.0))
        elif hasattr(model, "fit"):
            model.fit(train)

    @property
    def fit_dtype(self) -> torch.dtype:
        return torch.float32 if traits.trains_itself(type(self.build())) else torch.float64


@lru_cache(maxsize=64)
def samples(spec: TaskSpec) -> cache.TaskData:
    """The first samples of a task, made in memory: contracts need neither cache nor disk."""
    size = spec.scales[SCALE]
    if spec.generate is None:
        read = read_whole(spec, Path(spec.files), size, {})
        train, test = (cache.Split(*cache.as_seen(spec, *read[split])) for split in ("train", "test"))
        return cache.TaskData(spec.info(SCALE), train, test, "")
    splits = []
    for split, count in (("train", size.train), ("test", size.test)):
        keywords = dict(spec.params)
        if spec.cases > 1:
            keywords["cases"] = np.arange(count) % spec.cases
        arrays = call_target(spec.generate)(cache.sample_seeds(spec, split, 0, count), size, **keywords)
        splits.append(cache.Split(*cache.as_seen(spec, *arrays)))
    return cache.TaskData(spec.info(SCALE), splits[0], splits[1], "")
