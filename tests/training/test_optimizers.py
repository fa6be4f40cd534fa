"""A model's own optimiser: its rates on the core's cosine, its closures paid by the budget."""

from __future__ import annotations

import math

import pytest
import torch
from test_loop import make_network, make_train, same_state, train_once
from torch import nn

from pdebench_hss.contract.budget import Budget
from pdebench_hss.contract.optimizer import Optimizer
from pdebench_hss.training.loop import Interrupted
from pdebench_hss.training.windows import TrainSet

NUMBERS = Optimizer(batch=4, lr=1e-2, lr_min=1e-4, weight_decay=0.1)


class WithOptimizer(nn.Module):
    def __init__(self, make, net: nn.Module | None = None) -> None:
        super().__init__()
        self.net, self.make = net or make_network("plain"), make

    def forward(self, x):
        return self.net(x)

    def configure_optimizer(self, parameters, recipe):
        return self.make(parameters, recipe)


class Watched(torch.optim.SGD):
    """Writes down the rates that it was asked to step with."""

    def __init__(self, groups, **settings):
        super().__init__(groups, **settings)
        self.rates = []

    def step(self, closure=None):
        self.rates.append([group["lr"] for group in self.param_groups])
        return super().step(closure)


def test_the_cosine_multiplies_the_rates_of_each_group():
    made = []

    def make(parameters, recipe):
        first, *rest = parameters
        made.append(Watched([{"params": [first], "lr": 0.5}, {"params": rest}], lr=recipe.lr))
        return made[0]

    train_once(WithOptimizer(make), budget=Budget("steps", 8), numbers=NUMBERS)
    share = [0.01 + 0.99 * (1 + math.cos(math.pi * step / 8)) / 2 for step in range(8)]
    assert [rates[0] for rates in made[0].rates] == pytest.approx([0.5 * s for s in share])
    assert [rates[1] for rates in made[0].rates] == pytest.approx([NUMBERS.lr * s for s in share])


def test_adamw_brought_along_is_the_core_s_but_for_clipping():
    """With gradients shorter than 1 nothing is clipped, and the two are the same bit for bit."""
    train = make_train()
    quiet = TrainSet(train.inputs, 0.1 * train.outputs, train.normalizer, train.task)

    def make(parameters, recipe):
        return torch.optim.AdamW(
            parameters, lr=recipe.lr, betas=(0.9, 0.99), weight_decay=recipe.weight_decay, fused=True
        )

    own, core = WithOptimizer(make), make_network("plain")
    train_once(own, quiet, numbers=NUMBERS)
    train_once(core, quiet, numbers=NUMBERS)
    for a, b in zip(own.net.parameters(), core.parameters()):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-7)  # rates are a product here, and a sum there


# --- closures --------------------------------------------------------------------------------------------------------


def lbfgs(parameters, recipe):
    return torch.optim.LBFGS(
        parameters, lr=1.0, line_search_fn="strong_wolfe", tolerance_grad=1e-15, tolerance_change=0.0
    )


def linear_train() -> TrainSet:
    """Seven samples of a linear map that a linear model can be fitted to without error."""
    train = make_train()
    torch.manual_seed(3)
    outputs = train.inputs.double() @ torch.randn(8, 8, dtype=torch.float64)
    return TrainSet(train.inputs.double(), outputs, train.normalizer, train.task)


def test_lbfgs_reaches_machine_precision_on_a_linear_model():
    train = linear_train()
    torch.manual_seed(0)
    net = nn.Linear(8, 8, bias=False).double()
    run = train_once(WithOptimizer(lbfgs, net), train, Budget("steps", 1000), numbers=NUMBERS)
    assert run.curve.losses[0] > 1.0
    assert (net(train.inputs) - train.outputs).norm() < 1e-14 * train.outputs.norm()


def test_an_evaluation_spends_as_many_steps_as_the_set_has_batches():
    """Seven samples in batches of four are two steps; what the budget can't pay for is not started."""
    for steps, evaluations in ((2, 1), (3, 1), (9, 4)):
        run = train_once(WithOptimizer(lbfgs), budget=Budget("steps", steps), numbers=NUMBERS, flops_step=8.0)
        assert (run.spent.steps, run.spent.samples) == (2 * evaluations, 7 * evaluations)
        assert run.spent.flops == pytest.approx(8.0 * 7 / 4 * evaluations)
        assert len(run.curve.losses) == evaluations


def test_a_flops_budget_pays_for_the_same_evaluations():
    run = train_once(WithOptimizer(lbfgs), budget=Budget("flops", 80.0), numbers=NUMBERS, flops_step=8.0)
    assert run.spent.flops <= 80.0
    assert run.spent.samples == 35  # five evaluations of 14 FLOPs


def test_a_budget_that_ends_inside_a_step_keeps_the_best_weights_of_it():
    """A wild first step makes a line search try bad points: the last of them must not be what is left."""

    def wild(parameters, recipe):
        return torch.optim.LBFGS(parameters, lr=1e4, line_search_fn="strong_wolfe")

    module, train = WithOptimizer(wild), make_train()
    run = train_once(module, train, Budget("steps", 4), numbers=NUMBERS)
    first, second = run.curve.losses
    assert second > first
    left = nn.functional.mse_loss(module(train.inputs), train.outputs).item()
    assert left == pytest.approx(first, rel=1e-6)


def test_a_budget_too_small_for_one_evaluation_is_refused():
    with pytest.raises(ValueError, match="all 7 samples at once, 2 steps each; the budget has 1"):
        train_once(WithOptimizer(lbfgs), budget=Budget("steps", 1), numbers=NUMBERS)


def test_lbfgs_stopped_and_going_on_ends_the_same(tmp_path):
    def short(parameters, recipe):
        return torch.optim.LBFGS(parameters, lr=0.5, max_iter=2, max_eval=3)

    whole = WithOptimizer(short)
    train_once(whole, budget=Budget("steps", 40), numbers=NUMBERS)
    asked = 0

    def should_stop():
        nonlocal asked
        asked += 1
        return asked == 3

    settings = {"budget": Budget("steps", 40), "numbers": NUMBERS, "checkpoint": tmp_path / "c.pt"}
    with pytest.raises(Interrupted):
        train_once(WithOptimizer(short), should_stop=should_stop, **settings)
    again = WithOptimizer(short)
    train_once(again, should_stop=should_stop, **settings)
    assert same_state(whole, again)


# --- what is not an optimiser ----------------------------------------------------------------------------------------


class NeverAsks(torch.optim.SGD):
    def step(self, closure):
        return None


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda parameters, recipe: torch.optim.SGD([], lr=0.1), "empty parameter list"),
        (lambda parameters, recipe: torch.optim.SGD([{"params": []}], lr=0.1), "over no parameters"),
        (lambda parameters, recipe: torch.optim.SGD([nn.Parameter(torch.ones(2))], lr=0.1), "other parameters than"),
        (lambda parameters, recipe: {"optimizer": torch.optim.SGD(parameters, lr=0.1)}, "returned a dict"),
        (lambda parameters, recipe: NeverAsks(parameters, lr=0.1), "did not call its closure"),
    ],
)
def test_what_can_t_train_the_model_is_refused_in_one_line(make, complaint):
    with pytest.raises((TypeError, ValueError)) as error:
        train_once(WithOptimizer(make), numbers=NUMBERS)
    assert complaint in str(error.value)
    assert "\n" not in str(error.value)
