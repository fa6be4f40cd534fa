"""Pictures in records: the right three samples, errors that survive storage, and records that stay small."""

from __future__ import annotations

import io

import numpy as np
import pytest
from factories.tasks import make_task

from pdebench_hss.contract.registry import load_registry
from pdebench_hss.data.cache import ensure
from pdebench_hss.trials.context import Context
from pdebench_hss.trials.pictures import pick, pictures
from pdebench_hss.trials.run_trial import run_trial


def fields(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.mark.parametrize(
    ("errors", "expected"),
    [([0.3, 0.1, 0.2], [1, 2, 0]), ([4, 3, 2, 1], [3, 2, 0]), ([5.0], [0, 0, 0]), ([1, 1, 1], [0, 1, 2])],
)
def test_best_lower_median_and_worst_are_picked(errors, expected):
    assert list(pick(np.asarray(errors))) == expected


def test_an_error_far_below_single_precision_of_the_field_is_still_seen():
    truth = 1.0 + fields(3, 1, 16, 16)
    error = 1e-9 * fields(3, 1, 16, 16, seed=1)
    kept = pictures(make_task(grid=(16, 16)), truth, truth, truth + error, np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(kept["picture_error"], error, rtol=1e-3, atol=1e-14)
    np.testing.assert_allclose(kept["picture_truth"], truth, rtol=2.0**-11)
    assert kept["picture_truth"].dtype == np.float32


def test_long_sides_are_strided_and_short_ones_are_not():
    x = fields(2, 2, 300, 128)
    kept = pictures(make_task(grid=(300, 128), channels=(2, 2)), x, x, x, np.zeros(2))
    assert kept["picture_input"].shape == (3, 2, 100, 128)
    np.testing.assert_allclose(kept["picture_input"][0], x[0, :, ::3], rtol=2.0**-11)


def test_a_cube_is_cut_through_its_middle():
    x = fields(1, 1, 8, 8, 8)
    kept = pictures(make_task(grid=(8, 8, 8)), x, x, x, np.zeros(1))
    np.testing.assert_allclose(kept["picture_truth"][0, 0], x[0, 0, :, :, 4], rtol=2.0**-11)


def test_a_rollout_in_one_dimension_is_a_space_time_picture_and_in_two_its_last_step():
    line, plane = fields(1, 5, 1, 16), fields(1, 5, 1, 8, 8)
    kept = pictures(make_task(grid=(16,), steps=5, rollout=True), line[:, 0], line, line, np.zeros(1))
    np.testing.assert_allclose(kept["picture_truth"][0, 0], line[0, :, 0], rtol=2.0**-11)
    assert kept["picture_input"].shape == (3, 1, 16)
    kept = pictures(make_task(grid=(8, 8), steps=5, rollout=True), plane[:, 0], plane, plane, np.zeros(1))
    np.testing.assert_allclose(kept["picture_truth"][0, 0], plane[0, -1, 0], rtol=2.0**-11)


def test_points_outside_the_domain_are_left_out():
    task = make_task(grid=(8, 8), mask=lambda grid: np.arange(64).reshape(grid) % 3 > 0)
    x = fields(1, 1, 8, 8)
    kept = pictures(task, x, x, x, np.zeros(1))
    for name in ("input", "truth", "error", "map"):
        np.testing.assert_array_equal(np.isnan(kept[f"picture_{name}"][0, 0]), ~task.mask)


def test_the_map_holds_mean_and_worst_error_of_all_samples_at_each_point():
    truth, prediction = fields(7, 2, 8, 8), fields(7, 2, 8, 8, seed=1)
    kept = pictures(make_task(grid=(8, 8), channels=(2, 2)), truth, truth, prediction, np.arange(7.0))["picture_map"]
    error = np.abs(prediction - truth)
    np.testing.assert_allclose(kept, [error.mean(axis=0), error.max(axis=0)], rtol=2.0**-10)
    line = fields(7, 5, 1, 16)
    kept = pictures(make_task(grid=(16,), steps=5, rollout=True), line[:, 0], line, 0 * line, np.arange(7.0))[
        "picture_map"
    ]
    np.testing.assert_allclose(kept[1, 0], np.abs(line).max(axis=0)[:, 0], rtol=2.0**-10)  # (steps, points)


def test_the_largest_built_in_picture_takes_less_than_a_megabyte_on_disk():
    """Gray-Scott at the paper's 128 x 128: two fields and two constant parameters in, two fields out."""
    x = np.concatenate([fields(3, 2, 128, 128), np.ones((3, 2, 128, 128))], axis=1)
    y = fields(3, 2, 128, 128, seed=1)  # noise: nothing compresses worse
    task = make_task(grid=(128, 128), channels=(4, 4))
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **pictures(task, x, y, y + fields(3, 2, 128, 128, seed=2), np.zeros(3)))
    assert buffer.tell() < 1_000_000


@pytest.fixture
def toy_trial(toys, tmp_path):
    from pdebench_hss.runs.config import load_config
    from pdebench_hss.runs.plan import make_plan
    from pdebench_hss.trials.store import Store

    flags = {"models": "toy_conv", "tasks": "toy", "scale": "smoke", "plugins": [toys], "device": "cpu"}
    registry = load_registry((toys,))
    (cell,) = make_plan(load_config(None, flags), registry, Store(tmp_path / "board")).cells
    ensure(cell.dataset, jobs=1, plugin_files=(toys,))
    return cell, registry, Context(plugin_files=(toys,))


def test_a_trial_records_pictures_that_agree_with_its_errors(toy_trial):
    cell, registry, context = toy_trial
    record = run_trial(cell.trial, context, registry)
    assert record.status == "ok", record.reason
    kept, errors = record.samples, record.samples["error_relative_l2"]
    best, _, worst = kept["picture_index"]
    assert (errors[best], errors[worst]) == (errors.min(), errors.max())
    for row, sample in enumerate(kept["picture_index"]):
        ratio = np.linalg.norm(kept["picture_error"][row]) / np.linalg.norm(kept["picture_truth"][row])
        assert ratio == pytest.approx(errors[sample], rel=2e-3)


def test_a_trial_records_how_fast_its_model_answers(toy_trial):
    cell, registry, context = toy_trial
    served = run_trial(cell.trial, context, registry).serving
    assert 0 < served["latency_ms_low"] <= served["latency_ms"] <= served["latency_ms_high"]
    assert 0 < served["throughput_low"] <= served["throughput"] <= served["throughput_high"]
    assert served["best_batch"] in (1, 4)  # it has four test samples
