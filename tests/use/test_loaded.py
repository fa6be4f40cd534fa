"""A loaded model takes and returns physical fields, numpy or torch, one sample or many, and refuses the rest."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch

from pdebench_hss import load_model, run
from pdebench_hss.base.errors import UsageError
from pdebench_hss.trials import validation
from pdebench_hss.trials.store import RecordWarning
from pdebench_hss.use.physical import Physical


@pytest.fixture
def conv(board, plugins):
    return load_model(board, model="toy_conv", task="toy", seed=0, plugins=plugins)


@pytest.fixture
def rollout(board, plugins):
    return load_model(board, model="linear", task="toy_rollout", plugins=plugins)


def fields(count: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal((count, *shape))


def test_it_is_the_network_between_two_changes_of_units(conv):
    x = fields(3, 1, 16)
    units = conv.normalizer
    normalised = (x - units.inputs.shift[:, None]) / units.inputs.scale[:, None]
    with torch.no_grad():
        y = conv.module(torch.as_tensor(normalised, dtype=torch.float32)).double().numpy()
    assert np.allclose(conv(x), y * units.outputs.scale[:, None] + units.outputs.shift[:, None], rtol=1e-6)


@pytest.mark.parametrize("count", [1, 3, 4, 9])
def test_any_batch_gives_each_sample_its_answer(conv, count):
    x = fields(count, 1, 16)
    together = conv(x)
    assert together.shape == (count, 1, 16)
    for sample, answer in zip(x, together):
        assert np.allclose(conv(sample), answer, rtol=1e-5)
        assert conv(sample).shape == (1, 16)
    assert np.allclose(conv(x, batch=2), together, rtol=1e-5)


def test_arrays_come_back_as_they_came(conv):
    x = fields(2, 1, 16)
    assert conv(x).dtype == np.float64
    assert conv(x.astype(np.float32)).dtype == np.float32
    assert conv(np.ones((2, 1, 16), dtype=int)).dtype == np.float64
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        answer = conv(torch.as_tensor(x).to(dtype))
        assert isinstance(answer, torch.Tensor)
        assert answer.dtype == dtype
    assert torch.equal(conv(torch.as_tensor(x)), torch.as_tensor(conv(x)))
    assert conv(torch.as_tensor(x[0]).requires_grad_()).shape == (1, 16)


def test_it_leaves_its_inputs_alone(conv):
    x = fields(2, 1, 16)
    before = x.copy()
    conv(x)
    assert np.array_equal(x, before)


def test_a_rollout_has_as_many_steps_as_asked_for(rollout):
    x = fields(2, 1, 16)
    assert rollout(x).shape == (2, 5, 1, 16)
    assert rollout(x[0]).shape == (5, 1, 16)
    long = rollout(x, steps=9)
    assert long.shape == (2, 9, 1, 16)
    assert np.array_equal(long[:, :5], rollout(x))
    again = rollout(long[:, 3], steps=5)  # going on from a frame
    assert np.allclose(again, long[:, 4:], rtol=1e-9)


def test_a_rollout_from_several_frames_feeds_the_newest_back_first(board, plugins):
    model = load_model(board, model="linear", task="toy_rollout[history=2]", plugins=plugins)
    x = fields(1, 2, 16)
    steps = model(x, steps=3)
    assert steps.shape == (1, 3, 1, 16)
    second = model(np.concatenate([steps[:, 0], x[:, :1]], axis=1), steps=2)
    assert np.allclose(second, steps[:, 1:], rtol=1e-9)


def test_a_solver_is_loaded_and_answers(board, plugins):
    model = load_model(board, "kept_solver", "toy", plugins=plugins)
    x = fields(3, 1, 16)
    assert np.array_equal(model(x), 0.5 * x)


def test_as_one_module_it_gives_the_same_and_gradients(conv, rollout):
    for model, steps in ((conv, 0), (rollout, 4)):
        x = torch.as_tensor(fields(2, 1, 16)).requires_grad_()
        y = Physical(model, steps)(x)
        expected = model(x, **({"steps": steps} if steps else {}))
        assert torch.equal(y, expected)
        y.square().sum().backward()
        assert x.grad is not None
        assert torch.isfinite(x.grad).all()


def test_it_says_what_it_is(conv, rollout, board, plugins):
    text = repr(conv)
    assert text.splitlines()[0].startswith("toy_conv on toy (toy: y = A x)")
    assert "1 -> 1 channels on 16 points" in text
    assert f"relative_l2 {conv.record.metrics['test_err']:.4g} on 4 test samples" in text
    assert "seed 0" in text
    assert "float32 on cpu" in text
    assert "trained   scale smoke, steps=" in text
    assert "a rollout of 5 steps" in repr(rollout)
    assert f"fitted    in closed form, scale smoke, {rollout.record.trial.n_train} samples" in repr(rollout)
    assert "not at all: it has nothing to learn" in repr(load_model(board, "kept_solver", "toy", plugins=plugins))
    assert conv.task.name == "toy"


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (np.ones((2, 1, 17)), r"on a grid \(17,\); this model was trained on \(16,\)"),
        (np.ones((2, 3, 16)), r"inputs have 3 channels; toy takes 1: \(batch, 1, 16\)"),
        (np.ones((2, 1, 16, 16)), r"inputs have shape \(2, 1, 16, 16\); toy takes \(batch, 1, 16\)"),
        (np.ones(16), r"inputs have shape \(16,\)"),
        (np.ones((0, 1, 16)), "no sample"),
        (np.ones((2, 1, 16), dtype=complex), "array of complex128; toy takes real numbers"),
        (np.full((2, 1, 16), "x"), "takes real numbers"),
        (
            np.concatenate([np.ones((2, 1, 16)), np.full((1, 1, 16), np.nan)]),
            "in 1 of 3 samples, the first is sample 2",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(conv, inputs, message):
    with pytest.raises(UsageError, match=message) as caught:
        conv(inputs)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 3}, "steps=3: toy is not a rollout task"),
        ({"batch": 0}, "batch must be at least 1, not 0"),
    ],
)
def test_options_that_make_no_sense_are_refused(conv, options, message):
    with pytest.raises(UsageError, match=message):
        conv(np.ones((1, 1, 16)), **options)


# --- which model ------------------------------------------------------------------------------------------------------


def test_options_choose_among_models_of_one_name(board, plugins):
    wide = load_model(board, "toy_conv", "toy", plugins=plugins)
    narrow = load_model(board, "toy_conv[ width = 2 ]", "toy", plugins=plugins)
    assert wide.record.trial.hparams["width"] == 4
    assert narrow.record.trial.hparams["width"] == 2
    assert load_model(board, key=narrow.record.key[:10], plugins=plugins).record.key == narrow.record.key


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (
            {"model": "toy_conf", "task": "toy"},
            r"no model 'toy_conf' in .* Did you mean 'toy_conv'\?  It has toy_conv,",
        ),
        (
            {"model": "toy_conv[width=7]", "task": "toy"},
            r"no model 'toy_conv\[width=7\]'.*It has toy_conv, toy_conv\[w",
        ),
        ({"model": "toy_conv", "task": "toyy"}, "no task 'toyy'.*Did you mean 'toy'"),
        ({"model": "toy_conv"}, r"which task\? .* has toy, toy_rollout, toy_rollout\[history=2\]; write task=NAME"),
        ({"model": "toy_conv", "task": "toy", "seed": 5}, "toy_conv on toy: no seed 5; it was run with seed 0, 1"),
        (
            {"model": "toy_conv", "task": "toy", "seed": None},
            r"2 trials; say which by seed: seed=0 \(key [0-9a-f]{8}\); ",
        ),
        ({"model": "toy_conv", "task": "toy", "scale": "small"}, "no scale small; it was run with scale smoke"),
        ({"key": "zz"}, "no trial in .* has a key that begins with 'zz'"),
    ],
)
def test_a_choice_that_is_none_says_what_there_is(board, plugins, choice, message):
    with pytest.raises(UsageError, match=message) as caught:
        load_model(board, plugins=plugins, **choice)
    assert "\n" not in str(caught.value)


def test_one_model_is_found_without_checking_the_rest_of_the_plan(board, plugins, monkeypatch):
    checked = []
    check = validation.check_trial
    monkeypatch.setattr(validation, "check_trial", lambda trial, *rest: checked.append(trial) or check(trial, *rest))
    model = load_model(board, "toy_conv", "toy", seed=1, plugins=plugins)
    assert {(trial["model_label"], trial["task_label"]) for trial in checked} == {("toy_conv", "toy")}
    plan = json.loads((board / "plan.json").read_text())
    plan["cells"]["another"] = {"trial": "damaged"}
    (board / "plan.json").write_text(json.dumps(plan))
    assert load_model(board, "toy_conv", "toy", seed=1, plugins=plugins).record.key == model.record.key
    with pytest.warns(RecordWarning, match="another"), pytest.raises(UsageError, match="no model 'toy_con'"):
        load_model(board, "toy_con", "toy", plugins=plugins)


def test_a_name_that_only_options_tell_apart_lists_them(tmp_path, plugins):
    options = {"scale": "smoke", "plugins": plugins, "executor": "inline"}
    table = run("toy_conv[width=2],toy_conv[width=3]", "toy", out=str(tmp_path / "b"), **options)
    with pytest.raises(UsageError, match=r"'toy_conv' is one of toy_conv\[width=2\], toy_conv\[width=3\]; write which"):
        load_model(table, "toy_conv", plugins=plugins)


def test_a_table_that_knows_no_board_is_refused():
    with pytest.raises(UsageError, match="does not know the directory"):
        load_model(pd.DataFrame({"key": ["a"]}))


@pytest.mark.parametrize("place", ["nowhere", "empty"])
def test_a_place_that_is_no_board_is_refused(tmp_path, place):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=r"no such directory|holds no records"):
        load_model(tmp_path / place)


def test_a_trial_that_did_not_end_well_says_so(tmp_path, plugins):
    run("toy_raise", "toy", scale="smoke", out=str(tmp_path / "b"), plugins=plugins, executor="inline")
    with pytest.raises(UsageError, match=r"toy_raise on toy \(seed 0\) is failed: "):
        load_model(tmp_path / "b", plugins=plugins)
