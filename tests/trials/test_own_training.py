"""Models that bring their own loss, optimiser or training: in the key, on the board, within the budget."""

from __future__ import annotations

import ctypes
import math
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

import pdebench_hss
from pdebench_hss.base.errors import UsageError
from pdebench_hss.boards.text import display_row
from pdebench_hss.contract.budget import CLOCKS, Budget
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.contract.traits import kind_of, misnamed, outline, training_of
from pdebench_hss.runs.config import RunConfig
from pdebench_hss.runs.plan import make_plan
from pdebench_hss.training import allowance, clocks
from pdebench_hss.trials.store import Store
from pdebench_hss.workers.processes import PR_GET_CHILD_SUBREAPER

TOYS = Path(__file__).parents[1] / "toys"
PLUGINS = [str(TOYS / "toy_plugin.py"), str(TOYS / "contract_plugin.py")]


def run(models: str, tmp_path: Path, tasks: str = "toy", **options) -> pd.DataFrame:
    settings = {"scale": "smoke", "executor": "inline", "device": "cpu", **options}
    return pdebench_hss.run(models, tasks, plugins=PLUGINS, out=str(tmp_path / "board"), **settings).results


def plan(models: str, tmp_path: Path, tasks: str = "toy", **options):
    registry = load_registry(PLUGINS)
    config = RunConfig(models=models, tasks=tasks, scale="smoke", device="cpu", plugins=PLUGINS, **options)
    return [cell.trial for cell in make_plan(config, registry, Store(tmp_path / "none")).cells]


def test_what_is_its_own_is_in_the_key_and_on_the_board(tmp_path):
    models = "own_ownloss,own_ownoptimizer,own_trainsitself,own_function,own_closedform,toy_conv"
    results = run(models, tmp_path, budget="steps=6")
    assert dict(zip(results["model"], results["status"])) == dict.fromkeys(models.split(","), "ok")
    own = {
        "own_ownloss": "own loss", "own_ownoptimizer": "own optimiser", "own_trainsitself": "trains itself",
        "own_function": "own loss", "own_closedform": "", "toy_conv": "",
    }  # fmt: skip
    assert dict(zip(results["model"], results["training"])) == own
    assert {trial.model: trial.training for trial in plan(models, tmp_path)} == own
    board = pd.read_csv(tmp_path / "board" / "leaderboard.csv")
    assert dict(zip(board["model"], board["training"].fillna(""))) == own
    assert {row["model"]: display_row(row)[-1] for _, row in board.iterrows()} == own
    assert "own optimiser" in (tmp_path / "board" / "leaderboard.md").read_text()


def test_boards_that_use_none_of_it_have_no_such_columns(tmp_path):
    run("toy_conv,mean", tmp_path)
    for name in ("results.csv", "leaderboard.csv"):
        assert not {"training", "val_err"} & set(pd.read_csv(tmp_path / "board" / name).columns)


def test_lbfgs_beats_adamw_on_a_linear_map_within_the_same_budget(tmp_path):
    results = run("own_lbfgs,toy_plain", tmp_path, scale="small").set_index("model")
    assert results.loc["own_lbfgs", "steps"] <= results.loc["toy_plain", "steps"] == 400
    assert results.loc["own_lbfgs", "test_err"] < results.loc["toy_plain", "test_err"]


@pytest.mark.parametrize(
    ("model", "steps"),
    [
        ("own_ignoresthebudget", "100 of 6 steps"),
        ("own_nevercallsitself", "100 of 6 steps"),
        ("own_fullbatch", "18 of 6 steps"),  # twelve samples in batches of four
    ],
)
def test_a_fit_that_overspends_is_marked_and_not_ranked(tmp_path, model, steps):
    results = run(f"{model},own_trainsitself", tmp_path, budget="steps=6").set_index("model")
    assert results.loc[model, "status"] == "over_budget"
    assert results.loc[model, "reason"].startswith(f"it spent {steps}; its error of ")
    board = pd.read_csv(tmp_path / "board" / "leaderboard.csv").set_index("model")
    assert math.isnan(board.loc[model, "rank"])
    assert board.loc["own_trainsitself", "rank"] == 1
    assert results.loc["own_trainsitself", "steps"] == 6


def test_the_clock_watches_a_budget_of_seconds(tmp_path):
    results = run("own_ignoresthebudget", tmp_path, budget="seconds=0.001").set_index("model")
    assert results.loc["own_ignoresthebudget", "status"] == "over_budget"
    assert "of 0.001 seconds" in results.loc["own_ignoresthebudget", "reason"]


def test_core_seconds_of_a_model_that_trains_itself_are_charged(tmp_path):
    results = run("own_ignoresthebudget,own_trainsitself", tmp_path, budget="core_seconds=0.001").set_index("model")
    assert results.loc["own_ignoresthebudget", "status"] == "over_budget"
    assert "of 0.001 core-seconds" in results.loc["own_ignoresthebudget", "reason"]
    assert results.loc["own_ignoresthebudget", "core_seconds"] > 0.001


BURN = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass\nprint(flush=True)\n"


def core_seconds() -> allowance.Allowance:
    return allowance.Allowance(Budget("core_seconds", 0.2), n_train=12, batch=4, flops_step=0.0)


@pytest.mark.parametrize("ending", ["is waited for", "is not waited for", "still runs"])
def test_what_a_fit_starts_is_charged_in_core_seconds(ending):
    """A process of its own does not hide its work, however it ends."""
    command = [sys.executable, "-c", BURN + ("time.sleep(60)" if ending == "still runs" else "")]
    budget = core_seconds()
    with budget.watching(None):
        child = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert child.stdout.readline()
        if ending == "is not waited for":
            assert child.stdout.read() == b""  # so it has closed its end, and ends
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        elif ending == "is waited for":
            child.wait()
    child.kill()
    child.communicate()
    assert budget.spent.core_seconds >= 0.29
    assert budget.overspent.endswith("of 0.2 core-seconds")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody adopts orphans")
def test_a_daemon_that_a_fit_starts_is_charged_too():
    """Its parent is gone before it has done anything; afterwards orphans go where they went before."""
    burn = BURN.replace("print(", "import os; print(os.getpid(), ")
    start = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {burn!r}], start_new_session=True)"
    budget = core_seconds()
    with budget.watching(None):
        parent = subprocess.Popen([sys.executable, "-c", start], stdout=subprocess.PIPE)
        assert parent.wait() == 0
        daemon = int(parent.stdout.readline())
    parent.stdout.close()
    assert os.waitpid(daemon, 0)[1] == 0  # it was ours
    assert budget.overspent.endswith("of 0.2 core-seconds")
    adopts = ctypes.c_int(-1)
    assert ctypes.CDLL(None).prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(adopts), 0, 0, 0) == 0
    assert adopts.value == 0


def test_what_a_process_did_before_the_fit_is_not_charged():
    child = subprocess.Popen([sys.executable, "-c", BURN + "input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout.readline()
    budget = core_seconds()
    with budget.watching(None):
        child.communicate(b"\n")  # it ends here
    assert budget.spent.core_seconds < 0.2
    assert budget.overspent == ""


@pytest.mark.parametrize("kind", CLOCKS)
@pytest.mark.parametrize(
    ("seconds", "overspent"), [(0.99, ""), (1.05, ""), (1.0501, "1.05 of 1 {}"), (1.06, "1.06 of 1 {}")]
)
@pytest.mark.parametrize("start", [0.0, 86400.1], ids=["clock at zero", "clock of a day"])
def test_five_percent_more_are_allowed(monkeypatch, kind, start, seconds, overspent):
    """Exactly five too, whatever the clock says: the difference of two readings is rounded, here to a bit more."""
    clock = SimpleNamespace(now=start)
    fake = SimpleNamespace(perf_counter=lambda: clock.now, process_time=lambda: clock.now)
    monkeypatch.setattr(clocks, "time", fake)
    budget = allowance.Allowance(Budget(kind, 1.0), n_train=12, batch=4, flops_step=0.0)
    with budget.watching(None):
        clock.now = start + seconds
        assert budget.is_spent == (seconds >= 1)
    clock.now += 100.0  # what comes after the fit does not count
    assert budget.overspent == overspent.format(kind.replace("_", "-"))


def test_a_fit_that_keeps_to_its_budget_has_a_curve_and_is_counted(tmp_path):
    (trial,) = plan("own_trainsitself", tmp_path, budget="epochs=2")
    results = run("own_trainsitself", tmp_path, budget="epochs=2")
    assert results["steps"].item() == 6
    assert results["fit_flops"].item() == 6 * results["flops_step"].item()
    samples = Store(tmp_path / "board").samples(trial.key, "curve_losses", "curve_steps")
    assert samples["curve_steps"].tolist() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("model", "status", "reason"),
    [
        ("own_vectorloss", "failed", "has shape (4,), expected one number"),
        ("own_nanloss", "diverged", "loss is nan at step 0"),
        ("own_noparameters", "failed", "an optimiser over no parameters"),
    ],
)
def test_what_can_t_be_trained_is_a_row_with_its_reason(tmp_path, model, status, reason):
    results = run(f"{model},toy_conv", tmp_path).set_index("model")
    assert results.loc[model, "status"] == status
    assert reason in results.loc[model, "reason"]
    assert results.loc["toy_conv", "status"] == "ok"


def test_names_of_other_frameworks_are_answered_with_ours(cli, tmp_path):
    plugins = [word for file in PLUGINS for word in ("--plugin", file)]
    done = cli("run", "--models", "own_lightning", "--tasks", "toy", "--scale", "smoke", *plugins)
    assert done.code == 0
    assert "training_step is not part of the contract and is not called; here it is loss(" in done.out + done.err
    assert "configure_optimizers is not part of" in done.out + done.err
    held = cli("check", "own_holdsaloss", "--tasks", "toy", *plugins)
    assert "loss_fn is not part of the contract" in held.err
    assert "loss is an attribute and not a method" in held.err


def test_the_outline_of_a_class_says_what_the_class_does():
    """What `show` reads off the source is what the imported class would say."""
    registry = load_registry(PLUGINS)
    for name, model in registry.models.items():
        found, read = model.spec.model_class(), outline(model.spec.build)
        if found is None or read is None:
            assert name in ("own_function", "hss_fit") or found is not None  # made by functions
            continue
        assert (kind_of(read), training_of(read), list(misnamed(read))) == (
            kind_of(found), training_of(found), list(misnamed(found)),
        )  # fmt: skip


def test_show_tells_who_trains_a_model(cli):
    plugins = [word for file in PLUGINS for word in ("--plugin", file)]
    for model, kind in (("own_ownloss", "trained by the core, own loss"), ("own_trainsitself", "trains itself")):
        assert kind in cli("show", model, *plugins).out


# --- several steps ---------------------------------------------------------------------------------------------------


def test_unroll_is_set_in_brackets_is_in_the_key_and_on_the_board(tmp_path):
    results = run("toy_conv,toy_conv[unroll=3],toy_conv[detach=true,unroll=3]", tmp_path, "toy_rollout")
    assert list(results["status"]) == ["ok"] * 3
    assert results["key"].nunique() == results["test_err"].nunique() == 3
    assert list(results["training"]) == ["", "unrolled over 3 steps", "unrolled over 3 steps, detached"]
    plain, through, _ = results["flops_step"]
    assert 3 * plain <= through < 4 * plain


@pytest.mark.parametrize(
    ("model", "task", "complaint"),
    [
        ("toy_conv[unroll=6]", "toy_rollout", "unroll=6, but a trajectory of 'toy_rollout' has 5 steps"),
        ("toy_conv[unroll=3]", "toy_rollout[history=4]", "has 2 steps after the 4 frames that a model sees"),
        ("toy_conv[unroll=2]", "toy", "unroll=2 is for rollout tasks, and 'toy' is steady"),
        ("toy_conv[unroll=0]", "toy_rollout", "unroll must be at least 1, not 0"),
        ("toy_conv", "toy_rollout[history=6]", "history=6, but a trajectory at scale smoke has 6 frames"),
        ("toy_conv", "toy_rollout[history=0]", "history must be at least 1, not 0"),
        ("toy_conv", "toy[history=2]", "task 'toy' has no option 'history'"),
    ],
)
def test_windows_that_don_t_fit_are_refused_in_one_line(tmp_path, model, task, complaint):
    with pytest.raises(UsageError) as error:  # the command line prints it and exits with 2
        plan(model, tmp_path, task)
    assert complaint in str(error.value)
    assert "\n" not in str(error.value)
