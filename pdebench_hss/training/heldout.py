"""The error on held-out training samples at a few points of the budget: a learning curve in the task's own metric.

Like the test error it is in physical units, over whole rollouts where the task has them. A copy of the model is
evaluated, so that training is not affected: neither by what a forward pass leaves in a model nor by random numbers.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from ..base.devices import DEFAULT_PRECISION
from ..contract.budget import Spent
from ..contract.task import TaskInfo
from ..data.dataset import Split
from .evaluation import Predictor
from .metrics import mean_of, sample_errors
from .normalization import Normalizer
from .trial_device import kept_random_state

POINTS = 10  # evenly spaced along the budget; the last is its end


@dataclass
class HeldOutCurve:
    """The mean error on the held-out samples after so many steps and seconds of training."""

    steps: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    next: int = 1  # point

    def is_due(self, fraction: float) -> bool:
        return fraction >= self.next / POINTS

    def add(self, spent: Spent, error: float) -> None:
        self.steps.append(spent.steps)
        self.seconds.append(spent.seconds)
        self.errors.append(error)
        self.next += 1

    def arrays(self) -> dict[str, np.ndarray]:
        """In the form of a record; empty if no error was measured."""
        if not self.steps:
            return {}
        return {
            "val_steps": np.asarray(self.steps),
            "val_seconds": np.asarray(self.seconds),
            "val_errors": np.asarray(self.errors),
        }


@dataclass(frozen=True)
class HeldOut:
    """Samples in physical units, and how a model predicts them."""

    samples: Split
    task: TaskInfo
    normalizer: Normalizer
    batch: int
    device: torch.device
    precision: str = DEFAULT_PRECISION

    def ask(self, model: Any) -> np.ndarray:
        """Its prediction for the held-out inputs."""
        return Predictor(model, self.task, self.normalizer, self.batch, self.device, self.precision)(
            self.samples.inputs
        )

    def error(self, module: nn.Module) -> float:
        """The mean of the task's metric for a module in training; infinite if a prediction is not finite."""
        with kept_random_state(self.device):
            prediction = self.ask(_copied(module))
        module.train()  # if the model itself was evaluated and not a copy
        if not np.isfinite(prediction).all():
            return math.inf
        return mean_of(
            sample_errors(prediction, self.samples.outputs, self.task.spec.metric, self.task.mask)["test_err"]
        )


def _copied(module: nn.Module) -> nn.Module:
    try:
        return copy.deepcopy(module)
    except (TypeError, RuntimeError):  # models that hold a handle or a graph can't be copied
        return module
