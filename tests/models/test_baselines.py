"""Baselines: their algebra against numpy, refitting and hand-written arithmetic."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from factories.tasks import make_task
from pdebench_hss_models.baselines import COARSE_SOLVER, LINEAR, MEAN, PERSISTENCE
from pdebench_hss_models.baselines import ridge as ridge_module
from pdebench_hss_models.baselines.ridge import RIDGES, check_memory, choose_ridge, leave_one_out, truncated_svd

from pdebench_hss import TaskInfo


def units(scale, shift=None):
    scale = np.asarray(scale, dtype=np.float64)
    return SimpleNamespace(scale=scale, shift=np.zeros_like(scale) if shift is None else np.asarray(shift))


def make_train(inputs, outputs, inputs_units=None, outputs_units=None):
    """Physical numpy arrays -> what the core hands to ``fit``."""
    normalizer = SimpleNamespace(
        inputs=inputs_units or units(np.ones(inputs.shape[1])),
        outputs=outputs_units or units(np.ones(outputs.shape[1])),
    )
    normalised = [
        torch.from_numpy((a - along_channels(u.shift, a)) / along_channels(u.scale, a))
        for a, u in ((inputs, normalizer.inputs), (outputs, normalizer.outputs))
    ]
    return SimpleNamespace(inputs=normalised[0], outputs=normalised[1], normalizer=normalizer)


def along_channels(values, like):
    return values.reshape(-1, *(1,) * (like.ndim - 2))


def fitted(spec, task, train):
    model = spec.make(task, spec.hparams_for(task))
    model.fit(train)
    return model


def test_mean_is_the_train_mean_for_every_input():
    rng = np.random.default_rng(0)
    inputs, outputs = rng.normal(size=(6, 2, 4, 5)), rng.normal(size=(6, 3, 4, 5))
    model = fitted(MEAN, make_task(grid=(4, 5), channels=(2, 3)), make_train(inputs, outputs))
    prediction = model(torch.randn(7, 2, 4, 5, dtype=torch.float64))
    np.testing.assert_allclose(prediction, np.broadcast_to(outputs.mean(axis=0), (7, 3, 4, 5)), rtol=1e-15)


def test_persistence_returns_the_physical_input_through_different_units():
    rng = np.random.default_rng(1)
    inputs, outputs = rng.normal(size=(6, 4, 8)), rng.normal(size=(6, 2, 8))
    units_in, units_out = units([2.0, 3.0, 5.0, 7.0], [0.1, 0.2, 0.3, 0.4]), units([11.0, 13.0], [-1.0, 2.0])
    task = make_task(grid=(8,), channels=(4, 2), evolves=True)
    train = make_train(inputs, outputs, units_in, units_out)
    prediction = fitted(PERSISTENCE, task, train)(train.inputs)
    physical = prediction.numpy() * units_out.scale[:, None] + units_out.shift[:, None]
    np.testing.assert_allclose(physical, inputs[:, :2], rtol=1e-13)


def test_persistence_predicts_no_change_in_a_rollout():
    task = make_task(grid=(8,), rollout=True, steps=3)
    units_out = units([4.0], [0.5])
    train = make_train(np.ones((2, 1, 8)), np.ones((2, 1, 8)), None, units_out)
    prediction = fitted(PERSISTENCE, task, train)(train.inputs)
    np.testing.assert_array_equal(prediction.numpy() * 4.0 + 0.5, np.zeros((2, 1, 8)))


def test_persistence_refuses_tasks_whose_output_is_another_field():
    assert PERSISTENCE.unsupported(make_task(grid=(8,))) == "inputs and outputs are different fields"
    assert PERSISTENCE.unsupported(make_task(evolves=True)) is None


def test_linear_equals_least_squares_when_samples_outnumber_points():
    rng = np.random.default_rng(2)
    inputs = rng.normal(size=(40, 12))
    outputs = inputs @ rng.normal(size=(12, 12))
    new = rng.normal(size=(3, 12))
    model = fitted(LINEAR, make_task(grid=(12,)), make_train(inputs[:, None], outputs[:, None]))
    expected = new @ np.linalg.lstsq(inputs, outputs, rcond=None)[0]
    np.testing.assert_allclose(model(torch.from_numpy(new[:, None]))[:, 0], expected, atol=1e-11)


def test_linear_is_the_pseudoinverse_when_samples_are_few():
    """The paper's 1D forcings span 10 dimensions: a dozen samples at 256 points say all there is to know."""
    rng = np.random.default_rng(3)
    modes, operator = rng.normal(size=(10, 256)), rng.normal(size=(256, 256))
    inputs = rng.normal(size=(12, 10)) @ modes
    new = rng.normal(size=(5, 256))  # outside the span too, where minimum norm decides
    model = fitted(LINEAR, make_task(grid=(256,)), make_train(inputs[:, None], (inputs @ operator)[:, None]))
    assert model.basis.shape == (256, 10)  # rank found, nothing of size 256 x 256
    expected = new @ np.linalg.pinv(inputs, rcond=1e-12) @ (inputs @ operator)
    error = model(torch.from_numpy(new[:, None]))[:, 0].numpy() - expected
    assert np.linalg.norm(error) < 1e-11 * np.linalg.norm(expected)


def test_linear_has_an_intercept_only_where_the_pde_is_nonlinear():
    rng = np.random.default_rng(4)
    inputs = rng.normal(size=(40, 1, 6))
    outputs = inputs @ rng.normal(size=(6, 6)) + 3.0
    affine = fitted(LINEAR, make_task(grid=(6,), linear=False), make_train(inputs, outputs))
    np.testing.assert_allclose(affine(torch.from_numpy(inputs)), outputs, atol=1e-9)
    through_zero = fitted(LINEAR, make_task(grid=(6,), linear=True), make_train(inputs, outputs))
    np.testing.assert_array_equal(through_zero(torch.zeros(1, 1, 6, dtype=torch.float64)), np.zeros((1, 1, 6)))


def test_linear_maps_physical_zero_to_physical_zero_through_a_shifted_normalisation():
    rng = np.random.default_rng(5)
    inputs = rng.normal(size=(3, 1, 6)) + 2.0  # fewer samples than points: an intercept would cost a dimension
    outputs = inputs @ rng.normal(size=(6, 6))
    units_in, units_out = units([1.5], [2.0]), units([0.7], [-1.0])
    train = make_train(inputs, outputs, units_in, units_out)
    model = fitted(LINEAR, make_task(grid=(6,)), train)
    zero = torch.full((1, 1, 6), -2.0 / 1.5, dtype=torch.float64)
    np.testing.assert_allclose(model(zero).numpy() * 0.7 - 1.0, 0.0, atol=1e-13)


@pytest.mark.parametrize("shape", [(5, 900), (30, 12), (12, 12)])
def test_the_truncated_svd_is_the_matrix_and_its_factors_are_orthonormal(shape):
    x = torch.from_numpy(np.random.default_rng(13).normal(size=shape))
    x[:, -1] = x[:, 0]  # in the square case one singular value is rounding
    u, s, v = truncated_svd(x)
    assert len(s) == np.linalg.matrix_rank(x.numpy())
    np.testing.assert_allclose(u @ torch.diag(s) @ v.T, x, atol=1e-13)
    for factor in (u, v):
        np.testing.assert_allclose(factor.T @ factor, np.eye(len(s)), atol=1e-13)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("shape", [(6, 9), (15, 4)], ids=["n < p", "n > p"])
@pytest.mark.parametrize("ridge", [0.0, 1e-3, 2.0])
def test_closed_form_leave_one_out_equals_refitting_without_each_sample(shape, ridge, intercept):
    n, p = shape
    rng = np.random.default_rng(6)
    x, y = rng.normal(size=(n, p)), rng.normal(size=(n, 3)) + 5.0
    brute = np.stack([y[i] - predict_without(x, y, i, ridge, intercept) for i in range(n)])
    xt, yt = torch.from_numpy(x), torch.from_numpy(y)
    if intercept:
        xt, yt = xt - xt.mean(dim=0), yt - yt.mean(dim=0)
    np.testing.assert_allclose(all_left_out(xt, yt, ridge, intercept), brute, rtol=1e-8, atol=1e-10)


def all_left_out(x, y, ridge, intercept):
    u, s, _ = truncated_svd(x)
    return leave_one_out(u, s, y, u.T @ y, torch.tensor(ridge, dtype=x.dtype), intercept, len(x))


def predict_without(x, y, i, ridge, intercept):
    """Fit ridge regression on all samples but i and predict sample i, the long way."""
    others = np.arange(len(x)) != i
    x_rest, y_rest = x[others], y[others]
    x_zero = x_rest.mean(axis=0) if intercept else np.zeros(x.shape[1])
    y_zero = y_rest.mean(axis=0) if intercept else np.zeros(y.shape[1])
    x_rest, y_rest = x_rest - x_zero, y_rest - y_zero
    penalty = np.sqrt(ridge) * np.eye(x.shape[1])  # ||X w - y||^2 + ridge ||w||^2 as one least-squares problem
    stacked = np.concatenate([x_rest, penalty]), np.concatenate([y_rest, np.zeros((x.shape[1], y.shape[1]))])
    weights = np.linalg.lstsq(*stacked, rcond=None)[0]
    return (x[i] - x_zero) @ weights + y_zero


def test_the_chosen_ridge_minimises_the_brute_force_leave_one_out_error():
    rng = np.random.default_rng(7)
    x = rng.normal(size=(12, 30))
    y = x @ rng.normal(size=(30, 50)) * 0.2 + rng.normal(size=(12, 50))  # more outputs than samples: reduced by QR
    u, s, _ = truncated_svd(torch.from_numpy(x))
    chosen = float(choose_ridge(u, s, torch.from_numpy(y), intercept=False))
    candidates = float(s[0]) ** 2 * np.array(RIDGES)
    errors = [sum(np.sum((y[i] - predict_without(x, y, i, r, False)) ** 2) for i in range(12)) for r in candidates]
    assert chosen == pytest.approx(candidates[int(np.argmin(errors))])
    assert chosen > 0  # noise: some ridge helps


def test_a_sample_alone_in_its_direction_is_predicted_as_by_refitting():
    x = np.zeros((5, 6))
    x[:4, :2] = np.random.default_rng(8).normal(size=(4, 2))
    x[4, 5] = 3.0  # nobody else says anything about this direction
    y = np.random.default_rng(9).normal(size=(5, 2))
    for ridge in (0.0, 0.1):
        closed = all_left_out(torch.from_numpy(x), torch.from_numpy(y), ridge, intercept=False)
        brute = np.stack([y[i] - predict_without(x, y, i, ridge, False) for i in range(5)])
        np.testing.assert_allclose(closed, brute, rtol=1e-9, atol=1e-12)


def test_linear_refuses_what_does_not_fit_in_memory_and_says_what_to_do():
    with pytest.raises(MemoryError, match=r"100000 samples .* GiB; use fewer training samples"):
        check_memory(100_000, 10_000_000, 10_000_000)
    check_memory(100, 32**3, 32**3)


def test_of_many_samples_an_even_choice_is_left_out(monkeypatch):
    """The chosen ridge then minimises the error over every third sample, each predicted by all others."""
    rng = np.random.default_rng(14)
    x = rng.normal(size=(18, 10))
    y = x @ rng.normal(size=(10, 4)) * 0.1 + rng.normal(size=(18, 4))
    monkeypatch.setattr(ridge_module, "MOST_LEFT_OUT", 6)
    monkeypatch.setattr(ridge_module, "BLOCK", 4)
    u, s, _ = truncated_svd(torch.from_numpy(x))
    chosen = float(choose_ridge(u, s, torch.from_numpy(y), intercept=False))
    candidates = float(s[0]) ** 2 * np.array(RIDGES)
    some = range(0, 18, 3)
    errors = [sum(np.sum((y[i] - predict_without(x, y, i, r, False)) ** 2) for i in some) for r in candidates]
    assert chosen == pytest.approx(candidates[int(np.argmin(errors))])


@pytest.mark.parametrize("spec", [MEAN, PERSISTENCE, LINEAR], ids=lambda spec: spec.name)
def test_a_state_dict_round_trips_into_a_fresh_module(spec):
    rng = np.random.default_rng(10)
    task = make_task(grid=(6,), channels=(2, 1), evolves=True)
    train = make_train(rng.normal(size=(4, 2, 6)), rng.normal(size=(4, 1, 6)), units([2.0, 3.0]), units([5.0]))
    model = fitted(spec, task, train)
    fresh = spec.make(task, spec.hparams_for(task))
    fresh.load_state_dict(model.state_dict())
    assert torch.equal(fresh(train.inputs), model(train.inputs))


def test_baselines_are_training_free_and_build_on_the_meta_device():
    task = coarse_task()
    for spec in (MEAN, PERSISTENCE, LINEAR, COARSE_SOLVER):
        assert spec.training_free
        with torch.device("meta"):
            assert not list(spec.make(task, spec.hparams_for(task)).parameters())


def halving(inputs, level, size, gain=1.0):
    """A solver whose relative error is 1 - 2^-level."""
    return gain * inputs / 2**level


def coarse_task(**options) -> TaskInfo:
    return make_task(grid=(6,), coarse=halving, params={"gain": 3.0}, **{"coarse_levels": 3, **options})


def test_the_coarse_solver_is_the_tasks_own_in_physical_units_with_the_tasks_parameters():
    inputs = np.random.default_rng(11).normal(size=(4, 1, 6))
    task = coarse_task()
    np.testing.assert_array_equal(COARSE_SOLVER.make(task, {"level": 2}).solve(inputs), 3 * inputs / 4)


def test_the_default_level_is_coarser_for_a_march_in_time_and_always_exists():
    assert COARSE_SOLVER.hparams_for(coarse_task()) == {"level": 1}
    assert COARSE_SOLVER.hparams_for(coarse_task(evolves=True)) == {"level": 2}
    assert COARSE_SOLVER.hparams_for(coarse_task(evolves=True, coarse_levels=1)) == {"level": 1}


def test_the_coarse_solver_says_what_it_can_not_do():
    assert COARSE_SOLVER.unsupported(make_task(grid=(8,))) == "the task has no coarse solver"
    assert COARSE_SOLVER.unsupported(coarse_task()) is None
    with pytest.raises(ValueError, match=r"level=4, but task 'toy' has levels 0 to 3"):
        COARSE_SOLVER.make(coarse_task(), {"level": 4})
