"""Normalisation: fitted on train alone, per channel, undone exactly; residuals for tasks that roll out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from factories.tasks import make_spec
from hypothesis import given, settings
from hypothesis import strategies as st

from pdebench_hss import TaskSpec
from pdebench_hss.contract.task import NORMALIZATIONS
from pdebench_hss.data.cache import Split, TaskData
from pdebench_hss.training.normalization import fit_affine
from pdebench_hss.training.windows import prepare

TASK = {"grid": (6,), "channels": (2, 2)}
property_of_fields = settings(max_examples=60, deadline=None)


@st.composite
def fields(draw):
    """``(n, channels, *grid)``, each channel with a size and a mean of its own."""
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=3, max_size=5)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    per_channel = (1, shape[1]) + (1,) * (len(shape) - 2)
    x = rng.normal(size=shape) + rng.normal(size=per_channel)
    return x * 10.0 ** rng.uniform(-8, 8, size=per_channel)


def make_data(spec: TaskSpec, train, test) -> TaskData:
    return TaskData(spec.info("smoke"), Split(*train), Split(*test), "no hash")


def random_split(seed: int, n: int, steps: int | None = None):
    rng = np.random.default_rng(seed)
    times = () if steps is None else (steps,)
    return rng.normal(size=(n, 2, 6)), rng.normal(size=(n, *times, 2, 6))


@property_of_fields
@given(fields(), st.sampled_from(NORMALIZATIONS))
def test_restoring_undoes_normalising(x, kind):
    affine = fit_affine(x, kind)
    size = np.abs(x).max(axis=(0, *range(2, x.ndim)), keepdims=True)
    assert (np.abs(affine.restore(affine.normalise(x)) - x) <= 1e-14 * size).all()


@property_of_fields
@given(fields(), st.sampled_from(NORMALIZATIONS))
def test_a_channel_does_not_see_the_others(x, kind):
    whole = fit_affine(x, kind)
    for channel in range(x.shape[1]):
        alone = fit_affine(x[:, channel : channel + 1], kind)
        np.testing.assert_allclose(whole.shift[channel], alone.shift[0], rtol=1e-9)
        np.testing.assert_allclose(whole.scale[channel], alone.scale[0], rtol=1e-9)


@pytest.mark.parametrize(("n", "grid"), [(5, (16,)), (3, (6, 7)), (2, (4, 3, 5))])
def test_what_each_kind_promises(n, grid):
    x = 3.0 + np.random.default_rng(0).normal(size=(n, 2, *grid)) * np.array([2.0, 50.0]).reshape(
        1, 2, *[1] * len(grid)
    )
    axes = (0, *range(2, x.ndim))

    def normalised(kind: str) -> np.ndarray:
        return fit_affine(x, kind).normalise(x)

    np.testing.assert_allclose(np.abs(normalised("max")).max(axis=axes), 1.0, rtol=1e-15)
    np.testing.assert_allclose((normalised("std") ** 2).mean(axis=axes), 1.0, rtol=1e-14)
    np.testing.assert_allclose(normalised("zscore").mean(axis=axes), 0.0, atol=1e-14)
    np.testing.assert_allclose(normalised("zscore").std(axis=axes), 1.0, rtol=1e-14)
    np.testing.assert_array_equal(normalised("none"), x)


@pytest.mark.parametrize("kind", ["max", "std"])
def test_kinds_without_a_shift_keep_zero_where_it_is(kind):
    """A Dirichlet boundary stays a zero, and a linear problem stays linear."""
    affine = fit_affine(np.random.default_rng(0).normal(size=(4, 2, 8)) + 5.0, kind)
    np.testing.assert_array_equal(affine.normalise(np.zeros((1, 2, 8))), 0.0)


@pytest.mark.parametrize("kind", NORMALIZATIONS)
def test_a_channel_that_is_zero_is_left_as_it_is(kind):
    affine = fit_affine(np.zeros((3, 1, 8)), kind)
    assert (affine.shift[0], affine.scale[0]) == (0.0, 1.0)


def test_a_constant_channel_is_not_scaled_by_rounding_noise():
    affine = fit_affine(np.full((3, 1, 7), 0.1), "zscore")
    assert np.abs(affine.normalise(np.full((1, 1, 7), 0.101))).max() < 1.0


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="'minmax'"):
        fit_affine(np.ones((1, 1, 2)), "minmax")


@pytest.mark.parametrize("kind", NORMALIZATIONS)
def test_the_normaliser_is_fitted_on_train_alone(kind):
    spec, train = make_spec(**TASK, normalization=kind), random_split(0, 8)
    quiet, loud = random_split(1, 4), tuple(1e3 * part for part in random_split(2, 4))
    fitted = [prepare(make_data(spec, train, test), torch.float64) for test in (quiet, loud)]
    for side in ("inputs", "outputs"):
        for name in ("shift", "scale"):
            ours = [getattr(getattr(each.normalizer, side), name) for each in fitted]
            np.testing.assert_array_equal(*ours)
            x = train[0] if side == "inputs" else train[1]
            np.testing.assert_array_equal(ours[0], getattr(fit_affine(x, kind), name))
        assert torch.equal(getattr(fitted[0], side), getattr(fitted[1], side))


def test_training_pairs_of_a_steady_task_are_its_samples():
    spec, (inputs, outputs) = make_spec(**TASK), random_split(0, 8)
    train = prepare(make_data(spec, (inputs, outputs), random_split(1, 4)), torch.float64)
    np.testing.assert_allclose(train.normalizer.inputs.restore(train.inputs.numpy()), inputs, rtol=1e-14)
    np.testing.assert_allclose(train.normalizer.outputs.restore(train.outputs.numpy()), outputs, rtol=1e-14)


@pytest.mark.parametrize("kind", NORMALIZATIONS)
def test_a_rollout_task_is_learnt_as_residuals_of_single_steps(kind):
    spec = make_spec(**TASK, rollout=True, normalization=kind, steps=3)
    start, later = random_split(0, 5, steps=3)
    train = prepare(make_data(spec, (start, later), random_split(1, 4, steps=3)), torch.float64)
    before, change = [], []
    for trajectory in range(5):
        state = start[trajectory]
        for time in range(3):
            before.append(state)
            change.append(later[trajectory, time] - state)
            state = later[trajectory, time]
    assert len(train) == 15
    np.testing.assert_allclose(train.normalizer.inputs.restore(train.inputs.numpy()), before, atol=1e-13)
    np.testing.assert_allclose(train.normalizer.outputs.restore(train.outputs.numpy()), change, atol=1e-13)
    np.testing.assert_allclose(train.normalizer.outputs.scale, fit_affine(np.array(change), kind).scale, rtol=1e-13)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_pairs_come_in_the_precision_asked_for(dtype):
    train = prepare(make_data(make_spec(**TASK), random_split(0, 8), random_split(1, 4)), dtype)
    assert train.inputs.dtype == train.outputs.dtype == dtype
