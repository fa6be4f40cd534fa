"""Networks with a loss, an optimiser or a training loop of their own."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self, task):
        super().__init__()
        self.net = nn.Conv1d(task.in_channels, task.out_channels, 3, padding=1, padding_mode="circular")

    def forward(self, x):
        return self.net(x)


class OwnLoss(Net):
    def loss(self, prediction, target, batch):
        return (prediction - target).abs().mean()


class VectorLoss(Net):
    def loss(self, prediction, target, batch):
        return (prediction - target).square().mean(dim=(1, 2))


class NanLoss(Net):
    def loss(self, prediction, target, batch):
        return (prediction - target).mean() * float("nan")


class OwnOptimizer(Net):
    def configure_optimizer(self, parameters, recipe):
        return torch.optim.SGD(parameters, lr=10 * recipe.lr)


class Lbfgs(Net):
    def configure_optimizer(self, parameters, recipe):
        return torch.optim.LBFGS(parameters, line_search_fn="strong_wolfe")


class NoParameters(Net):
    def configure_optimizer(self, parameters, recipe):
        return torch.optim.SGD([{"params": []}], lr=recipe.lr)


class TrainsItself(Net):
    """Adam on batches in order, until the budget is spent."""

    def fit(self, train, budget):
        adam, first = torch.optim.Adam(self.parameters(), lr=1e-2), 0
        while not budget.is_spent:
            batch = slice(first, first + budget.batch)
            adam.zero_grad()
            loss = F.mse_loss(self(train.inputs[batch]), train.outputs[batch])
            loss.backward()
            adam.step()
            budget.step(loss=loss)
            first = first + budget.batch if first + budget.batch < len(train) else 0


class FullBatch(Net):
    """One gradient of the whole set a turn, and it says that it was one step."""

    def fit(self, train, budget):
        adam = torch.optim.Adam(self.parameters(), lr=1e-2)
        for _ in range(int(budget.amount)):
            adam.zero_grad()
            F.mse_loss(self(train.inputs), train.outputs).backward()
            adam.step()
            budget.step()


class IgnoresTheBudget(Net):
    """Takes a budget and never looks at it, nor says what it did."""

    def fit(self, train, budget):
        adam = torch.optim.Adam(self.parameters(), lr=1e-2)
        for _ in range(100):
            adam.zero_grad()
            F.mse_loss(self(train.inputs[:4]), train.outputs[:4]).backward()
            adam.step()


class NeverCallsItself(Net):
    """The same, around its own forward pass."""

    def fit(self, train, budget):
        for _ in range(100):
            torch.autograd.grad(F.mse_loss(self.net(train.inputs[:4]), train.outputs[:4]), list(self.parameters()))


class Lightning(Net):
    def training_step(self, batch, index):
        raise AssertionError("nobody calls this")

    def configure_optimizers(self):
        raise AssertionError("nobody calls this")


class HoldsALoss(Net):
    def __init__(self, task):
        super().__init__(task)
        self.loss_fn = nn.MSELoss()
        self.loss = nn.MSELoss()


class ClosedForm(Net):
    """A second argument with a default is no budget."""

    def fit(self, train, ridge=0.1):
        with torch.no_grad():
            self.net.weight.fill_(ridge)
        self.double()
