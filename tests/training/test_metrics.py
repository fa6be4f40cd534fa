"""Errors in physical units: what they mean, what they must not depend on."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdebench_hss.contract.task import METRICS
from pdebench_hss.training.metrics import mean_of, not_finite, sample_errors

NAMES = ("relative_l2", "trajectory_l2", "rmse", "max_error")
property_of_errors = settings(max_examples=50, deadline=None)


@st.composite
def pairs(draw):
    """Predictions and targets, ``(n, channels, *grid)``, of sizes between 1e-6 and 1e6."""
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=3, max_size=5)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return tuple(10.0 ** rng.uniform(-6, 6) * rng.normal(size=shape) for _ in range(2))


def errors(prediction, target, mask=None, metric="relative_l2") -> dict[str, np.ndarray]:
    return sample_errors(prediction, target, metric, mask)


@property_of_errors
@given(pairs())
def test_every_error_against_its_definition_written_out(pair):
    found = errors(*pair)
    for i, (prediction, target) in enumerate(zip(*pair)):
        squares = [(p - t) ** 2 for p, t in zip(prediction.ravel(), target.ravel())]
        size = math.fsum(t**2 for t in target.ravel())
        expected = {
            "relative_l2": math.sqrt(math.fsum(squares) / size),
            "trajectory_l2": math.sqrt(math.fsum(squares)),
            "rmse": math.sqrt(math.fsum(squares) / len(squares)),
            "max_error": math.sqrt(max(squares)),
        }
        for name in NAMES:
            assert found[name][i] == pytest.approx(expected[name], rel=1e-12)


@property_of_errors
@given(pairs(), st.floats(1e-6, 1e6), st.sampled_from([-1.0, 1.0]))
def test_relative_error_does_not_depend_on_units_and_the_others_follow_them(pair, factor, sign):
    prediction, target = pair
    before, after = errors(prediction, target), errors(sign * factor * prediction, sign * factor * target)
    np.testing.assert_allclose(after["relative_l2"], before["relative_l2"], rtol=1e-9)
    for name in ("trajectory_l2", "rmse", "max_error"):
        np.testing.assert_allclose(after[name], factor * before[name], rtol=1e-9)


@property_of_errors
@given(pairs(), st.randoms(use_true_random=False))
def test_order_of_samples_and_of_points_does_not_matter(pair, random):
    prediction, target = pair
    before = errors(prediction, target)
    samples = random.sample(range(len(target)), len(target))
    after = errors(prediction[samples], target[samples])
    flipped = errors(prediction[..., ::-1], target[..., ::-1])
    for name in NAMES:
        np.testing.assert_array_equal(after[name], before[name][samples])
        np.testing.assert_allclose(flipped[name], before[name], rtol=1e-12)


@property_of_errors
@given(pairs())
def test_a_perfect_prediction_has_no_error_and_predicting_zero_has_error_one(pair):
    _, target = pair
    for name in NAMES:
        np.testing.assert_array_equal(errors(target, target)[name], 0.0)
    np.testing.assert_allclose(errors(np.zeros_like(target), target)["relative_l2"], 1.0, rtol=1e-12)


@property_of_errors
@given(pairs(), st.integers(2, 4))
def test_rmse_and_relative_error_do_not_depend_on_how_fine_the_grid_is(pair, repeats):
    finer = [np.repeat(field, repeats, axis=-1) for field in pair]
    for name in ("rmse", "relative_l2", "max_error"):
        np.testing.assert_allclose(errors(*finer)[name], errors(*pair)[name], rtol=1e-12)
    np.testing.assert_allclose(
        errors(*finer)["trajectory_l2"], math.sqrt(repeats) * errors(*pair)["trajectory_l2"], rtol=1e-12
    )


@property_of_errors
@given(pairs(), st.integers(0, 2**32 - 1))
def test_only_points_inside_the_domain_count(pair, seed):
    prediction, target = pair
    rng = np.random.default_rng(seed)
    mask = rng.random(target.shape[2:]) < 0.5
    mask.flat[0] = True
    inside = errors(prediction[..., mask], target[..., mask])
    noise = 1e9 * rng.normal(size=target.shape)
    masked = errors(np.where(mask, prediction, noise), np.where(mask, target, -noise), mask)
    for name in NAMES:
        np.testing.assert_allclose(masked[name], inside[name], rtol=1e-12)


def test_a_trajectory_is_one_vector():
    """Whole trajectories (n, steps, channels, *grid): 3 and 4 at two times make 5, not 3.5."""
    target, prediction = np.zeros((1, 2, 1, 8)), np.zeros((1, 2, 1, 8))
    prediction[0, 0, 0, 0], prediction[0, 1, 0, 5] = 3.0, 4.0
    assert errors(prediction, target)["trajectory_l2"][0] == 5.0


def test_a_mask_applies_at_every_time_of_a_trajectory():
    target, prediction = np.zeros((2, 3, 1, 4, 4)), np.ones((2, 3, 1, 4, 4))
    mask = np.zeros((4, 4), dtype=bool)
    mask[1, 2] = True
    np.testing.assert_allclose(errors(prediction, target, mask)["trajectory_l2"], math.sqrt(3))
    np.testing.assert_allclose(errors(prediction, target, mask)["rmse"], 1.0)


@pytest.mark.parametrize("metric", METRICS)
def test_the_test_error_is_the_tasks_own_metric(metric):
    rng = np.random.default_rng(0)
    found = errors(rng.normal(size=(3, 1, 8)), rng.normal(size=(3, 1, 8)), metric=metric)
    np.testing.assert_array_equal(found["test_err"], found[metric])


def test_a_target_that_is_zero_gives_the_absolute_error_and_no_nan():
    found = errors(np.full((1, 1, 4), 0.5), np.zeros((1, 1, 4)))
    assert found["relative_l2"][0] == found["trajectory_l2"][0] == 1.0


def test_a_shape_that_would_broadcast_is_refused():
    with pytest.raises(ValueError, match=r"\(3, 1, 8\), target \(3, 2, 8\)"):
        errors(np.zeros((3, 1, 8)), np.zeros((3, 2, 8)))


def test_an_error_of_3e_8_is_not_lost_in_single_precision():
    target = np.ones((1, 1, 1000))
    prediction = target * (1 + 3e-8)
    np.testing.assert_allclose(errors(prediction, target)["relative_l2"], 3e-8, rtol=1e-6)
    # Stored fields may be single precision; the sums over their points must not be.
    field = np.random.default_rng(0).normal(size=(1, 1, 100_003)).astype(np.float32)
    exact = math.sqrt(math.fsum(float(v) ** 2 for v in field.ravel()) / field.size)
    assert errors(field, np.zeros_like(field))["rmse"][0] == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("size", [1e200, 1e-200, 1e300, 1e-300])
@pytest.mark.filterwarnings("error")
def test_fields_of_any_size_have_the_error_of_the_same_fields_of_size_one(size):
    """Their squares are infinite or zero in floating point; their errors are not."""
    factor = 2.0 ** round(math.log2(size))  # a power of two: the fields are the same to the last bit
    rng = np.random.default_rng(0)
    prediction, target = rng.normal(size=(4, 1, 32)), rng.normal(size=(4, 1, 32))
    usual, found = errors(prediction, target), errors(factor * prediction, factor * target)
    np.testing.assert_array_equal(found["relative_l2"], usual["relative_l2"])
    for name in ("trajectory_l2", "rmse", "max_error"):
        np.testing.assert_array_equal(found[name], factor * usual[name])


@pytest.mark.filterwarnings("error")
def test_a_prediction_that_blew_up_has_a_finite_error_and_a_target_of_zero_keeps_the_absolute_one():
    target = np.ones((1, 1, 4))
    assert errors(np.full((1, 1, 4), 1e200), target)["relative_l2"][0] == pytest.approx(1e200)
    assert errors(np.full((1, 1, 4), 1e200), 0 * target)["relative_l2"][0] == pytest.approx(2e200)
    assert errors(np.full((1, 1, 4), 1e-200), 0 * target)["relative_l2"][0] == pytest.approx(2e-200)


def test_one_sample_of_an_odd_size_changes_no_bit_of_the_others():
    rng = np.random.default_rng(1)
    prediction, target = rng.normal(size=(3, 1, 32)), rng.normal(size=(3, 1, 32))
    usual = errors(prediction, target)
    prediction[1] *= 1e250
    for name in NAMES:
        np.testing.assert_array_equal(errors(prediction, target)[name][[0, 2]], usual[name][[0, 2]])


def test_the_mean_of_errors_whose_sum_is_too_large():
    assert mean_of(np.array([1.5e308, 1.5e308])) == 1.5e308


@pytest.mark.parametrize("bad", [math.nan, math.inf, None])
def test_an_error_that_is_not_finite_has_a_reason_and_finite_ones_have_none(bad):
    assert not_finite({"test_err": 0.1, "rmse": bad}) == "the test error rmse is not finite"
    assert not_finite({"test_err": 0.1, "rmse": 0.0}) == ""
