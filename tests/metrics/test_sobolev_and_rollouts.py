"""Relative H1 and the metrics of rollouts: what they say of fields whose answer is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_settings import pair, setting

from pdebench_hss.metrics.rollouts import correlation_time, correlations, errors_by_step
from pdebench_hss.metrics.sobolev import relative_h1


def waves(n: int, k: int) -> np.ndarray:
    return np.sin(2 * np.pi * k * np.arange(n) / n)[None, None]


def test_h1_weighs_an_error_by_its_wave_number():
    """|v|^2 + |v'|^2 of sin(2 pi k x) is (1 + (2 pi k)^2) / 2; on n points 2 pi k becomes 2 n sin(pi k / n)."""
    n, target = 512, waves(512, 3)
    for k in (1, 3, 20):
        found = relative_h1(target + 0.1 * waves(n, k), target, setting(target, 1, periodic=True))
        size = [1 + (2 * n * math.sin(math.pi * m / n)) ** 2 for m in (k, 3)]
        np.testing.assert_allclose(found, 0.1 * math.sqrt(size[0] / size[1]), rtol=1e-12)
        assert found[0] == pytest.approx(
            0.1 * math.sqrt((1 + (2 * math.pi * k) ** 2) / (1 + (6 * math.pi) ** 2)), rel=5e-3
        )


def test_h1_of_a_plane_without_periods():
    """u = x + 2 y on the unit square: |grad u|^2 = 5 everywhere."""
    x, y = np.meshgrid(np.linspace(0, 1, 5), np.linspace(0, 1, 9), indexing="ij")
    target = (x + 2 * y)[None, None]
    zero = relative_h1(0 * target, target, setting(target, 2))
    np.testing.assert_allclose(zero, 1.0)
    shifted = relative_h1(target + 1.0, target, setting(target, 2))  # a constant has no slope
    np.testing.assert_allclose(shifted, 1 / math.sqrt(np.square(target).mean() + 5), rtol=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(1e-3, 1e3))
def test_h1_depends_neither_on_units_nor_on_what_is_outside_the_domain(seed, factor):
    rng = np.random.default_rng(seed)
    prediction, target = pair((3, 2, 6, 7), seed)
    mask = rng.random((6, 7)) < 0.7
    mask[0, 0] = True
    about = setting(target, 2, mask=mask)
    found = relative_h1(prediction, target, about)
    noise = np.where(mask, 0.0, 1e6 * rng.normal(size=target.shape))
    np.testing.assert_allclose(
        relative_h1(factor * (prediction + noise), factor * (target - noise), about), found, rtol=1e-9
    )
    np.testing.assert_array_equal(relative_h1(target, target, about), 0.0)


def test_the_error_of_every_step_is_that_of_its_frames():
    prediction, target = pair((3, 5, 2, 8, 8))
    found = errors_by_step(prediction, target, None)
    for i in range(3):
        for k in range(5):
            size = np.linalg.norm(target[i, k])
            assert found[i, k] == pytest.approx(np.linalg.norm(prediction[i, k] - target[i, k]) / size, rel=1e-12)


def test_correlation_is_numpys():
    prediction, target = pair((2, 3, 2, 6, 6))
    found = correlations(prediction, target, setting(target, 2, rollout=True))
    for i in range(2):
        for k in range(3):
            each = [np.corrcoef(prediction[i, k, c].ravel(), target[i, k, c].ravel())[0, 1] for c in range(2)]
            assert found[i, k] == pytest.approx(np.mean(each), rel=1e-12)


def decorrelating(at: int, steps: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """A trajectory that is right up to a step and turns its sign there."""
    target = np.random.default_rng(0).normal(size=(1, steps, 1, 32))
    signs = np.where(np.arange(steps) < at, 1.0, -1.0)
    return target * signs[None, :, None, None], target


@pytest.mark.parametrize("at", [0, 1, 4, 6])
def test_time_to_decorrelation_counts_the_steps_before_it(at):
    prediction, target = decorrelating(at)
    assert correlation_time(3 * prediction + 1, target, setting(target, 1, rollout=True)) == [at]


def test_correlation_that_comes_back_was_lost_all_the_same():
    prediction, target = decorrelating(6)
    prediction = prediction.copy()
    prediction[:, 2] *= -1
    assert correlation_time(prediction, target, setting(target, 1, rollout=True)) == [2]


def test_constants_correlate_with_nothing():
    target = np.random.default_rng(0).normal(size=(1, 3, 2, 16))
    target[:, :, 1] = 4.0  # a channel that is constant is left out
    about = setting(target, 1, rollout=True)
    np.testing.assert_allclose(correlations(target, target, about), 1.0)
    assert correlation_time(np.zeros_like(target), target, about) == [0]
    assert correlation_time(np.zeros_like(target), np.ones_like(target), about) == [3]
