"""`linear_symmetric`: the closed form against a brute-force solve over symmetric matrices, and what it assumes."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from factories.tasks import make_task
from pdebench_hss_models.baselines import LINEAR, LINEAR_SYMMETRIC
from pdebench_hss_models.baselines.symmetric import Fit, apply, held_out_ridge
from torch import Tensor

from pdebench_hss import load_task, run
from pdebench_hss.training.parameters import count_fitted
from pdebench_hss.training.windows import prepare


def gaussian(rows: int, columns: int, seed: int) -> Tensor:
    return torch.randn(rows, columns, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def matrix(fit: Fit, ridge: float) -> Tensor:
    """W itself, (p, p)."""
    return apply(torch.eye(len(fit.basis), dtype=torch.float64), *fit.at(torch.tensor(ridge, dtype=torch.float64)))


def brute_force(x: np.ndarray, y: np.ndarray, ridge: float) -> np.ndarray:
    """Least squares for the p (p + 1) / 2 entries of W by numpy's lstsq, weighted so that its norm is W's."""
    p = x.shape[1]
    columns, places = [], [(i, j) for i in range(p) for j in range(i, p)]
    for i, j in places:
        unit = np.zeros((p, p))
        unit[i, j] = unit[j, i] = 1 if i == j else np.sqrt(0.5)
        columns.append(np.concatenate([(x @ unit).ravel(), np.sqrt(ridge) * unit.ravel()]))
    target = np.concatenate([y.ravel(), np.zeros(p * p)])
    values, *_ = np.linalg.lstsq(np.stack(columns, axis=1), target, rcond=1e-12)
    w = np.zeros((p, p))
    for (i, j), value in zip(places, values):
        w[i, j] = w[j, i] = value * (1 if i == j else np.sqrt(0.5))
    return w


@pytest.mark.parametrize("ridge", [0.0, 1e-3, 2.0])
@pytest.mark.parametrize("samples", [3, 7, 20])
def test_the_closed_form_is_the_minimum_norm_least_squares_symmetric_matrix(samples: int, ridge: float) -> None:
    """Fewer, as many and more samples than the seven points; outputs of no symmetric map."""
    x, y = gaussian(samples, 7, 0), gaussian(samples, 7, 1)
    w = matrix(Fit(x, y), ridge)
    assert torch.allclose(w, w.T, atol=1e-12)
    np.testing.assert_allclose(w.numpy(), brute_force(x.numpy(), y.numpy(), ridge), atol=1e-9)


def test_a_symmetric_matrix_needs_half_the_samples() -> None:
    """39 of 40 points: plain least squares miss one direction, symmetric least squares know all but one number."""
    half = gaussian(40, 40, 2)
    operator, x, unseen = half + half.T, gaussian(39, 40, 3), gaussian(10, 40, 4)
    plain = torch.linalg.lstsq(x, x @ operator, driver="gelsd").solution
    error = lambda w: ((unseen @ w - unseen @ operator).norm() / (unseen @ operator).norm()).item()  # noqa: E731
    assert error(matrix(Fit(x, x @ operator), 0.0)) < 0.2 * error(plain)


def test_the_ridge_is_the_one_that_predicts_held_out_samples_best() -> None:
    half = gaussian(12, 12, 2)
    x = gaussian(40, 12, 3)
    exact, noise = x @ (half + half.T), gaussian(40, 12, 5)
    assert held_out_ridge(x, exact) < 1e-9
    assert held_out_ridge(x, exact + 10 * noise) > 1e-3
    assert held_out_ridge(x[:3], exact[:3]) == 0  # nothing to hold out


def test_on_a_self_adjoint_task_it_is_ahead_of_least_squares_and_without_symmetry_behind(tmp_path) -> None:
    """The same forcing, grid and samples; c = 0 is self-adjoint, c = 10 is not."""
    errors = {}
    for c in (0.0, 10.0):
        data = load_task(f"advection_diffusion_1d[c={c}]", scale="small")
        train = prepare(data, torch.float64)
        for spec in (LINEAR, LINEAR_SYMMETRIC):
            model = spec.make(data.task, {})
            model.fit(train)
            scale_in, scale_out = train.normalizer.inputs.scale[0], train.normalizer.outputs.scale[0]
            found = model(torch.as_tensor(data.test.inputs) / scale_in).numpy() * scale_out
            wrong = np.linalg.norm(found - data.test.outputs, axis=-1) / np.linalg.norm(data.test.outputs, axis=-1)
            errors[spec.name, c] = wrong.mean()
    assert errors["linear", 0.0] > 5e-3
    assert errors["linear_symmetric", 0.0] < 2e-3
    assert errors["linear_symmetric", 10.0] > 10 * errors["linear", 10.0]


def test_what_it_can_not_do_has_a_reason() -> None:
    assert LINEAR_SYMMETRIC.training_free
    assert LINEAR_SYMMETRIC.unsupported(make_task(grid=(4, 4))) is None
    assert LINEAR_SYMMETRIC.unsupported(make_task(linear=False)) == "needs a linear PDE"
    assert LINEAR_SYMMETRIC.unsupported(make_task(channels=(2, 1))) == "needs one input and one output channel"


def test_a_fitted_model_round_trips_through_its_state() -> None:
    data = load_task("poisson_1d_grf", scale="smoke")
    train = prepare(data, torch.float64)
    model = LINEAR_SYMMETRIC.make(data.task, {})
    other = copy.deepcopy(model)
    model.fit(train)
    other.load_state_dict(model.state_dict())
    assert torch.equal(model(train.inputs), other(train.inputs))


# --- how many coefficients a closed form has


def test_a_closed_form_counts_the_coefficients_of_its_fit() -> None:
    """poisson_1d_grf at scale smoke: 8 samples of 32 points."""
    train = prepare(load_task("poisson_1d_grf", scale="smoke"), torch.float64)
    for spec, expected in ((LINEAR, 8 * (32 + 32 - 8)), (LINEAR_SYMMETRIC, 8 * 9 // 2 + 2 * 8 * 24)):
        model = spec.make(train.task, {})
        assert count_fitted(model).real == 0
        model.fit(train)
        assert (count_fitted(model).real, count_fitted(model).numel) == (expected, expected)


def test_the_record_has_the_count_after_the_fit_and_that_of_networks_as_built(tmp_path) -> None:
    board = run(models="mean,linear,linear_symmetric,hss_fit,coarse_solver,deeponet", tasks="poisson_1d_grf",
                scale="smoke", executor="inline", out=str(tmp_path)).results  # fmt: skip
    counts = dict(zip(board["model"], board["params_real"]))
    assert counts["mean"] == 32
    assert counts["linear"] == 8 * (32 + 32 - 8)
    assert counts["linear_symmetric"] == 8 * 9 // 2 + 2 * 8 * 24
    assert counts["hss_fit"] > 0
    assert counts["coarse_solver"] == 0
    assert counts["deeponet"] == board.set_index("model").loc["deeponet", "params_numel"] > 0
