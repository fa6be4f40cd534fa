"""Small training sets and networks, and what it takes to train one on the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pdebench_hss.contract.budget import Budget
from pdebench_hss.contract.optimizer import Optimizer
from pdebench_hss.training.loop import TrainingState, fit
from pdebench_hss.training.normalization import Affine, Normalizer
from pdebench_hss.training.windows import TrainSet

from .tasks import make_task

NUMBERS = Optimizer(batch=4, lr=3e-2, lr_min=1e-4, weight_decay=0.1)
STEPS = 9  # more than four epochs of seven samples in batches of four
GRID = (8,)


def make_train(n=7, channels=1, grid=GRID, **task: Any) -> TrainSet:
    """Noise to learn, already normalised."""
    generator = torch.Generator().manual_seed(0)
    inputs, outputs = (torch.randn(n, channels, *grid, generator=generator) for _ in range(2))
    one = Affine(np.zeros(channels), np.ones(channels))
    info = make_task(grid=grid, train=n, channels=(channels, channels), **task)
    return TrainSet(inputs, outputs, Normalizer(one, one), info)


class Spectral(nn.Module):
    """A layer with complex weights, for which the optimiser takes another way."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, dtype=torch.cfloat))

    def forward(self, x: Tensor) -> Tensor:
        return torch.fft.irfft(torch.fft.rfft(x) * self.weight, n=x.shape[-1])


NETWORKS = {
    "plain": lambda: [nn.Conv1d(1, 4, 3, padding=1), nn.GELU(), nn.Conv1d(4, 1, 1)],
    "dropout": lambda: [nn.Conv1d(1, 4, 3, padding=1), nn.Dropout(0.3), nn.Conv1d(4, 1, 1)],
    "batchnorm": lambda: [nn.Conv1d(1, 4, 3, padding=1), nn.BatchNorm1d(4), nn.Conv1d(4, 1, 1)],
    "complex": lambda: [nn.Conv1d(1, 1, 3, padding=1), Spectral()],
}


def make_network(kind: str) -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(*NETWORKS[kind]())


def train_once(
    module: nn.Module, train: TrainSet | None = None, budget=None, seed=0, flops_step=1.0, **options
) -> TrainingState:
    torch.manual_seed(11)
    return fit(
        module, train or make_train(), budget or Budget("steps", STEPS), options.pop("numbers", NUMBERS), seed=seed,
        device=torch.device("cpu"), flops_step=flops_step, **options,
    )  # fmt: skip


def same_state(one: nn.Module, other: nn.Module) -> bool:
    """Weights and buffers, bit for bit."""
    a, b = one.state_dict(), other.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


SHARE = 0.5


class Clock:
    """Time that passes by one tick whenever somebody looks. Of it, the process has its core for `SHARE`."""

    def __init__(self, tick: float) -> None:
        self.now, self.tick = 0.0, tick

    def perf_counter(self) -> float:
        self.now += self.tick
        return self.now

    def process_time(self) -> float:
        return SHARE * self.now
