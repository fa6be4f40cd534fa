"""What the checks are tried on: every model that is trained, each on the smallest task it can do, at scale smoke."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import nn

from ..contract.model import ModelSpec
from ..contract.optimizer import Optimizer
from ..contract.registry import Registry
from ..contract.task import TaskInfo, TaskSpec
from ..data import cache
from ..runs.config import make_config
from ..runs.plan import Cell, make_plan
from ..training.normalization import Affine, Normalizer
from ..training.windows import TrainSet
from ..trials import warm
from ..trials.context import Context
from ..trials.record import Record
from ..trials.run_trial import run_trial
from ..trials.store import Store

SCALE = "smoke"
NUMBERS = Optimizer(batch=8, lr=1e-3, lr_min=1e-4, weight_decay=1e-4)


@lru_cache
def registry() -> Registry:
    return warm.registry(())


@dataclass(frozen=True)
class Case:
    """A model on a task that it supports."""

    model: ModelSpec
    task: TaskSpec

    @property
    def name(self) -> str:
        return f"{self.model.name} on {self.task.name}"

    @property
    def info(self) -> TaskInfo:
        return self.task.info(SCALE)

    def build(self) -> nn.Module:
        """The same weights every time."""
        torch.manual_seed(0)
        return self.model.make(self.info, self.model.hparams_for(self.info))

    def train_set(self, n: int = 20) -> TrainSet:
        """Noise of the task's shape: nothing is to be learned here."""
        info, generator = self.info, torch.Generator().manual_seed(1)
        inputs = torch.randn(n, info.in_channels, *info.grid, generator=generator)
        outputs = torch.randn(n, info.out_channels, *info.grid, generator=generator)
        same = [Affine(np.zeros(c), np.ones(c)) for c in (info.in_channels, info.out_channels)]
        return TrainSet(inputs, outputs, Normalizer(*same), info)


def cases(dimensions: tuple[int, ...] = (1, 2, 3)) -> Iterator[Case]:
    """Each trained model once for each dimension that it can do."""
    tasks = [entry.spec for entry in registry().tasks.values() if SCALE in entry.spec.scales]
    tasks.sort(key=lambda spec: (math.prod(spec.info(SCALE).grid), spec.name))
    for entry in sorted(registry().models.values(), key=lambda entry: entry.spec.name):
        if entry.spec.training_free:
            continue
        for dim in dimensions:
            fits = (t for t in tasks if t.dim == dim and entry.spec.unsupported(t.info(SCALE)) is None)
            if (task := next(fits, None)) is not None:
                yield Case(entry.spec, task)


def each_model() -> Iterator[Case]:
    """Each trained model once, on the smallest task of the lowest dimension."""
    seen: set[str] = set()
    for case in cases():
        if case.model.name not in seen:
            seen.add(case.model.name)
            yield case


def trained_trials(device: str, **options: Any) -> Iterator[Cell]:
    """A trial for each trained model, planned as ``run`` would; its data are made if they are missing."""
    for case in each_model():
        with tempfile.TemporaryDirectory() as folder:
            wish = {"models": case.model.name, "tasks": case.task.name, "scale": SCALE, "device": device, "out": folder}
            plan = make_plan(make_config({**wish, **options}), registry(), Store(folder))
        (cell,) = plan.cells
        cache.ensure(cell.dataset)
        yield cell


def run(cell: Cell) -> Record:
    return run_trial(cell.trial, Context(threads=torch.get_num_threads()), registry())
