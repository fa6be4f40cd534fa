"""heat_1d: the data solve u_t = D u_xx with second differences, exactly in time."""

from __future__ import annotations

import numpy as np
import pytest
from pdebench_hss_tasks.heat import HEAT_1D
from pdebench_hss_tasks.heat.equation import DIFFUSIVITY, coarse, diffuse, generate
from pdebench_hss_tasks.heat.sine import amplitudes
from scipy.integrate import solve_ivp
from scipy.linalg import expm

from pdebench_hss.contract.task import Recipe, Scale

SMALL = HEAT_1D.scales["small"]
RECORDED_MOMENTS = [
    0.12655539417368813,
    0.30866347539520367,
    0.11925072070807927,
    0.2675969310489971,
]  # of seeds 0 ... 3, smoke


def sized(points: int, grid: int, steps: int = 10) -> Scale:
    options = {"points": points, "frame": 0.2, "stride": 4}
    return Scale(grid=(grid,), train=1, test=1, steps=steps, recipe=Recipe(batch=1, steps=1), options=options)


def second_difference(points: int) -> np.ndarray:
    """The matrix of u_xx on the interior points."""
    n = points - 2
    return (np.eye(n, k=1) - 2 * np.eye(n) + np.eye(n, k=-1)) * (points - 1) ** 2


def sines(x: np.ndarray) -> np.ndarray:
    return np.sin(np.pi * np.outer(np.arange(1, 11), x))  # (modes, points)


def exact(inputs: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The sine series of the PDE itself, coefficients by least squares on the start: (n, times, 1, grid)."""
    basis = sines(np.linspace(0, 1, inputs.shape[-1]))
    coefficients = np.linalg.lstsq(basis.T, inputs[:, 0].T, rcond=None)[0].T  # (n, modes)
    decay = np.exp(-DIFFUSIVITY * np.outer(times, (np.pi * np.arange(1, 11)) ** 2))  # (times, modes)
    return np.einsum("nk,tk,kx->ntx", coefficients, decay, basis)[:, :, None]


def test_data_follow_the_exact_sine_series():
    inputs, outputs = generate(range(20), SMALL)
    truth = exact(inputs, 0.8 * np.arange(1, 11))
    # Second differences on 1024 points misplace the rate of mode 10 by (10 pi h)^2 / 12 = 8e-5.
    assert np.linalg.norm(outputs - truth) / np.linalg.norm(truth) < 2e-5
    assert np.abs(outputs - truth).max() < 1e-4


def test_space_is_second_order():
    errors = []
    for points in (65, 129, 257, 513):
        inputs, outputs = generate([3], sized(points, 64))
        truth = exact(inputs, 0.8 * np.arange(1, 11))
        errors.append(np.linalg.norm(outputs - truth) / np.linalg.norm(truth))
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert orders == pytest.approx([2, 2, 2], abs=0.03)


def test_time_is_exact_for_the_second_difference_matrix():
    inputs, outputs = generate([0, 1, 2], sized(points=64, grid=64))
    propagator = expm(0.8 * DIFFUSIVITY * second_difference(64))
    state = inputs[:, 0, 1:-1]
    for frame in range(10):
        state = state @ propagator  # symmetric
        np.testing.assert_allclose(outputs[:, frame, 0, 1:-1], state, atol=1e-13)


@pytest.mark.parametrize(("rtol", "atol", "agreement"), [(1e-4, 1e-6, 5e-4), (1e-9, 1e-11, 1e-8)])
def test_agrees_with_bdf_as_far_as_bdf_is_accurate(rtol, atol, agreement):
    points = 256
    inputs, outputs = generate([5], sized(points, points))
    matrix = DIFFUSIVITY * second_difference(points)
    solution = solve_ivp(
        lambda t, u: matrix @ u,
        (0, 8),
        inputs[0, 0, 1:-1],
        method="BDF",
        t_eval=0.8 * np.arange(1, 11),
        jac=matrix,
        rtol=rtol,
        atol=atol,
    )
    ours = outputs[0, :, 0, 1:-1]
    assert np.linalg.norm(solution.y.T - ours) / np.linalg.norm(ours) < agreement


def test_boundary_values_are_zero():
    inputs, outputs = generate(range(4), SMALL)
    for field in (inputs, outputs):
        assert not field[..., 0].any()
        assert not field[..., -1].any()


def test_starts_are_ten_positive_sines_of_maximum_one():
    inputs, _ = generate(range(200), sized(points=1024, grid=1024, steps=1))
    assert np.abs(inputs).max(axis=(1, 2)) == pytest.approx(np.ones(200), abs=1e-14)
    modes = amplitudes(inputs[:, 0, 1:-1])
    np.testing.assert_allclose(modes[:, 10:], 0, atol=1e-14)
    assert (modes[:, :10] > 0).all()
    mean = (modes[:, :10] / modes[:, :10].sum(axis=1, keepdims=True)).mean(axis=0)
    np.testing.assert_allclose(mean, 0.1, atol=0.015)  # no mode is favoured; the standard error is 0.004


def test_saved_frames_solve_the_equation_on_the_saved_grid_at_its_order():
    residuals = []
    for grid in (33, 65, 129):
        inputs, outputs = generate([7], sized(points=1024, grid=grid))
        step = expm(0.8 * DIFFUSIVITY * second_difference(grid))
        frames = np.concatenate([inputs[:, None], outputs], axis=1)[0, :, 0, 1:-1]
        residuals.append(np.linalg.norm(frames[1:] - frames[:-1] @ step) / np.linalg.norm(frames))
    orders = np.log2(np.divide(residuals[:-1], residuals[1:]))
    assert orders == pytest.approx([2, 2], abs=0.1)


def test_a_sample_depends_on_its_seed_alone():
    inputs, outputs = generate([11, 12, 13], SMALL)
    again_inputs, again_outputs = generate([13], SMALL)
    assert np.array_equal(inputs[2:], again_inputs)
    assert np.array_equal(outputs[2:], again_outputs)
    assert not np.allclose(inputs[0], inputs[1])


def test_coarse_solver_starts_at_the_data_and_gets_worse_level_by_level():
    inputs, outputs = generate(range(8), SMALL)
    errors = [np.linalg.norm(coarse(inputs, level, SMALL) - outputs) for level in range(HEAT_1D.coarse_levels + 1)]
    errors = np.array(errors) / np.linalg.norm(outputs)
    assert errors[0] < 1e-13
    assert (errors[1:-1] < errors[2:]).all()
    assert 1e-5 < errors[1] < errors[-1] < 0.2


def test_modes_that_a_coarse_grid_lacks_are_zero():
    modes = diffuse(np.ones((1, 10)), points=8, times=np.array([0.8]))
    assert (modes[0, 0, :6] > 0).all()
    assert not modes[0, 0, 6:].any()


def test_data_have_not_changed():
    inputs, outputs = generate(range(4), HEAT_1D.scales["smoke"])
    assert outputs.shape == (4, 4, 1, 32)
    found = [inputs.mean(), inputs.std(), outputs.mean(), outputs.std()]
    assert found == pytest.approx(RECORDED_MOMENTS, rel=1e-10)


def test_scales_and_contract():
    paper = HEAT_1D.scales["paper"]
    assert (paper.grid, paper.train, paper.test) == ((256,), 1800, 200)
    assert paper.steps * paper.options["frame"] * paper.options["stride"] == pytest.approx(8)
    assert paper.options["frame"] * paper.options["stride"] == pytest.approx(0.8)
    assert (paper.recipe.epochs, paper.recipe.batch) == (1000, 256)
    assert HEAT_1D.info("small").coords[0, [0, -1]].tolist() == [0, 1]
    assert HEAT_1D.metric == "trajectory_l2"
    assert HEAT_1D.evolves
