"""Budgets: read exactly, spent exactly, and one fraction that says how much is gone and steers the cosine."""

from __future__ import annotations

import contextlib
import hashlib
import math
import threading
import time
from types import SimpleNamespace

import pytest
import torch
from factories.training import NUMBERS, SHARE, Clock, make_train
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from pdebench_hss.base.errors import Interrupted, UsageError
from pdebench_hss.contract.budget import CLOCKS, KINDS, Budget, Spent, parse_budget, parse_budgets, parse_count
from pdebench_hss.contract.optimizer import Optimizer
from pdebench_hss.training import clocks
from pdebench_hss.training.loop import TrainingState, fit
from pdebench_hss.training.optimizers import cosine
from pdebench_hss.training.windows import TrainSet

positive = st.floats(min_value=1e-3, max_value=1e18)


@settings(deadline=None)
@given(st.sampled_from(["epochs", "steps"]), st.integers(1, 10**12))
def test_whole_budgets_survive_being_written_and_read(kind, amount):
    assert parse_budget(f"{kind}={amount}") == Budget(kind, amount)
    assert str(parse_budget(f"{kind}={amount}")) == f"{kind}={amount}"


@settings(deadline=None)
@given(st.sampled_from(["seconds", "core_seconds", "flops"]), positive)
def test_any_budget_survives_being_written_and_read(kind, amount):
    assert parse_budget(str(Budget(kind, amount))) == Budget(kind, amount)


@pytest.mark.parametrize("spelling", ["steps=300", "steps=3e2", "steps = 300", "steps=0.3k", "steps=300.0"])
def test_one_budget_has_one_spelling_in_keys_and_tables(spelling):
    assert str(parse_budget(spelling)) == "steps=300"


@settings(deadline=None)
@given(st.sampled_from(["steps", "core_seconds"]), st.lists(st.integers(1, 10**6), min_size=1))
def test_a_ladder_has_each_budget_once_the_smallest_first(kind, amounts):
    assert parse_budgets(f"{kind}=" + ",".join(map(str, amounts))) == [Budget(kind, n) for n in sorted(set(amounts))]
    assert parse_budgets(",".join(f"{kind}={n}" for n in amounts)) == [Budget(kind, n) for n in sorted(set(amounts))]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("steps=10,core_seconds=4", "a ladder has one kind, not steps and core_seconds"),
        ("steps=10,", "'' is not a number"),
        ("10,40", "write one of epochs=N"),
        ("steps=10,2.5", "steps must be a whole number"),
    ],
)
def test_a_ladder_that_is_none_is_refused(text, complaint):
    with pytest.raises(UsageError, match=complaint):
        parse_budgets(text)


@pytest.mark.parametrize(
    ("text", "number"), [("300", 300), ("300k", 3e5), ("1.5M", 1.5e6), ("2g", 2e9), ("1T", 1e12), (" 7 ", 7), (12, 12)]
)
def test_counts_may_have_a_suffix(text, number):
    assert parse_count(text, "here") == number


@settings(deadline=None)
@given(st.integers(1, 99_999))
def test_a_suffix_does_not_change_a_count_by_rounding(thousandths):
    assert parse_count(f"{thousandths // 1000}.{thousandths % 1000:03d}k", "here") == thousandths


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("300", "write one of epochs=N, steps=N, seconds=N, core_seconds=N, flops=N"),
        ("step=300", "no kind 'step'. Did you mean 'steps'?"),
        ("steps=-5", "must be positive, not -5"),
        ("steps=0", "must be positive, not 0"),
        ("seconds=nan", "must be positive, not nan"),
        ("seconds=inf", "must be positive, not inf"),
        ("flops=many", "'many' is not a number"),
        ("steps=", "'' is not a number"),
        ("epochs=1.5", "epochs must be a whole number"),
    ],
)
def test_a_bad_budget_is_refused_with_what_is_wrong(text, complaint):
    with pytest.raises(UsageError) as refusal:
        parse_budget(text)
    assert f"budget {text!r}: " in str(refusal.value)
    assert complaint in str(refusal.value)


@settings(deadline=None)
@given(st.integers(1, 50), st.integers(1, 500), st.integers(1, 64))
def test_an_epoch_is_every_sample_once_with_the_ragged_last_batch(epochs, n_train, batch):
    batches = len(range(0, n_train, batch))
    assert Budget("epochs", epochs).steps(n_train, batch, 0.0) == epochs * batches


@settings(deadline=None)
@given(st.floats(1, 1e15), st.floats(1, 1e12))
def test_a_flops_budget_is_never_overdrawn_and_never_empty(amount, flops_step):
    steps = Budget("flops", amount).steps(8, 4, flops_step)
    assert steps == 1 or steps * flops_step <= amount
    assert (steps + 1) * flops_step > amount * (1 - 1e-12)


def test_a_flops_budget_without_a_count_is_refused():
    with pytest.raises(UsageError, match="use steps= or seconds="):
        Budget("flops", 1e9).steps(8, 4, 0.0)


def test_only_the_clock_knows_how_many_steps_a_time_budget_has():
    assert Budget("seconds", 60).steps(8, 4, 1.0) is None


@settings(deadline=None)
@given(st.sampled_from(KINDS), st.integers(1, 1000), st.integers(0, 2000))
def test_the_fraction_starts_at_zero_grows_and_ends_at_exactly_one(kind, amount, step):
    budget = Budget(kind, amount)
    total = budget.steps(n_train=12, batch=4, flops_step=1.0)  # None for seconds

    def fraction(used: int) -> float:
        clock = {kind: float(used)} if kind in CLOCKS else {}  # the other clock does not count
        return budget.fraction(Spent(steps=used, **clock), total)

    end = total if total is not None else amount
    assert fraction(0) == 0.0
    assert fraction(end) == 1.0
    assert 0.0 <= fraction(step) <= fraction(step + 1) <= 1.0
    assert math.isclose(fraction(step), min(1.0, step / end))
    assert (fraction(step) < 1.0) == (step < end)


# --- the core runs the budget, not the model -------------------------------------------------------------------------


def make_network() -> nn.Module:
    return nn.Conv1d(1, 1, kernel_size=1)


def train(
    module: nn.Module, pairs: TrainSet | None = None, budget=None, numbers=NUMBERS, flops_step=1.0, **options
) -> TrainingState:
    cpu = torch.device("cpu")
    return fit(module, pairs or make_train(), budget, numbers, seed=0, device=cpu, flops_step=flops_step, **options)


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock(tick=0.03)
    fake = SimpleNamespace(perf_counter=clock.perf_counter, process_time=clock.process_time)
    monkeypatch.setattr(clocks, "time", fake)
    return clock


@contextlib.contextmanager
def learning_rates():
    """Collects the rate of every optimiser step."""
    rates: list[float] = []
    handle = register_optimizer_step_pre_hook(lambda optimizer, *_: rates.append(optimizer.param_groups[0]["lr"]))
    try:
        yield rates
    finally:
        handle.remove()


@pytest.mark.parametrize(
    ("budget", "steps"),
    [
        (Budget("steps", 20), 20),
        (Budget("epochs", 5), 10),  # eight samples are two batches
        (Budget("flops", 105.0), 10),  # ten and a half steps of ten
        (Budget("seconds", 0.62), 21),  # a tick of the clock is 0.03
        (Budget("core_seconds", 0.62), 42),  # the process has half of it
    ],
    ids=lambda value: str(value),
)
def test_the_cosine_ends_where_the_budget_ends_whatever_it_counts(clock, budget, steps):
    with learning_rates() as rates:
        run = train(make_network(), make_train(n=8), budget, flops_step=10.0)
    assert len(rates) == run.spent.steps == steps
    assert rates[0] == NUMBERS.lr
    assert rates == sorted(rates, reverse=True)
    # Before the last step less than one step's share was left.
    assert NUMBERS.lr_min < rates[-1] <= cosine(1 - 1 / (steps - 1), NUMBERS.lr, NUMBERS.lr_min)


@settings(deadline=None, max_examples=20)
@given(steps=st.integers(1, 12), n=st.integers(1, 9), batch=st.integers(1, 9))
def test_everything_spent_is_counted(steps, n, batch):
    run = train(
        make_network(),
        make_train(n),
        Budget("steps", steps),
        flops_step=1e6,
        numbers=Optimizer(batch, 1e-3, 1e-5, 0.0),
    )
    whole, rest = divmod(steps, math.ceil(n / batch))
    samples = whole * n + min(rest * batch, n)
    assert (run.spent.steps, run.spent.samples) == (steps, samples)
    assert run.spent.flops == pytest.approx(1e6 * samples / min(batch, n))
    assert run.spent.seconds > 0


def test_a_time_budget_is_overdrawn_by_less_than_one_step(clock):
    run = train(make_network(), budget=Budget("seconds", 1.0))
    assert 1.0 <= run.spent.seconds < 1.0 + clock.tick
    assert run.spent.seconds == pytest.approx(run.spent.steps * clock.tick)


def test_a_real_clock_stops_a_time_budget_too():
    start = time.perf_counter()
    run = train(make_network(), budget=Budget("seconds", 0.2))
    assert 0.2 <= run.spent.seconds <= time.perf_counter() - start


def test_core_seconds_are_those_of_the_process_and_not_of_the_wall(clock):
    run = train(make_network(), budget=Budget("core_seconds", 1.0))
    assert 1.0 <= run.spent.core_seconds < 1.0 + SHARE * clock.tick
    assert run.spent.seconds == pytest.approx(run.spent.core_seconds / SHARE)


class Sleeper(nn.Conv1d):
    """Each of its steps waits for 20 ms."""

    def forward(self, x):
        time.sleep(0.02)
        return super().forward(x)


def test_a_real_clock_charges_what_is_computed_and_not_what_is_waited_for():
    before = time.process_time()
    run = train(Sleeper(1, 1, 1), budget=Budget("steps", 20))
    assert 0 < run.spent.core_seconds <= time.process_time() - before
    assert run.spent.seconds > 0.4
    assert run.spent.core_seconds < run.spent.seconds - 0.3  # of some 0.4 s of sleep


def test_two_busy_threads_spend_two_core_seconds_a_second():
    """Whatever else the machine does: what is compared is what the threads themselves were given."""
    mine: list[float] = []

    def burn() -> None:
        start = time.thread_time()
        while time.thread_time() - start < 0.2:
            hashlib.sha256(bytes(1 << 20)).digest()  # lets other threads run meanwhile
        mine.append(time.thread_time() - start)

    threads = [threading.Thread(target=burn) for _ in range(2)]
    watch = clocks.Clocks()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert watch.lap().core_seconds == pytest.approx(sum(mine), abs=0.05)


def test_looking_at_held_out_samples_and_saving_cost_no_core_seconds(tmp_path):
    class Burner:
        def error(self, module):
            end = time.process_time() + 0.05
            while time.process_time() < end:
                pass
            return 1.0

    start = time.process_time()
    run = train(make_network(), budget=Budget("steps", 20), held_out=Burner(), checkpoint=tmp_path / "s.pt")
    looks = len(run.held_out.errors)
    assert looks >= 10
    assert run.spent.core_seconds <= time.process_time() - start - 0.05 * looks


def test_an_interrupted_trial_goes_on_with_the_core_seconds_it_had(clock, tmp_path):
    asked = iter([False] * 9 + [True])
    with pytest.raises(Interrupted):
        train(
            make_network(), budget=Budget("core_seconds", 0.6), checkpoint=tmp_path / "s.pt",
            should_stop=lambda: next(asked),
        )  # fmt: skip
    with learning_rates() as rates:
        run = train(make_network(), budget=Budget("core_seconds", 0.6), checkpoint=tmp_path / "s.pt")
    assert len(rates) == run.spent.steps - 10  # ten of its steps were taken before
    assert rates[0] < NUMBERS.lr
    assert 0.6 <= run.spent.core_seconds < 0.6 + SHARE * clock.tick


@pytest.mark.parametrize("kind", ["cuda", "mps"])
def test_a_gpu_has_no_core_seconds(kind):
    with pytest.raises(UsageError, match=f"CPU time, which says nothing of a device '{kind}'; use seconds=60"):
        Budget("core_seconds", 60).refuse_device(kind)
    Budget("core_seconds", 60).refuse_device("cpu")
    Budget("seconds", 60).refuse_device(kind)


def test_no_thread_waits_for_another_within_core_seconds():
    assert clocks.threads_for(Budget("core_seconds", 1), 2) == 1
    assert clocks.threads_for(Budget("seconds", 1), 2) == 2


def test_a_flops_budget_is_spent_up_to_one_step(clock):
    run = train(make_network(), make_train(n=8), Budget("flops", 105.0), flops_step=10.0)
    assert 105.0 - 10.0 < run.spent.flops <= 105.0


def test_a_flops_budget_is_spent_up_to_one_step_with_ragged_batches(clock):
    run = train(make_network(), make_train(n=5), Budget("flops", 1000.0), flops_step=10.0)
    assert 1000.0 - 10.0 < run.spent.flops <= 1000.0


def test_saving_is_not_training(clock, tmp_path):
    """A time budget is not spent on writing checkpoints, and what is slow to write is not written at every step."""
    saves = []

    class SlowToSave(nn.Conv1d):
        def state_dict(self, *args, **kwargs):
            saves.append(clock.now)
            clock.now += 100.0
            return super().state_dict(*args, **kwargs)

    run = train(
        SlowToSave(1, 1, 1), budget=Budget("seconds", 1.0), checkpoint=tmp_path / "state.pt", checkpoint_seconds=0.0
    )
    assert len(saves) == 1  # the next would come after 5,000 seconds
    assert run.spent.steps >= 15  # two looks at the clock per step at most
