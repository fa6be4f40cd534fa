"""Trials on a GPU that is not there: what would break on it, give another number, or wait for nothing."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import torch
from factories.records import make_trial
from factories.training import NUMBERS, STEPS, make_network, make_train, same_state, train_once
from fake_device import FakeCuda, FakeDevice
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from pdebench_hss import ModelSpec
from pdebench_hss.base.errors import Interrupted
from pdebench_hss.contract.budget import Budget
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.data import blind, cache
from pdebench_hss.data.blind import BlindData
from pdebench_hss.data.cache import Split
from pdebench_hss.training import clocks, warmup
from pdebench_hss.training.evaluation import Predictor
from pdebench_hss.training.loop import Diverged, fit
from pdebench_hss.training.normalization import Affine, Normalizer
from pdebench_hss.trials.context import Context
from pdebench_hss.trials.run_trial import run_trial

GPU = torch.device("cuda", 0)
REGISTRY = load_registry()
TASKS = ["poisson_1d", "burgers_1d", "poisson_2d_lshape"]  # steady, rollout, masked
MODELS = ["resnet", "fno", "deeponet", "green_learning", "factformer", "neural_hss"]


def run_on(monkeypatch, kind: str, model: str | ModelSpec, task: str, n: int = 6, **options):
    """A whole trial at scale smoke on random data, which need no files."""
    spec = REGISTRY.task(task).spec
    info = spec.info("smoke", spec.params)
    random = np.random.default_rng(0)
    frames = (info.size.steps,) if spec.rollout else ()

    def split() -> Split:
        return Split(
            random.normal(size=(n, spec.in_channels, *info.grid)).astype(np.float32),
            random.normal(size=(n, *frames, spec.out_channels, *info.grid)).astype(np.float32),
        )

    train, test = split(), split()
    header = SimpleNamespace(sha256="0", path=Path("x"), seconds_per_sample=None)
    monkeypatch.setattr(blind, "load", lambda *_, **__: BlindData(info, train, test.inputs, "0"))
    monkeypatch.setattr(cache, "verify", lambda *_: header)
    monkeypatch.setattr(cache, "read_split", lambda *_: test)
    chosen = model if isinstance(model, ModelSpec) else REGISTRY.model(model).spec
    alone = {"model": lambda _: SimpleNamespace(spec=chosen), "task": REGISTRY.task, "metrics": REGISTRY.metrics}
    registry = SimpleNamespace(**alone)
    trial = make_trial(
        chosen.name, task=task, hparams=chosen.hparams_for(info), task_params=spec.params, budget=Budget("steps", 3),
        n_train=n, device=kind, **{"equation": "", "metric": "", **options},
    )  # fmt: skip
    return run_trial(trial, Context(), registry)


class Scale(nn.Module):
    """The smallest network; what it sees of torch's settings is kept."""

    seen: ClassVar[dict[str, object]] = {}

    def __init__(self, task) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        Scale.seen = {
            "matmul": torch.backends.cuda.matmul.allow_tf32,
            "cudnn": torch.backends.cudnn.allow_tf32,
            "deterministic": torch.are_deterministic_algorithms_enabled(),
        }
        return self.weight * x


SCALE = ModelSpec("scale", "scale", Scale)


@pytest.fixture
def cuda(monkeypatch):
    return FakeCuda(monkeypatch)


# --- what would break -------------------------------------------------------------------------------------------------


def test_the_device_has_an_index_because_old_torch_tells_no_free_memory_without(monkeypatch, cuda):
    with FakeDevice("cuda:0"):
        record = run_on(monkeypatch, "cuda", SCALE, "poisson_1d")
    assert (record.status, record.reason) == ("ok", "")
    assert cuda.asked["mem_get_info"] == 1  # once for inputs and outputs together


@pytest.fixture
def no_float64(monkeypatch):
    monkeypatch.setattr(torch.mps, "synchronize", lambda: None)
    monkeypatch.setattr(torch.mps, "get_rng_state", lambda: torch.zeros(8, dtype=torch.uint8))
    monkeypatch.setattr(torch.mps, "set_rng_state", lambda state: None)
    with FakeDevice("mps", refused=(torch.float64, torch.complex128)) as fake:
        yield fake


@pytest.mark.parametrize("task", TASKS)
def test_apples_gpus_have_no_float64_and_trials_end_well_with_the_cpus_numbers(monkeypatch, no_float64, task):
    record = run_on(monkeypatch, "mps", "resnet", task)
    assert (record.status, record.reason) == ("ok", "")
    assert no_float64.calls["convolution"]  # it was there that it trained
    expected = run_on(monkeypatch, "cpu", "resnet", task)
    assert record.metrics == pytest.approx(expected.metrics, rel=1e-6)  # AdamW is not the fused one there


@pytest.mark.parametrize("model", MODELS)
def test_no_model_of_ours_brings_float64_to_apples_gpus(monkeypatch, no_float64, model):
    record = run_on(monkeypatch, "mps", model, "poisson_1d" if model != "factformer" else "poisson_2d_lshape")
    assert (record.status, record.reason) == ("ok", "")


def stopped_after(steps: int):
    left = iter(range(steps - 1, -1, -1))
    return lambda: next(left) == 0


def train(module: nn.Module, device: torch.device, **options):
    torch.manual_seed(11)
    budget, pairs = options.pop("budget", Budget("steps", STEPS)), options.pop("pairs", None) or make_train()
    return fit(module.to(device), pairs, budget, NUMBERS, seed=0, device=device, flops_step=1.0, **options)


def test_a_checkpoint_from_two_gpus_goes_on_with_one(monkeypatch, tmp_path):
    whole = make_network("plain")
    expected = train_once(whole)
    with FakeDevice("cuda:0"):
        FakeCuda(monkeypatch, count=2)
        with pytest.raises(Interrupted):
            train(make_network("plain"), GPU, checkpoint=tmp_path / "state.pt", should_stop=stopped_after(2))
        one = FakeCuda(monkeypatch, count=1)
        module = make_network("plain")
        run = train(module, GPU, checkpoint=tmp_path / "state.pt")
    assert run.curve == expected.curve
    assert torch.equal(one.generators[0].get_state(), torch.Generator().manual_seed(100).get_state())


@pytest.mark.parametrize(("before", "after"), [("cpu", "cuda"), ("cuda", "cpu")])
def test_a_checkpoint_of_another_kind_of_device_means_starting_from_zero(
    monkeypatch, tmp_path, capsys, cuda, before, after
):
    expected = train_once(make_network("plain"))
    place = {"cpu": torch.device("cpu"), "cuda": GPU}
    with FakeDevice("cuda:0"):
        with pytest.raises(Interrupted):
            train(make_network("plain"), place[before], checkpoint=tmp_path / "s.pt", should_stop=stopped_after(2))
        run = train(make_network("plain"), place[after], checkpoint=tmp_path / "s.pt")
    assert run.curve == expected.curve
    words = f"checkpoint s.pt can't be used (it has no random state of {after}); starting from zero"
    assert words in capsys.readouterr().out


def test_a_cpu_trial_asks_cuda_nothing(monkeypatch, tmp_path):
    """Random states, names of hardware, memory: each question would start CUDA, on a GPU that nobody is to use."""
    cuda = FakeCuda(monkeypatch, count=2)
    assert run_on(monkeypatch, "cpu", SCALE, "poisson_1d").status == "ok"
    with pytest.raises(Interrupted):
        train_once(make_network("dropout"), checkpoint=tmp_path / "s.pt", should_stop=stopped_after(2))
    train_once(make_network("dropout"), checkpoint=tmp_path / "s.pt")
    assert cuda.asked == {}


def test_a_closed_form_asks_cuda_nothing_and_is_recorded_with_the_device_it_used(monkeypatch, cuda):
    record = run_on(monkeypatch, "cuda", "linear", "poisson_1d")
    assert (record.status, record.trial.device, record.provenance["device"]) == ("ok", "cuda", "cpu")
    assert record.provenance["hardware"]["gpus"] == []
    assert cuda.asked == {}


# --- what would give another number -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("precision", "allowed"), [("float32", False), ("tf32", True), (None, False)])
def test_every_model_computes_in_one_precision_and_the_record_says_which(monkeypatch, cuda, precision, allowed):
    torch.backends.cudnn.allow_tf32 = True  # torch's default
    options = {"precision": precision} if precision else {}
    with FakeDevice("cuda:0"):
        record = run_on(monkeypatch, "cuda", SCALE, "poisson_1d", **options)
    assert (Scale.seen["matmul"], Scale.seen["cudnn"]) == (allowed, allowed)
    assert record.provenance["tf32"] == {"matmul": allowed, "cudnn": allowed}
    assert record.provenance["precision"] == (precision or "float32")
    assert torch.backends.cudnn.allow_tf32  # as it was: the process may be a notebook's
    assert not torch.backends.cuda.matmul.allow_tf32


def test_memory_is_that_of_the_trial_on_its_own_device(monkeypatch):
    cuda = FakeCuda(monkeypatch, count=2)
    cuda.allocated, cuda.peak = [100, 5], [900, 5000]  # from what ran before

    class Uses(Scale):
        def forward(self, x: Tensor) -> Tensor:
            cuda.peak[0] = 100 + 64
            return super().forward(x)

    with FakeDevice("cuda:0"):
        record = run_on(monkeypatch, "cuda", ModelSpec("uses", "uses", Uses), "poisson_1d")
    assert record.peak_memory == 64
    assert record.provenance["hardware"]["gpus"] == ["Fake 0"]


def test_on_a_gpu_algorithms_are_deterministic_and_afterwards_as_before(monkeypatch, cuda):
    with FakeDevice("cuda:0"):
        record = run_on(monkeypatch, "cuda", SCALE, "poisson_1d")
    assert Scale.seen["deterministic"]
    assert record.provenance["deterministic"] is True
    assert not torch.are_deterministic_algorithms_enabled()
    run_on(monkeypatch, "cpu", SCALE, "poisson_1d")
    assert not Scale.seen["deterministic"]  # there, results repeat without, and are those of earlier releases


# --- what would be needlessly slow ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["plain", "dropout", "batchnorm"])
def test_training_there_gives_what_training_here_gives(cuda, kind):
    here, there = make_network(kind), make_network(kind)
    expected = train(here, torch.device("cpu"))
    with FakeDevice("cuda:0"):
        run = train(there, GPU)
        there.to("cpu")
    assert run.curve == expected.curve
    for what in ("steps", "samples", "flops"):
        assert getattr(run.spent, what) == getattr(expected.spent, what) > 0
    assert all(torch.equal(a, b) for a, b in zip(here.state_dict().values(), there.state_dict().values()))


@pytest.fixture
def work(monkeypatch):
    """``work(module, seconds)``: from now on time passes only in the module's forward pass, so much each time."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(clocks, "time", SimpleNamespace(perf_counter=lambda: clock.now, process_time=lambda: 0.0))

    def takes(module: nn.Module, seconds: float) -> nn.Module:
        def pass_time(*_) -> None:
            clock.now += seconds

        module.register_forward_pre_hook(pass_time)
        return module

    return takes


def test_the_host_hardly_ever_waits_for_the_device(cuda, work):
    """Per step it used to wait three times: two indices were sent, and the loss was read."""
    with FakeDevice("cuda:0") as fake:
        module = work(make_network("plain"), 0.001).to(GPU)
        fake.clear()
        run = train(module, GPU, budget=Budget("steps", 200))
    assert len(run.curve.losses) == 200
    assert fake.uploads == 2 + 100  # inputs, outputs, and a permutation per epoch of two steps
    assert fake.reads + fake.downloads == 5  # windows of 1, 64, 64, 64 and 7 steps


def test_on_a_cpu_every_loss_is_read_at_once(monkeypatch):
    """There is nothing to gain, and a loop that stops is seen to stop at once."""
    events = []
    train_once(make_network("plain"), should_stop=lambda: events.append(1) or False)
    assert len(events) == STEPS


@pytest.mark.parametrize("bad", [0, 5, 90])
def test_a_loss_that_is_not_finite_is_reported_with_its_step_however_late_it_is_read(cuda, bad):
    class Explodes(nn.Conv1d):
        calls = 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            return super().forward(x) * (math.inf if self.calls == bad + 1 else 1.0)

    with FakeDevice("cuda:0"), pytest.raises(Diverged, match=rf"^loss is inf at step {bad}$"):
        train(Explodes(1, 1, 1), GPU, budget=Budget("steps", 120))


@pytest.mark.parametrize("seconds", [0.002, 0.03, 0.3])
def test_a_budget_of_seconds_ends_where_it_should_although_the_clock_is_seldom_read(cuda, work, seconds):
    looks, rates = [], []
    handle = register_optimizer_step_pre_hook(lambda adamw, *_: rates.append(adamw.param_groups[0]["lr"]))
    try:
        with FakeDevice("cuda:0"):
            module = work(make_network("plain"), seconds)
            run = train(module, GPU, budget=Budget("seconds", 0.4), should_stop=lambda: looks.append(1) or False)
    finally:
        handle.remove()
    assert 0.4 <= run.spent.seconds <= 0.4 + 1.01 * seconds
    assert run.spent.steps == len(run.curve.losses) == len(rates) == pytest.approx(0.4 / seconds, abs=1)
    assert rates == sorted(rates, reverse=True)  # the cosine falls inside of windows too
    assert len(set(rates)) == len(rates)
    if seconds == 0.002:
        assert len(looks) < run.spent.steps / 10


def test_complex_weights_are_optimised_in_one_kernel_with_the_same_result(cuda):
    here, there = make_network("complex"), make_network("complex")
    expected = train(here, torch.device("cpu"))
    with FakeDevice("cuda:0") as fake:
        there.to(GPU)
        fake.clear()
        run = train(there, GPU)
        there.to("cpu")
    assert fake.calls["_fused_adamw_"] == STEPS
    assert fake.calls["addcdiv_"] == fake.calls["addcmul_"] == 0
    assert run.curve.losses == pytest.approx(expected.curve.losses, rel=1e-5)
    for a, b in zip(here.parameters(), there.parameters()):
        torch.testing.assert_close(a, b.detach(), rtol=1e-5, atol=1e-6)
        assert a.dtype == b.dtype


def test_complex_weights_go_on_from_a_checkpoint_there_too(cuda, tmp_path):
    with FakeDevice("cuda:0"):
        expected = train(make_network("complex"), GPU)
        with pytest.raises(Interrupted):
            train(make_network("complex"), GPU, checkpoint=tmp_path / "s.pt", should_stop=stopped_after(2))
        run = train(make_network("complex"), GPU, checkpoint=tmp_path / "s.pt")
    assert run.curve == expected.curve


def test_data_that_do_not_fit_stay_on_the_host_and_batches_are_sent_from_pinned_memory(monkeypatch):
    pairs = make_train()
    both = pairs.inputs.nbytes + pairs.outputs.nbytes
    expected = train_once(make_network("plain"))
    for free, on_host in ((3 * both - 3, True), (3 * both, False)):  # a third of it is for both together
        FakeCuda(monkeypatch, free=free)
        with FakeDevice("cuda:0") as fake:
            module = make_network("plain").to(GPU)
            fake.clear()
            run = train(module, GPU, pairs=pairs)
        assert run.curve == expected.curve
        assert fake.pinned == (2 * STEPS if on_host else 0)
        warm_up = 2 * len(warmup.batch_sizes(len(pairs), NUMBERS.batch))  # each size of batch once, before the clock
        assert fake.uploads == (warm_up + 2 * STEPS if on_host else 2 + math.ceil(STEPS / 2))


@pytest.mark.parametrize("rollout", [False, True])
def test_a_batch_is_predicted_with_one_copy_there_and_one_back(cuda, rollout):
    info = make_train().task
    steps = 5 if rollout else 1
    task = SimpleNamespace(
        rollout=rollout, history=1, out_channels=1, size=SimpleNamespace(steps=steps), grid=info.grid
    )
    normalizer = Normalizer(Affine(np.array([0.5]), np.array([2.0])), Affine(np.array([-1.0]), np.array([3.0])))
    inputs = np.random.default_rng(0).normal(size=(12, 1, 8)).astype(np.float32)
    expected = Predictor(make_network("plain"), task, normalizer, 4, torch.device("cpu"))(inputs)
    with FakeDevice("cuda:0") as fake:
        predict = Predictor(make_network("plain").to(GPU), task, normalizer, 4, GPU)
        predict(inputs)
        fake.clear()
        found = predict(inputs)
    assert np.array_equal(found, expected)
    assert (fake.uploads, fake.downloads, fake.reads) == (3, 3, 0)


def test_networks_are_equal_after_all(cuda):
    """The comparisons above would pass if nothing was trained."""
    module = make_network("plain")
    with FakeDevice("cuda:0"):
        train(module, GPU)
        module.to("cpu")
    assert not same_state(module, make_network("plain"))
