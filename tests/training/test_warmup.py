"""What a GPU compiles on the first pass of a shape is compiled before the clock starts, and leaves no trace.

A CPU stands in for the GPU: `warmup.needed` says yes, and a layer sleeps on the first batch of every size.
"""

from __future__ import annotations

import time

import pytest
import torch
from test_loop import NETWORKS, make_network, make_train, train_once
from torch import Tensor, nn

from pdebench_hss.contract.budget import Budget
from pdebench_hss.training import warmup

COMPILED: set[int] = set()


class Compiled(nn.Module):
    """Takes a third of a second for the first batch of a size."""

    def forward(self, x: Tensor) -> Tensor:
        if len(x) not in COMPILED:
            COMPILED.add(len(x))
            time.sleep(0.35)
        return x


class Eventful(nn.Module):
    """Everything that a pass can leave behind in a model: a buffer, an attribute, a random number."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.rows = torch.zeros(3)

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.rows[torch.randint(3, ())] += 1
        return x + 0.01 * self.calls + 0.01 * self.rows.sum() * torch.rand(())


def stand_in(monkeypatch) -> None:
    monkeypatch.setattr(warmup, "needed", lambda device: True)


def slow_start() -> nn.Module:
    COMPILED.clear()
    return nn.Sequential(make_network("plain"), Compiled())


def test_compilation_is_not_training(monkeypatch):
    """Seven samples in batches of four: two sizes."""
    budget = Budget("seconds", 0.2)
    cold = train_once(slow_start(), budget=budget)
    assert cold.spent.seconds > 0.35, "the layer does sleep"
    stand_in(monkeypatch)
    warm = train_once(slow_start(), budget=budget)
    assert warm.spent.seconds < 0.35
    assert warm.spent.steps > 2 * cold.spent.steps
    assert {4, 3} == COMPILED


@pytest.mark.parametrize("kind", [*NETWORKS, "eventful"])
def test_it_changes_no_result(monkeypatch, kind):
    results = []
    for warm in (False, True):
        module = nn.Sequential(make_network("plain"), Eventful()) if kind == "eventful" else make_network(kind)
        if warm:
            stand_in(monkeypatch)
        run = train_once(module)
        results.append((run.curve.losses, module.state_dict()))
    (cold, cold_weights), (warm, warm_weights) = results
    assert warm == cold
    assert all(torch.equal(cold_weights[name], value) for name, value in warm_weights.items())


def test_a_cpu_is_not_warmed_up():
    calls = []
    module = make_network("plain")
    module.register_forward_hook(lambda *_: calls.append(1))
    train_once(module, budget=Budget("steps", 2))
    assert len(calls) == 2
    assert warmup.needed(torch.device("cuda", 0))
    assert not warmup.needed(torch.device("cpu"))


def test_a_model_that_can_not_be_copied_trains_without(monkeypatch, capsys):
    stand_in(monkeypatch)
    module = make_network("plain")
    module.handle = (i for i in range(3))
    assert train_once(module).spent.steps == 9
    assert "no warm-up: the model can't be copied" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("n", "batch", "processes", "sizes"),
    [(7, 4, 1, [4, 3]), (8, 4, 1, [4]), (3, 4, 1, [3]), (7, 4, 2, [2]), (9, 4, 2, [2, 1])],
)
def test_every_size_that_occurs_is_warmed_up(n, batch, processes, sizes):
    assert warmup.batch_sizes(n, batch, processes) == sizes


def test_samples_are_as_they_were(monkeypatch):
    """Also with a model that changes its input in place."""

    class InPlace(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = make_network("plain")

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x.mul_(2.0))

    stand_in(monkeypatch)
    train = make_train()
    before = train.inputs.clone()
    train_once(InPlace(), train)
    assert torch.equal(train.inputs, before)
