"""The one training loop: equal to a bare one, ends where the budget ends, goes on after any interruption."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from factories.training import NETWORKS, NUMBERS, STEPS, Clock, make_network, make_train, same_state, train_once
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from pdebench_hss.base.errors import Interrupted
from pdebench_hss.contract.budget import Budget
from pdebench_hss.training import clocks
from pdebench_hss.training.loop import CURVE_POINTS, Curve, Diverged, TrainingState, fit
from pdebench_hss.training.objective import mean_squared_error
from pdebench_hss.training.steps import BatchOrder
from pdebench_hss.training.windows import TrainSet


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock(tick=0.03)
    monkeypatch.setattr(clocks, "time", SimpleNamespace(perf_counter=clock.perf_counter, process_time=lambda: 0.0))
    return clock


# --- the loop is a bare PyTorch loop ---------------------------------------------------------------------------------


def bare_loop(module: nn.Module, train: TrainSet, steps: int, seed: int) -> list[float]:
    """AdamW (0.9, 0.99), cosine, clip 1, mean squared error: what anybody would write."""
    order = BatchOrder(len(train), NUMBERS.batch, train.task.name, seed)
    real = not any(p.is_complex() for p in module.parameters())
    adamw = torch.optim.AdamW(module.parameters(), betas=(0.9, 0.99), weight_decay=NUMBERS.weight_decay, fused=real)
    losses = []
    module.train()
    for step in range(steps):
        rate = NUMBERS.lr_min + (NUMBERS.lr - NUMBERS.lr_min) * (1 + math.cos(math.pi * step / steps)) / 2
        for group in adamw.param_groups:
            group["lr"] = rate
        batch = order.at(step)
        adamw.zero_grad()
        loss = nn.functional.mse_loss(module(train.inputs[batch]), train.outputs[batch])
        loss.backward()
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        adamw.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("kind", NETWORKS)
def test_the_loop_equals_a_bare_one_bit_for_bit(kind):
    ours, bare = make_network(kind), make_network(kind)
    run = train_once(ours, seed=5)
    torch.manual_seed(11)
    losses = bare_loop(bare, make_train(), STEPS, seed=5)
    assert same_state(ours, bare)
    assert not same_state(ours, make_network(kind))
    assert run.curve.losses == losses
    assert run.curve.steps == list(range(STEPS))


def test_gradients_longer_than_one_are_clipped():
    """The bare loop above would agree with a loop that never clips if gradients were short; here they are not."""
    train = make_train()
    lengths = []

    def measure(optimizer, *_):
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"]]
        lengths.append(torch.cat([g.flatten() for g in gradients]).norm().item())

    loud = TrainSet(train.inputs, 1e3 * train.outputs, train.normalizer, train.task)
    handle = register_optimizer_step_pre_hook(measure)
    try:
        train_once(make_network("plain"), loud)
    finally:
        handle.remove()
    assert lengths == pytest.approx([1.0] * STEPS, rel=1e-4)


def test_frozen_weights_stay_as_they_are():
    module = make_network("plain")
    module[0].requires_grad_(False)
    train_once(module)
    assert torch.equal(module[0].weight, make_network("plain")[0].weight)
    assert not torch.equal(module[2].weight, make_network("plain")[2].weight)


def test_epochs_are_steps_by_another_name():
    by_epochs, by_steps = make_network("dropout"), make_network("dropout")
    train_once(by_epochs, budget=Budget("epochs", 3))
    train_once(by_steps, budget=Budget("steps", 6))
    assert same_state(by_epochs, by_steps)


def test_progress_is_told_with_everything_a_bar_needs(clock):
    clock.tick = 1.0
    told = []
    train_once(make_network("plain"), emit=told.append)
    assert [progress.step for progress in told] == list(range(1, STEPS + 1))
    assert [progress.fraction for progress in told] == [step / STEPS for step in range(1, STEPS + 1)]
    assert {progress.total for progress in told} == {STEPS}
    assert all(math.isfinite(progress.loss) for progress in told)


# --- interruptions ---------------------------------------------------------------------------------------------------


def train_with_stops(kind: str, path, stops, budget=None) -> tuple[nn.Module, TrainingState]:
    """Asked to stop after each of the steps in ``stops``; each time a new module, as in a new process."""
    asked = 0

    def should_stop() -> bool:
        nonlocal asked
        asked += 1
        return asked in stops

    for sitting in range(len(stops) + 1):
        module = make_network(kind)
        torch.manual_seed(11 if sitting == 0 else 99)  # a later process has other random numbers behind it
        try:
            run = fit(
                module, make_train(), budget or Budget("steps", STEPS), NUMBERS, seed=0, device=torch.device("cpu"),
                flops_step=3.0, checkpoint=path, should_stop=should_stop,
            )  # fmt: skip
        except Interrupted:
            assert path.exists()
            continue
        return module, run
    raise AssertionError("stopped more often than asked to")


@pytest.mark.parametrize("kind", NETWORKS)
def test_stopped_after_any_step_and_going_on_ends_bit_for_bit_the_same(tmp_path, kind):
    whole = make_network(kind)
    expected = train_once(whole, flops_step=3.0)
    for stop in range(1, STEPS + 1):
        module, run = train_with_stops(kind, tmp_path / f"{stop}.pt", {stop})
        assert same_state(module, whole)
        assert run.curve == expected.curve
        assert (run.spent.steps, run.spent.samples, run.spent.flops) == (
            expected.spent.steps,
            expected.spent.samples,
            expected.spent.flops,
        )


@settings(deadline=None, max_examples=15)
@given(stops=st.sets(st.integers(1, STEPS)), kind=st.sampled_from(sorted(NETWORKS)))
def test_stopped_any_number_of_times(tmp_path_factory, stops, kind):
    whole = make_network(kind)
    expected = train_once(whole)
    module, run = train_with_stops(kind, tmp_path_factory.mktemp("stops") / "state.pt", stops)
    assert same_state(module, whole)
    assert run.curve == expected.curve


class Killed(BaseException):
    """Sudden death: nothing in the loop gets to react."""


@pytest.mark.parametrize("death", range(1, STEPS))
def test_killed_without_warning_it_goes_on_from_the_last_checkpoint(tmp_path, clock, death):
    clock.tick = 1.0
    whole = make_network("dropout")
    expected = train_once(whole)
    calls = 0

    def die(*_):
        nonlocal calls
        calls += 1
        if calls == death:
            raise Killed

    path = tmp_path / "state.pt"
    victim = make_network("dropout")
    victim.register_forward_pre_hook(die)
    with pytest.raises(Killed):
        train_once(victim, checkpoint=path, checkpoint_seconds=2.5)
    assert path.exists() == (death > 3)  # a few steps are lost, and made again
    survivor = make_network("dropout")
    run = train_once(survivor, checkpoint=path)
    assert same_state(survivor, whole)
    assert run.curve == expected.curve
    assert run.spent.steps == STEPS


def test_a_time_budget_goes_on_where_it_stopped(tmp_path, clock):
    _, run = train_with_stops("plain", tmp_path / "state.pt", {5, 12}, Budget("seconds", 1.0))
    assert run.spent.steps == pytest.approx(1.0 / clock.tick, abs=1)
    assert 1.0 <= run.spent.seconds < 1.0 + clock.tick


def test_no_checkpoint_is_asked_for_no_file_is_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    train_once(make_network("plain"), checkpoint_seconds=0.0)
    assert list(tmp_path.iterdir()) == []


# --- a checkpoint that can't be trusted ------------------------------------------------------------------------------


def good_checkpoint(path) -> bytes:
    """Written by an undisturbed run of the plain network, stopped after four steps."""
    with pytest.raises(Interrupted):
        train_once(make_network("plain"), checkpoint=path, should_stop=countdown(4))
    return path.read_bytes()


def countdown(steps: int):
    left = iter(range(steps - 1, -1, -1))
    return lambda: next(left) == 0


def assert_starts_from_zero(path, capsys) -> None:
    whole, module = make_network("plain"), make_network("plain")
    expected = train_once(whole)
    capsys.readouterr()
    run = train_once(module, checkpoint=path)
    assert same_state(module, whole)
    assert run.curve == expected.curve
    assert run.spent.samples == expected.spent.samples
    assert f"checkpoint {path.name} can't be used" in capsys.readouterr().out


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_checkpoint_cut_short_means_starting_from_zero(tmp_path, capsys, share):
    path = tmp_path / "state.pt"
    blob = good_checkpoint(path)
    path.write_bytes(blob[: int(share * len(blob))])
    assert_starts_from_zero(path, capsys)


@pytest.mark.parametrize(
    "blob",
    [
        b"not a checkpoint",
        b"\x00" * 1000,
        b"PK\x03\x04",
        b"\x80\x02R.",
        b"\x80\x02J\x01",
    ],
)
def test_a_file_that_is_no_checkpoint_means_starting_from_zero(tmp_path, capsys, blob):
    path = tmp_path / "state.pt"
    path.write_bytes(blob)
    assert_starts_from_zero(path, capsys)


def test_a_flipped_bit_in_a_checkpoint_never_changes_a_result(tmp_path):
    """It is either noticed, and training starts from zero, or it is in a place that means nothing."""
    path = tmp_path / "state.pt"
    blob = good_checkpoint(path)
    whole = make_network("plain")
    expected = train_once(whole)
    for place in range(0, len(blob), len(blob) // 60):
        path.write_bytes(blob[:place] + bytes([blob[place] ^ 16]) + blob[place + 1 :])
        module = make_network("plain")
        run = train_once(module, checkpoint=path)
        assert same_state(module, whole)
        assert (run.curve, run.spent.steps) == (expected.curve, expected.spent.steps)


def test_a_checkpoint_of_another_network_means_starting_from_zero(tmp_path, capsys):
    path = tmp_path / "state.pt"
    torch.manual_seed(2)
    other = nn.Sequential(nn.Conv1d(1, 4, 3, padding=1), nn.GELU(), nn.Conv1d(4, 2, 1), nn.Conv1d(2, 1, 1))
    with pytest.raises(Interrupted):
        train_once(other, checkpoint=path, should_stop=countdown(4))
    assert_starts_from_zero(path, capsys)


# --- divergence, masks -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_not_finite_ends_the_trial_as_diverged(value):
    class Explodes(nn.Conv1d):
        calls = 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            return super().forward(x) * (value if self.calls == 4 else 1.0)

    with pytest.raises(Diverged, match=r"loss is (nan|inf) at step 3"):
        train_once(Explodes(1, 1, 1))


def test_points_outside_the_domain_do_not_count():
    """Same mean as over the inside points alone, and not a trace of the others in value or gradient."""
    mask = torch.zeros(8)
    mask[2:5] = 1.0
    loss = mean_squared_error(mask)
    generator = torch.Generator().manual_seed(0)
    prediction, target = (torch.randn(3, 2, 8, generator=generator, dtype=torch.float64) for _ in range(2))
    expected = ((prediction - target)[..., 2:5] ** 2).mean()
    assert loss(prediction, target).item() == pytest.approx(expected.item(), rel=1e-12)
    elsewhere = torch.where(mask > 0, target, 1e6 * torch.ones_like(target))
    assert torch.equal(loss(prediction, target), loss(prediction, elsewhere))
    prediction.requires_grad_()
    loss(prediction, elsewhere).backward()
    assert torch.count_nonzero(prediction.grad[..., :2]) == torch.count_nonzero(prediction.grad[..., 5:]) == 0
    assert torch.count_nonzero(prediction.grad[..., 2:5]) == prediction.grad[..., 2:5].numel()


def test_an_output_that_would_broadcast_is_refused():
    """(batch, 1, 1) against (batch, 1, 8) has a loss in torch; it would be the loss of another problem."""
    with pytest.raises(ValueError, match=r"shape \(4, 1, 1\), expected \(4, 1, 8\)"):
        train_once(nn.Sequential(nn.Conv1d(1, 1, 1), nn.AdaptiveAvgPool1d(1)))


def test_a_masked_task_is_trained_on_its_inside_alone():
    inside = np.arange(8) < 5
    train = make_train(mask=lambda grid: inside)
    spoilt = torch.where(torch.as_tensor(inside), train.outputs, 7.0 * torch.ones_like(train.outputs))
    clean, noisy, unmasked = (make_network("plain") for _ in range(3))
    first = train_once(clean, train)
    second = train_once(noisy, TrainSet(train.inputs, spoilt, train.normalizer, train.task))
    train_once(unmasked, make_train())
    assert same_state(clean, noisy)
    assert first.curve == second.curve
    assert not same_state(clean, unmasked)


# --- the order of the batches ----------------------------------------------------------------------------------------


@settings(deadline=None)
@given(n=st.integers(1, 60), batch=st.integers(1, 70), epoch=st.integers(0, 20), seed=st.integers(0, 5))
def test_every_epoch_sees_every_sample_once(n, batch, epoch, seed):
    order = BatchOrder(n, batch, "toy", seed)
    per_epoch = len(range(0, n, batch))
    batches = [order.at(step) for step in range(epoch * per_epoch, (epoch + 1) * per_epoch)]
    assert sorted(torch.cat(batches).tolist()) == list(range(n))
    assert [len(b) for b in batches] == [min(batch, n - start) for start in range(0, n, batch)]


@settings(deadline=None, max_examples=30)
@given(steps=st.lists(st.integers(0, 50), min_size=1), seed=st.integers(0, 3))
def test_a_batch_is_the_same_whichever_way_one_comes_to_it(steps, seed):
    wandering = BatchOrder(7, 2, "toy", seed)
    for step in steps:
        assert torch.equal(wandering.at(step), BatchOrder(7, 2, "toy", seed).at(step))


def test_each_epoch_is_shuffled_anew():
    order = BatchOrder(50, 50, "toy", 0)
    epochs = [tuple(order.at(epoch).tolist()) for epoch in range(5)]
    assert len({*epochs, tuple(range(50))}) == 6


def batches_seen(kind: str, name="toy", seed=0) -> list[Tensor]:
    """What a network of this kind was shown, step by step."""
    seen: list[Tensor] = []
    module = make_network(kind)
    module.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0].clone()))
    train_once(module, make_train(name=name), seed=seed)
    return seen


def test_all_models_see_the_same_samples_at_the_same_steps():
    first, *others = (batches_seen(kind) for kind in NETWORKS)
    for other in others:
        assert all(torch.equal(a, b) for a, b in zip(first, other, strict=True))


def test_another_seed_or_task_means_another_order():
    def flat(batches: list[Tensor]) -> Tensor:
        return torch.cat(batches)

    base = flat(batches_seen("plain"))
    assert torch.equal(base, flat(batches_seen("plain")))
    assert not torch.equal(base, flat(batches_seen("plain", seed=1)))
    assert not torch.equal(base, flat(batches_seen("plain", name="other")))


# --- the learning curve ----------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(steps=st.integers(0, 5000))
def test_the_curve_stays_short_and_each_point_is_the_mean_of_the_steps_it_stands_for(steps):
    losses = np.random.default_rng(steps).random(steps)
    curve = Curve()
    for step, loss in enumerate(losses):
        curve.add(step, float(loss))
    assert len(curve.steps) == len(curve.losses) <= CURVE_POINTS
    assert len(curve.steps) >= min(steps, CURVE_POINTS // 2)
    assert len(curve.steps) * curve.stride + len(curve.pending) == steps
    for i, (step, loss) in enumerate(zip(curve.steps, curve.losses)):
        assert step == (i + 1) * curve.stride - 1
        assert loss == pytest.approx(losses[step + 1 - curve.stride : step + 1].mean(), rel=1e-12)
