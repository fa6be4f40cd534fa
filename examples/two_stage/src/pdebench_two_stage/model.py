"""A convolutional network that trains itself in two stages, as physics-informed networks usually are.

    M(u) = C_L tanh(... tanh(C_1 u))                 C_l: 5 taps

1.  Adam on batches, with a cosine of its own, for ``adam_share`` of the budget
2.  L-BFGS with a line search on all samples, for the rest

The budget is asked before everything that costs something, so nothing is overspent: `budget.share_of(samples)` is the
fraction that gradients of so many samples cost. A gradient of all samples costs as many steps as they have batches. A
line search that the budget ends half-way leaves the best weights it has seen.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pdebench_hss import Allowance, TaskInfo, TrainSet

CONVOLUTION = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}


class CNN(nn.Module):
    def __init__(self, task: TaskInfo, width: int, layers: int) -> None:
        super().__init__()
        widths = [task.in_channels, *[width] * (layers - 1), task.out_channels]
        padding = "circular" if task.periodic else "zeros"
        self.layers = nn.ModuleList(
            CONVOLUTION[task.dim](i, o, 5, padding=2, padding_mode=padding) for i, o in pairwise(widths)
        )
        inside = torch.ones(task.grid) if task.mask is None else torch.as_tensor(task.mask, dtype=torch.float32)
        self.register_buffer("inside", inside, persistent=False)

    def forward(self, u: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            u = torch.tanh(layer(u))
        return self.layers[-1](u)  # (batch, out_channels, *grid)


class OutOfBudget(Exception):
    """L-BFGS asked for a gradient that the budget does not pay for."""


class TwoStage(CNN):
    def __init__(self, task: TaskInfo, width: int, layers: int, rate: float, adam_share: float) -> None:
        super().__init__(task, width, layers)
        self.rate, self.adam_share = rate, adam_share

    def fit(self, train: TrainSet, budget: Allowance) -> None:
        # L-BFGS needs a few gradients of all samples to be of use; if they don't fit, Adam has the whole budget.
        enough = budget.share_of(4 * len(train)) <= 1 - self.adam_share
        self._adam(train, budget, until=self.adam_share if enough else 1.0)
        if enough:
            self._lbfgs(train, budget)

    def _adam(self, train: TrainSet, budget: Allowance, until: float) -> None:
        adam = torch.optim.Adam(self.parameters(), lr=self.rate)
        order = torch.randperm(len(train)).to(train.inputs.device)
        first = 0
        while (gone := budget.fraction) + budget.share_of(budget.batch) <= until:
            adam.param_groups[0]["lr"] = self.rate * (1 + math.cos(math.pi * gone / until)) / 2
            if first >= len(train):
                order, first = torch.randperm(len(train)).to(order.device), 0
            index = order[first : first + budget.batch]
            first += budget.batch
            adam.zero_grad()
            loss = self._error(train.inputs[index], train.outputs[index])
            loss.backward()
            adam.step()
            budget.step(loss=loss.detach())

    def _lbfgs(self, train: TrainSet, budget: Allowance) -> None:
        lbfgs = torch.optim.LBFGS(self.parameters(), line_search_fn="strong_wolfe", history_size=20)
        steps = math.ceil(len(train) / budget.batch)
        best, weights = math.inf, [p.detach().clone() for p in self.parameters()]

        def closure() -> float:
            nonlocal best, weights
            if budget.fraction + budget.share_of(len(train)) > 1:
                raise OutOfBudget
            lbfgs.zero_grad()
            total = 0.0
            for x, y in zip(train.inputs.split(budget.batch), train.outputs.split(budget.batch)):
                loss = self._error(x, y) * len(x) / len(train)
                loss.backward()
                total += loss.item()
            budget.step(steps, loss=total)
            if total < best:
                best, weights = total, [p.detach().clone() for p in self.parameters()]
            return total

        try:
            while True:
                before = best
                lbfgs.step(closure)
                if best == before:  # it has converged
                    break
        except OutOfBudget:
            pass
        with torch.no_grad():
            for p, kept in zip(self.parameters(), weights):
                p.copy_(kept)

    def _error(self, x: Tensor, y: Tensor) -> Tensor:
        return F.mse_loss(self(x) * self.inside, y * self.inside)
