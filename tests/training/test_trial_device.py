"""What a trial does to its device and to the process: precision, repeatability, random numbers, graphs, lost peers."""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from typing import ClassVar

import pytest
import torch
import torch.distributed as dist
from factories.records import TRIAL
from factories.training import make_network
from fake_device import FakeCuda, FakeDevice
from test_fake_gpu import GPU, SCALE, run_on, train
from torch import Tensor, nn

from pdebench_hss import ModelSpec
from pdebench_hss.boards.frames import leaderboard, results
from pdebench_hss.boards.text import group_line
from pdebench_hss.contract.budget import Budget
from pdebench_hss.training import graphs, trial_device
from pdebench_hss.training.peers import PeerLost, ProcessGroup, is_lost_peer
from pdebench_hss.trials.record import Record
from pdebench_hss.trials.status import Status
from pdebench_hss.trials.trial import Trial

CPU = torch.device("cpu")


# --- precision --------------------------------------------------------------------------------------------------------


def test_the_default_precision_is_not_in_a_key_and_another_is():
    """Records of releases that had no other precision are found again."""
    origins = {"model_origin": "my-solver 1.0", "task_origin": "my-solver 1.0"}  # as they were in keys then
    old = dataclasses.replace(TRIAL, hparams={"width": 8}, task_params={"nu": 0.1}, **origins)
    assert old.key == "fdc3cfbdeca89fcc07ca9099"
    assert dataclasses.replace(TRIAL, precision="float32").key == TRIAL.key
    keys = {dataclasses.replace(TRIAL, device="cuda", precision=p).key for p in ("float32", "tf32", "bf16")}
    assert len(keys) == 3
    assert TRIAL.cell.endswith(" cpu")
    assert dataclasses.replace(TRIAL, device="cuda", precision="tf32").cell.endswith(" cuda tf32")


def test_a_board_never_mixes_precisions():
    trials = [dataclasses.replace(TRIAL, device="cuda", precision=p) for p in ("float32", "tf32")]
    old = {name: value for name, value in trials[0].to_dict().items() if name != "precision"}
    trials.append(Trial.from_dict({**old, "seed": 1}))
    records = [Record(t.key, t, Status.OK, metrics={"test_err": 1.0}) for t in trials]
    board = leaderboard(results(records))
    assert sorted(board["device"]) == ["cuda", "cuda tf32"]
    assert board.set_index("device")["n_seeds"].to_dict() == {"cuda": 2, "cuda tf32": 1}
    assert {group_line(row).rpartition(" · ")[2] for _, row in board.iterrows()} == {"cuda", "cuda tf32"}


def test_bf16_is_asked_for_by_name_and_changes_the_numbers(monkeypatch):
    class Product(nn.Module):
        seen: ClassVar[set[torch.dtype]] = set()

        def __init__(self, task) -> None:
            super().__init__()
            self.map = nn.Linear(task.grid[0], task.grid[0])

        def forward(self, x: Tensor) -> Tensor:
            y = self.map(x)
            Product.seen.add(y.dtype)
            return y

    model = ModelSpec("product", "product", Product)
    plain = run_on(monkeypatch, "cpu", model, "poisson_1d")
    assert Product.seen == {torch.float32}
    Product.seen.clear()
    coarse = run_on(monkeypatch, "cpu", model, "poisson_1d", precision="bf16")
    assert Product.seen == {torch.bfloat16}  # counted, trained and predicted in it
    assert coarse.provenance["precision"] == "bf16"
    assert coarse.status == "ok"
    assert coarse.metrics["test_err"] != plain.metrics["test_err"]
    assert coarse.metrics["test_err"] == pytest.approx(plain.metrics["test_err"], rel=0.05)


def test_flags_set_by_torchs_newer_names_do_not_stop_a_trial():
    """In a notebook that used them, torch refuses to read the older ones."""
    if not hasattr(torch.backends.cuda.matmul, "fp32_precision"):
        pytest.skip("this torch has no newer names")
    before = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    try:
        with trial_device.TrialDevice("cpu") as where:
            assert where.facts()["tf32"] == {"matmul": False, "cudnn": False}
    finally:
        torch.set_float32_matmul_precision("highest")
        torch.backends.cuda.matmul.fp32_precision = before


# --- repeatability ----------------------------------------------------------------------------------------------------


class Puts(nn.Module):
    """``put_`` is an operator for which torch has no deterministic implementation, on CPUs too."""

    def __init__(self, task) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        x.detach().clone().put_(torch.tensor([0]), torch.ones(1))
        warnings.warn("something else", stacklevel=1)
        return self.weight * x


def test_an_operator_that_can_not_be_made_deterministic_is_in_the_record(monkeypatch):
    monkeypatch.setattr(trial_device, "DETERMINISTIC", ("cpu",))
    for _ in range(2):  # the second trial of a process is told again
        with pytest.warns(UserWarning, match="something else"):  # other warnings are left alone
            record = run_on(monkeypatch, "cpu", ModelSpec("puts", "puts", Puts), "poisson_1d")
        assert record.status == "ok"
        assert (record.provenance["deterministic"], record.provenance["unrepeatable"]) == (False, ["put_"])
    record = run_on(monkeypatch, "cpu", SCALE, "poisson_1d")
    assert record.provenance["deterministic"] is True
    assert "unrepeatable" not in record.provenance


# --- random numbers ---------------------------------------------------------------------------------------------------


def test_random_states_are_those_of_the_host_and_of_the_trials_own_device(monkeypatch):
    cuda = FakeCuda(monkeypatch, count=3)
    second = torch.device("cuda", 1)
    states = trial_device.random_state(second)
    assert set(states) == {"cpu", "cuda"}
    others = [g.get_state() for g in cuda.generators]
    with trial_device.kept_random_state(second):
        for generator in cuda.generators:
            torch.rand(3, generator=generator)
        torch.rand(3)
    assert torch.equal(cuda.generators[1].get_state(), others[1])
    assert torch.equal(torch.get_rng_state(), states["cpu"])
    assert not torch.equal(cuda.generators[0].get_state(), others[0])


def test_a_random_state_of_another_kind_changes_nothing(monkeypatch):
    FakeCuda(monkeypatch)
    before = torch.get_rng_state()
    wrong = {"cpu": torch.Generator().manual_seed(5).get_state(), "cuda": torch.zeros(3, dtype=torch.uint8)}
    for device in (CPU, GPU):
        with pytest.raises(ValueError, match="random state of"):
            trial_device.set_random_state(device, wrong)
    assert torch.equal(torch.get_rng_state(), before)


# --- graphs -----------------------------------------------------------------------------------------------------------


def replayed(step, module, device):
    """As a graph does: the same kernels again, whatever Python did besides; gradients where they were."""
    module.zero_grad(set_to_none=True)
    loss = step()
    gradients = [p.grad for p in module.parameters()]

    def replay() -> None:
        module.zero_grad(set_to_none=True)
        loss.copy_(step())
        for gradient, p in zip(gradients, module.parameters()):
            gradient.copy_(p.grad)

    return replay, loss


@pytest.mark.parametrize(("kind", "piece"), [("plain", None), ("batchnorm", None), ("plain", 3)])
def test_replayed_steps_give_what_eager_ones_give(monkeypatch, kind, piece):
    FakeCuda(monkeypatch)
    monkeypatch.setattr(graphs, "capture", replayed)
    with FakeDevice("cuda:0"):
        eager, replaying = make_network(kind), make_network(kind)
        expected = train(eager, GPU, piece=piece)
        run = train(replaying, GPU, cuda_graphs=True, piece=piece)
        for module in (eager, replaying):
            module.to("cpu")
    assert (expected.graphs, run.graphs) == ("", "used for full batches")
    assert run.curve == expected.curve
    for a, b in zip(eager.state_dict().values(), replaying.state_dict().values()):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


def refuses(step, module, device):
    step()
    raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nCompile with ...")


@pytest.mark.parametrize(
    ("device", "kind", "capture", "reason"),
    [
        (CPU, "plain", replayed, "not used: they need a GPU, and this is cpu"),
        (GPU, "plain", refuses, "not used: CUDA error: operation not permitted when stream is capturing"),
        (GPU, "dropout", replayed, "not used: the network draws random numbers, which a graph would draw differently"),
    ],
)
def test_what_can_not_be_a_graph_runs_as_without_and_says_why(monkeypatch, device, kind, capture, reason):
    FakeCuda(monkeypatch)
    monkeypatch.setattr(graphs, "capture", capture)
    with FakeDevice("cuda:0"):
        expected = train(make_network(kind), device)
        run = train(make_network(kind), device, cuda_graphs=True, budget=Budget("steps", 9))
    assert run.graphs == reason
    assert run.curve == expected.curve


# --- lost peers -------------------------------------------------------------------------------------------------------

NCCL = "NCCL error in: ProcessGroupNCCL.cpp:3690, "


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (dist.DistBackendError(NCCL + "invalid usage, NCCL version 2.27\nDuplicate GPU detected : rank 1"), False),
        (dist.DistBackendError(NCCL + "unhandled cuda error (run with NCCL_DEBUG=INFO)"), False),
        (dist.DistBackendError(NCCL + "remote process exited or there was a network error\nncclRemoteError: x"), True),
        (dist.DistBackendError("[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3)"), True),
        (RuntimeError("ProcessGroupNCCL is only supported with GPUs, no GPUs found!"), False),
        (RuntimeError("[gloo/transport/tcp/pair.cc:538] Connection closed by peer [127.0.0.1]:37284"), True),
        (RuntimeError("[gloo/transport/tcp/pair.cc:538] Connection reset by peer"), True),
        (RuntimeError("the model's own pipe: Broken pipe"), False),
        (RuntimeError("CUDA out of memory"), False),
        (dist.DistStoreError("Socket Timeout"), True),
        (dist.DistNetworkError("The client socket has failed: Connection reset by peer"), True),
        (ValueError("gloo: closed by peer"), False),
    ],
)
def test_a_lost_peer_is_told_from_other_trouble(monkeypatch, error, lost):
    assert is_lost_peer(error) == lost
    group = ProcessGroup.__new__(ProcessGroup)
    group.number, group.size = 0, 2
    monkeypatch.setattr(dist, "destroy_process_group", lambda: None)
    with pytest.raises(PeerLost if lost else type(error)) as raised, group.together():
        raise error
    assert str(error).splitlines()[0] in str(raised.value)


def test_nothing_of_a_trial_stays_in_the_process(monkeypatch):
    FakeCuda(monkeypatch)
    shown, filters = warnings.showwarning, list(warnings.filters)
    with FakeDevice("cuda:0"), contextlib.suppress(RuntimeError):
        run_on(monkeypatch, "cuda", SCALE, "poisson_1d", precision="tf32")
    assert (warnings.showwarning, warnings.filters) == (shown, filters)
    assert torch.get_float32_matmul_precision() == "highest"
    assert not torch.are_deterministic_algorithms_enabled()
