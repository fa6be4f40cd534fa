"""What training makes small: a model's own loss, and windows of several steps of a rollout."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from factories.tasks import make_task
from factories.training import NUMBERS, make_network, make_train, same_state, train_once
from torch import nn

from pdebench_hss.data.cache import Split, TaskData
from pdebench_hss.training.loop import Diverged, count_step_flops
from pdebench_hss.training.objective import Batch, Objective, mean_squared_error
from pdebench_hss.training.windows import TrainSet, prepare

CPU = torch.device("cpu")
GRID, STEPS, CHANNELS = (6,), 5, 2


class WithLoss(nn.Module):
    """The plain network of the loop's tests with a loss of its own, given as a function."""

    def __init__(self, own) -> None:
        super().__init__()
        self.net, self.own = make_network("plain"), own

    def forward(self, x):
        return self.net(x)

    def loss(self, prediction, target, batch):
        return self.own(prediction, target, batch)


def rollout(history: int = 1, normalization: str = "zscore", samples: int = 3) -> TaskData:
    """Trajectories of noise: nothing about them is special, so a mistake can't hide."""
    task = make_task(
        "noise", GRID, steps=STEPS, train=samples, test=1, channels=(CHANNELS, CHANNELS), linear=False, rollout=True,
        normalization=normalization, history=history,
    )  # fmt: skip
    frames = 1.0 + np.random.default_rng(3).standard_normal((samples, STEPS + 1, CHANNELS, *GRID))
    known = frames[:, :history][:, ::-1].reshape(samples, -1, *GRID)
    split = Split(known, frames[:, history:])
    return TaskData(task, split, split, "")


def make_model(train: TrainSet) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv1d(train.inputs.shape[1], 4, 3, padding=1), nn.Tanh(), nn.Conv1d(4, CHANNELS, 1))


# --- own loss --------------------------------------------------------------------------------------------------------


def test_an_own_loss_that_is_mean_squared_error_trains_to_the_same_weights():
    plain = make_network("plain")
    own = WithLoss(lambda prediction, target, batch: nn.functional.mse_loss(prediction, target))
    assert train_once(plain).curve == train_once(own).curve
    assert same_state(plain, own.net)


def test_an_own_loss_is_what_is_made_small():
    own = WithLoss(lambda prediction, target, batch: (prediction - 3.0).square().mean())
    losses = train_once(own, numbers=NUMBERS).curve.losses
    assert losses[-1] < losses[0]
    assert not same_state(own.net, make_network("plain"))


def test_a_loss_is_told_about_its_batch():
    seen: list[Batch] = []

    def own(prediction, target, batch):
        seen.append(batch)
        return batch.mean((prediction - target).square())

    train = make_train(mask=lambda grid: np.arange(*grid) < 5)
    module = WithLoss(own)
    objective = Objective(module, train, CPU)
    x, y = train.inputs[:3], train.outputs[:3]
    assert objective(x, y).item() == pytest.approx(mean_squared_error(objective.mask)(module(x), y).item())
    assert seen[0].task is train.task
    assert torch.equal(seen[0].inputs, x)
    assert seen[0].mask.tolist() == [1.0] * 5 + [0.0] * 3


def test_physical_units_are_those_of_the_data():
    data = rollout()
    train = prepare(data, torch.float64)
    batch = Batch(train.inputs, train.task, train.normalizer)
    frames = np.concatenate([data.train.inputs[:, None], data.train.outputs], axis=1)
    before, after = (frames[:, s].reshape(-1, CHANNELS, *GRID) for s in (slice(None, -1), slice(1, None)))
    np.testing.assert_allclose(batch.physical_inputs().numpy(), before, rtol=1e-12)
    np.testing.assert_allclose(batch.physical(train.outputs).numpy(), after - before, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(batch.state(train.outputs).numpy(), after, rtol=1e-12)


@pytest.mark.parametrize(
    ("own", "complaint"),
    [
        (lambda p, t, b: (p - t).square().mean(dim=(1, 2)), "has shape (4,), expected one number"),
        (lambda p, t, b: 0.5, "returned a float, expected a tensor"),
        (lambda p, t, b: torch.tensor(0.5), "has no gradient"),
        (lambda p, t, b: torch.zeros((), dtype=torch.cfloat, requires_grad=True), "complex64"),
    ],
)
def test_a_loss_that_is_no_loss_is_refused_in_one_line(own, complaint):
    with pytest.raises((TypeError, ValueError)) as error:
        train_once(WithLoss(own))
    assert complaint in str(error.value)
    assert "\n" not in str(error.value)


def test_a_loss_that_is_not_a_number_has_diverged():
    with pytest.raises(Diverged, match="loss is nan at step 0"):
        train_once(WithLoss(lambda p, t, b: math.nan * p.mean()))


# --- several steps ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("history", [1, 3])
@pytest.mark.parametrize("detach", [False, True])
def test_unrolled_gradients_are_those_of_a_loop_written_by_hand_in_physical_units(history, detach):
    """State u, residual r = model((u - shift) / scale) restored; the error of each state in the residual's scale."""
    unroll = 3
    data = rollout(history)
    train = prepare(data, torch.float64, unroll)
    ours, byhand = make_model(train).double(), make_model(train).double()
    loss = Objective(ours, train, CPU, detach=detach)(train.inputs, train.outputs)
    loss.backward()

    into, out = train.normalizer.inputs, train.normalizer.outputs
    per_channel = [torch.as_tensor(v).reshape(-1, 1) for v in (into.shift, into.scale, out.shift, out.scale)]
    shift_in, scale_in, shift_out, scale_out = per_channel
    known = data.train.inputs.reshape(3, history, CHANNELS, *GRID)[:, ::-1]
    frames = torch.as_tensor(np.concatenate([known, data.train.outputs], axis=1))
    total = 0.0
    windows = STEPS + 1 - history - unroll + 1
    for sample in range(3):
        for first in range(windows):
            states = list(frames[sample, first : first + history])  # oldest first
            for step in range(unroll):
                x = (torch.cat(states[: -history - 1 : -1]) - shift_in) / scale_in  # newest first
                new = states[-1] + byhand(x[None])[0] * scale_out + shift_out
                truth = frames[sample, first + history + step]
                total = total + ((new - truth) / scale_out).square().mean() / unroll / (3 * windows)
                states.append(new.detach() if detach else new)
    total.backward()
    assert loss.item() == pytest.approx(total.item(), rel=1e-12)
    for a, b in zip(ours.parameters(), byhand.parameters()):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-10, atol=1e-12)


def test_detached_and_through_differ_and_one_step_is_neither():
    gradients = {}
    for unroll, detach in ((1, False), (2, False), (2, True)):
        train = prepare(rollout(), torch.float64, unroll)
        model = make_model(train).double()
        Objective(model, train, CPU, detach=detach)(train.inputs, train.outputs).backward()
        gradients[unroll, detach] = model[0].weight.grad
    through, detached = gradients[2, False], gradients[2, True]
    assert not torch.allclose(through, detached)
    assert not torch.allclose(through, gradients[1, False])


@pytest.mark.parametrize("normalization", ["max", "zscore"])
def test_the_normaliser_depends_neither_on_unroll_nor_on_history(normalization):
    one = prepare(rollout(1, normalization), torch.float64).normalizer
    for history, unroll in ((1, 3), (3, 1), (2, 2)):
        other = prepare(rollout(history, normalization), torch.float64, unroll).normalizer
        np.testing.assert_array_equal(other.inputs.scale, np.tile(one.inputs.scale, history))
        np.testing.assert_array_equal(other.inputs.shift, np.tile(one.inputs.shift, history))
        np.testing.assert_array_equal(other.outputs.scale, one.outputs.scale)


def test_windows_start_at_every_frame_they_fit_at():
    for history, unroll, windows in ((1, 1, 5), (1, 5, 1), (2, 3, 2), (4, 1, 2)):
        train = prepare(rollout(history), torch.float32, unroll)
        steps = () if unroll == 1 else (unroll,)
        assert train.inputs.shape == (3 * windows, history * CHANNELS, *GRID)
        assert train.outputs.shape == (3 * windows, *steps, CHANNELS, *GRID)


def test_a_step_over_several_frames_costs_that_many_times_the_flops():
    data = rollout()
    one, three = (prepare(data, torch.float32, unroll) for unroll in (1, 3))
    single, triple = (count_step_flops(make_model(train), train, 4) for train in (one, three))
    # The first layer's gradient for its input, as many as its forward pass, is needed at all steps but the first.
    first_layer = 2 * 4 * (4 * CHANNELS * 3) * GRID[0]
    assert triple == 3 * single + 2 * first_layer
    assert count_step_flops(make_model(three), three, 4, detach=True) == 3 * single
