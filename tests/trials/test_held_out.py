"""--val: a share of train, the same for every model, never test; and trials that don't read test at all."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest

import pdebench_hss
from pdebench_hss.base.errors import UsageError
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.data import cache
from pdebench_hss.data.holdout import held_out, held_out_count
from pdebench_hss.runs.config import RunConfig
from pdebench_hss.runs.plan import make_plan
from pdebench_hss.trials.context import Context
from pdebench_hss.trials.fitting import dataset_of, held_out_of
from pdebench_hss.trials.run_trial import run_trial
from pdebench_hss.trials.status import Status
from pdebench_hss.trials.store import Store

TOYS = Path(__file__).parents[1] / "toys"
PLUGINS = [str(TOYS / "toy_plugin.py"), str(TOYS / "contract_plugin.py")]
REGISTRY = load_registry(PLUGINS)


def trials(models: str, tasks: str = "toy", **options):
    config = RunConfig(models=models, tasks=tasks, scale="smoke", device="cpu", plugins=PLUGINS, **options)
    found = [cell.trial for cell in make_plan(config, REGISTRY, Store("nowhere")).cells]
    for trial in found:
        cache.ensure(dataset_of(trial, Context(), REGISTRY)[0], plugin_files=PLUGINS)
    return found


def run(trial, **changes):
    return run_trial(dataclasses.replace(trial, **changes), Context(plugin_files=tuple(PLUGINS)), REGISTRY)


# --- which samples ---------------------------------------------------------------------------------------------------


def test_every_model_has_the_same_samples_held_out_and_another_seed_others():
    found = trials("toy_conv,own_trainsitself,mean", val="25%", seeds=2)
    masks = {(t.model, t.seed): held_out_of(t, dataset_of(t, Context(), REGISTRY)[0]) for t in found}
    for seed in (0, 1):
        same = [mask for (_, s), mask in masks.items() if s == seed]
        assert all(np.array_equal(same[0], mask) for mask in same)
        assert same[0].shape == (12,)
        assert same[0].sum() == 3
    assert not np.array_equal(masks["mean", 0], masks["mean", 1])
    assert {(t.n_train, t.val) for t in found} == {(9, 3)}


def test_groups_are_held_out_whole():
    mask = held_out(14, 6, 3, "some_task", 0, 0)  # the last two samples are no whole group
    assert mask.sum() == 6
    assert {tuple(group) for group in mask[:12].reshape(4, 3)} == {(True,) * 3, (False,) * 3}
    assert held_out_count("10%", 64, 4, "t") == 8  # 6.4 samples are nearest to two groups
    assert held_out_count("1%", 64, 4, "t") == 4
    assert held_out_count(5, 64, 4, "t") == 8


@pytest.mark.parametrize("val", ["99%", 12, 40])
def test_a_share_that_leaves_nothing_to_train_on_is_refused(val):
    with pytest.raises(UsageError, match="none is left to train on"):
        trials("toy_conv", val=val)


@pytest.mark.parametrize("val", ["0%", "100%", "-3", "many", "0", ""])
def test_what_is_no_share_is_refused(val):
    with pytest.raises(UsageError, match="--val"):
        RunConfig(models="mean", tasks="toy", val=val)


def test_the_command_line_says_it_in_one_line(cli):
    done = cli("run", "--models", "mean", "--tasks", "toy", "--scale", "smoke", "--val", "12", "--plugin", PLUGINS[0])
    assert done.code == 2
    assert done.err.startswith("error: --val 12: 12 of 12 training samples of task 'toy' would be held out")
    assert len(done.err.strip().splitlines()) == 1


# --- what is recorded ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["toy", "toy_rollout"])
def test_the_error_on_held_out_samples_is_that_of_the_last_weights(task):
    (trial,) = trials("toy_conv", task, val=3, budget="steps=20")
    record = run(trial)
    assert record.status is Status.OK
    assert (record.data["n_train"], record.data["n_val"]) == (9, 3)
    steps, errors = record.samples["val_steps"], record.samples["val_errors"]
    assert steps.tolist() == list(range(2, 21, 2))
    assert errors[-1] == record.metrics["val_err"] == record.samples["error_val_err"].mean()
    assert len(set(errors.tolist())) == len(errors)
    assert (np.diff(record.samples["val_seconds"]) > 0).all()


def test_looking_changes_nothing_of_the_training():
    """Dropout draws random numbers: the same weights come out of a training that nobody watched."""
    (watched,) = trials("toy_conv", val=3)
    record = run(watched)
    from pdebench_hss.trials import fitting

    kept, fitting._held_out = fitting._held_out, lambda *_: None
    try:
        alone = run(watched)
    finally:
        fitting._held_out = kept
    assert "val_errors" not in alone.samples
    assert alone.metrics == record.metrics
    np.testing.assert_array_equal(alone.samples["curve_losses"], record.samples["curve_losses"])


def test_closed_forms_and_models_that_train_themselves_have_it_too():
    for trial in trials("mean,own_trainsitself", val=3):
        record = run(trial)
        assert record.status is Status.OK
        assert 0 < record.metrics["val_err"] != record.metrics["test_err"]


def test_off_it_is_in_no_key_and_on_it_is(tmp_path):
    (off,), (on,) = trials("mean"), trials("mean", val="25%")
    plain = {name: value for name, value in off.to_dict().items() if name not in ("val", "judge", "history")}
    assert {"val": 0, "judge": "test", "history": 1}.items() <= off.to_dict().items()
    from pdebench_hss.trials.trial import trial_key

    assert trial_key(plain) == off.key != on.key
    assert off.place != on.place


def test_a_board_with_and_without_keeps_them_apart(tmp_path):
    settings = {"scale": "smoke", "executor": "inline", "device": "cpu", "plugins": PLUGINS, "out": str(tmp_path / "b")}
    pdebench_hss.run("mean,toy_conv", "toy", val="25%", **settings)
    pdebench_hss.run("mean,toy_conv", "toy", train_size=9, **settings)
    board = pd.read_csv(tmp_path / "b" / "leaderboard.csv")
    assert len(board) == 4
    assert board["val_err"].notna().sum() == 2
    assert set(board["n_train"]) == {9}
    assert (board["n_seeds"] == 1).all()
    assert "9 training samples and 3 held out" in (tmp_path / "b" / "leaderboard.md").read_text()


# --- judged without the test split -----------------------------------------------------------------------------------


def spoil_test_split(path: Path) -> None:
    """Overwrite the stored bytes of the test split: who reads any of it finds a checksum that does not fit."""
    with h5py.File(path) as file:
        places = [file["test"][name].id.get_chunk_info(0) for name in ("inputs", "outputs")]
    with path.open("r+b") as raw:
        for place in places:
            raw.seek(place.byte_offset)
            raw.write(b"\xff" * place.size)


@pytest.mark.parametrize(
    ("model", "task"), [("toy_conv", "toy"), ("mean", "toy_rollout[history=2]"), ("mean", "toy_shared")]
)
def test_a_trial_judged_by_held_out_samples_reads_nothing_of_test(model, task):
    (trial,) = trials(model, task, val=3)
    expected = run(trial)
    spoil_test_split(dataset_of(trial, Context(), REGISTRY)[0].path)
    assert run(trial).status is Status.FAILED  # the control: judged by test it can't even start
    record = run(trial, judge="val")
    assert record.status is Status.OK
    assert set(record.metrics) == {"val_err"}
    assert record.metrics["val_err"] == expected.metrics["val_err"]
    assert "n_test" not in record.data
    assert record.key != trial.key


def test_such_a_record_is_stored_and_stays_off_the_leaderboard(tmp_path):
    from pdebench_hss.boards.writing import write_board

    (trial,) = trials("toy_conv", val=3)
    judged = dataclasses.replace(trial, judge="val")
    store = Store(tmp_path / "board")
    store.prepare()
    store.add_to_plan([judged], "tune")
    store.put(run(judged))
    assert store.get(judged.key).metrics.keys() == {"val_err"}
    board, _ = write_board(store, load_registry())
    assert board.empty
    assert pd.read_csv(tmp_path / "board" / "results.csv")["val_err"].notna().all()
