"""--ddp N: several processes train one model and compute what one process computes, to rounding."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from factories.records import TRIAL
from test_loop import make_train
from test_optimizers import WithOptimizer, lbfgs
from torch import nn

import pdebench_hss as pb
from pdebench_hss.base.errors import UsageError
from pdebench_hss.runs.config import RunConfig
from pdebench_hss.runs.executors.endings import Gang
from pdebench_hss.runs.executors.halves import Ending
from pdebench_hss.runs.runner import Run
from pdebench_hss.training.peers import ProcessGroup, refusal
from pdebench_hss.trials.record import Record
from pdebench_hss.trials.status import Status
from pdebench_hss.trials.store import Store

pytestmark = pytest.mark.timeout(240)

# Nine samples in batches of four: the last batch of an epoch is one sample, and a peer has nothing to do.
UNEVEN = {"tasks": "toy", "scale": "smoke", "budget": "steps=50", "train_size": 9}


def run(toys, out, **options):
    pb.run(**{**UNEVEN, "plugins": [toys], "out": str(out), **options})
    return {record.trial.model: record for record in Store(out).all()}


def losses(out, record) -> np.ndarray:
    return Store(out).samples(record.key, "curve_losses")["curve_losses"]


def test_two_processes_compute_what_one_does_and_a_rank_that_dies_is_a_status(toys, tmp_path):
    models = "resnet,fno,neural_hss"
    alone = run(toys, tmp_path / "alone", models=models, executor="inline")
    together = run(toys, tmp_path / "together", models=f"{models},linear,toy_conv,toy_deserter", ddp=2)
    for name, record in alone.items():
        other = together[name]
        assert (record.status, other.status) == ("ok", "ok")
        assert record.key == other.key  # the same trial: it may be continued, or looked up, either way
        one, two = losses(tmp_path / "alone", record), losses(tmp_path / "together", other)
        assert len(one) == 50
        assert np.abs(one - two).max() < 1e-5
        assert other.metrics["test_err"] == pytest.approx(record.metrics["test_err"], rel=1e-4)
        assert (other.spent["samples"], other.spent["flops"]) == (record.spent["samples"], record.spent["flops"])
        assert other.provenance["ddp"] == 2
    assert together["linear"].status == "ok"  # it fits itself, on peer 0
    assert together["toy_conv"].status == "failed"
    assert "--ddp 2: it draws random numbers in its forward pass" in together["toy_conv"].reason
    assert together["toy_deserter"].status == "failed"
    assert "SIGSEGV" in together["toy_deserter"].reason  # the cause, and not that peer 0 lost the other


@pytest.mark.cold
def test_stopped_with_two_processes_it_goes_on_with_one(toys, tmp_path):
    model = "toy_plain[seconds=0.1]"
    options = ["--models", model, "--tasks", "toy", "--scale", "smoke", "--budget", "steps=60", "--plugin", toys]
    command = [sys.executable, "-m", "pdebench_hss", "run", *options, "--out", str(tmp_path / "board"), "--ddp", "2"]
    stopped = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 60
    while not list((tmp_path / "board" / "logs").glob("*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(2.5)
    stopped.send_signal(signal.SIGINT)
    assert "0 of 1 trials done" in stopped.communicate(timeout=40)[1]
    assert len(list((tmp_path / "board" / "checkpoints").glob("*.pt"))) == 1
    settings = {"budget": "steps=60", "train_size": None, "executor": "inline"}
    resumed = run(toys, tmp_path / "board", models=model, **settings)["toy_plain"]
    whole = run(toys, tmp_path / "whole", models="toy_plain", **settings)["toy_plain"]  # as it is but for the sleep
    assert resumed.seconds["total"] < resumed.seconds["fit"]  # the first sitting is in the second number only
    difference = losses(tmp_path / "board", resumed) - losses(tmp_path / "whole", whole)
    assert np.abs(difference).max() < 1e-5


def test_rank_0s_clock_ends_a_budget_of_seconds_for_all(toys, tmp_path):
    record = run(toys, tmp_path / "board", models="toy_plain[seconds=0.05]", budget="seconds=1", ddp=2)["toy_plain"]
    assert record.status == "ok"
    assert 1.0 <= record.spent["seconds"] < 1.5


def test_core_seconds_are_the_sum_of_those_of_all_peers(toys, tmp_path):
    record = run(toys, tmp_path / "board", models="toy_plain", budget="core_seconds=0.5", ddp=2)["toy_plain"]
    assert record.status == "ok"
    assert 0.5 <= record.spent["core_seconds"] < 1.0
    alone = run(toys, tmp_path / "alone", models="toy_plain", budget="core_seconds=0.5")["toy_plain"]
    assert record.spent["steps"] < 0.8 * alone.spent["steps"]  # two pay for each step, and for meeting


def test_inline_has_one_process_only(toys, tmp_path):
    config = RunConfig(**UNEVEN, models="mean", plugins=[toys], out=str(tmp_path / "b"), executor="inline", ddp=2)
    with pytest.raises(UsageError, match="--ddp 2 needs as many processes: use --executor process or ray"):
        Run(config).execute()


@pytest.mark.parametrize(("size", "peers"), [(8, 2), (7, 2), (5, 3), (2, 4), (1, 3)])
def test_shares_cover_the_batch_and_their_weights_make_its_mean(size, peers):
    values = torch.arange(1.0, size + 1)
    total, seen = 0.0, []
    for peer in range(peers):
        group = ProcessGroup.__new__(ProcessGroup)
        group.number, group.size = peer, peers
        mine, weight = group.share(torch.arange(size))
        assert len(mine)  # every peer takes part in every step
        total += weight * values[mine].mean().item() / peers  # as DistributedDataParallel averages
        seen += mine.tolist() if weight else []
    assert seen == list(range(size))
    assert total == pytest.approx(values.mean().item())


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (nn.Dropout(0.5), "draws random numbers"),
        (nn.BatchNorm1d(2), "changes buffer '1.running_mean'"),
        (nn.Dropout(0.0), None),
        (nn.GroupNorm(1, 2), None),
    ],
)
def test_what_depends_on_how_a_batch_is_split_is_refused_and_nothing_is_changed(layer, reason):
    module = nn.Sequential(nn.Conv1d(1, 2, 1), layer, nn.Conv1d(2, 1, 1))
    before = {name: value.clone() for name, value in module.state_dict().items()}
    train = make_train()
    random = torch.get_rng_state()
    found = refusal(module, train, torch.device("cpu"))
    assert found is None if reason is None else reason in found
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert torch.equal(random, torch.get_rng_state())


class LossOfABatch(nn.Conv1d):
    def loss(self, prediction, target, batch):
        return (prediction - target).square().sum().sqrt()


def test_losses_and_optimisers_of_a_model_that_can_t_be_shared_are_refused():
    train, cpu = make_train(), torch.device("cpu")
    assert "not a mean over the samples" in refusal(LossOfABatch(1, 1, 1), train, cpu)
    assert "a closure" in refusal(WithOptimizer(lbfgs), train, cpu)
    assert refusal(WithOptimizer(lambda parameters, recipe: torch.optim.SGD(parameters, lr=0.1)), train, cpu) is None


def test_the_first_peer_that_ends_badly_by_itself_is_the_reason():
    gang = Gang(3)
    gang.end(0, Ending(Record("k", TRIAL, Status.FAILED, "peer 0 of 3 lost the others"), peer_lost=True))
    assert gang.abandoned
    assert not gang.failed
    gang.end(2, Ending(Record("k", TRIAL, Status.OUT_OF_MEMORY, "killed")))
    assert gang.failed
    assert gang.missing == [1]
    assert gang.record is None
    gang.end(1, Ending(Record("k", TRIAL, Status.FAILED, "crashed: SIGKILL")))
    assert gang.record.status == "out_of_memory"
