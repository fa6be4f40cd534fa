"""history=k: a model sees k frames, newest first, and rolls out the rest by itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import pdebench_hss
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.data import cache
from pdebench_hss.training.evaluation import Predictor
from pdebench_hss.training.windows import prepare

TOYS = str(Path(__file__).parents[1] / "toys" / "toy_plugin.py")
HISTORY, STEPS = 3, 4  # of burgers_1d at scale smoke


@pytest.fixture
def both() -> tuple[cache.TaskData, cache.TaskData]:
    task = load_registry().task("burgers_1d")
    plain = cache.Dataset(task, "smoke")
    frames = cache.Dataset(replace(task, spec=replace(task.spec, history=HISTORY)), "smoke")
    assert plain.id == frames.id  # the data are the same
    return cache.obtain(plain), cache.load(frames)


def test_inputs_are_the_first_frames_newest_first_and_outputs_the_rest(both):
    plain, frames = both
    trajectory = np.concatenate([plain.test.inputs[:, None], plain.test.outputs], axis=1)
    assert frames.task.in_channels == HISTORY
    assert frames.task.out_channels == 1
    np.testing.assert_array_equal(frames.test.inputs, trajectory[:, HISTORY - 1 :: -1, 0])
    np.testing.assert_array_equal(frames.test.outputs, trajectory[:, HISTORY:])
    assert frames.test.outputs.shape[1] == frames.task.size.steps == STEPS + 1 - HISTORY


class Extrapolate(torch.nn.Module):
    """The residual that continues a parabola through three frames, in normalised units; it looks at all of them."""

    def __init__(self, train) -> None:
        super().__init__()
        scale = train.normalizer.inputs.scale[0] / train.normalizer.outputs.scale[0]
        self.register_buffer("weights", scale * torch.tensor([2.0, -3.0, 1.0], dtype=torch.float64))

    def forward(self, x):
        return torch.einsum("k,bkn->bn", self.weights, x)[:, None]


def test_a_rollout_feeds_predictions_back_to_the_front(both):
    """Frames of a parabola in time are continued exactly, however many steps."""
    _, frames = both
    task = frames.task
    field = np.random.default_rng(0).standard_normal((2, 1, *task.grid))
    times = np.arange(STEPS + 1)
    parabola = np.stack([field * (1 + t - 0.3 * t**2) for t in times], axis=1)  # (2, frames, 1, n)
    train = prepare(frames, torch.float64)
    predict = Predictor(Extrapolate(train), task, train.normalizer, 4, torch.device("cpu"))
    known = parabola[:, HISTORY - 1 :: -1, 0].copy()
    np.testing.assert_allclose(predict(known), parabola[:, HISTORY:], rtol=1e-12, atol=1e-12)


def test_every_model_that_can_do_burgers_can_do_it_with_four_frames(tmp_path):
    results = pdebench_hss.run(
        "all", "burgers_1d[history=4]", scale="smoke", executor="inline", device="cpu", out=str(tmp_path / "b")
    ).results.set_index("model")
    assert set(results["task"]) == {"burgers_1d[history=4]"}
    can = ["coarse_solver", "deeponet", "fno", "linear", "mean", "neural_hss", "persistence", "resnet"]
    assert sorted(results.index[results["status"] == "ok"]) == can
    assert set(results["status"]) == {"ok", "skipped"}
    # One step from the newest frame is little: to guess that nothing changes is better than the mean change.
    assert results.loc["coarse_solver", "test_err"] < results.loc["persistence", "test_err"]


def test_history_and_unroll_go_together(tmp_path):
    results = pdebench_hss.run(
        "toy_conv[unroll=2]", "toy_rollout[history=3]", scale="smoke", executor="inline", device="cpu",
        plugins=[TOYS], out=str(tmp_path / "b"),
    ).results  # fmt: skip
    assert results["status"].item() == "ok"


def test_load_task_gives_the_frames():
    data = pdebench_hss.load_task("burgers_1d[history=2]", scale="smoke")
    assert data.train.inputs.shape[1] == 2
    assert data.task.history == 2
