"""burgers_1d: the data solve u_t + beta u u_x = nu u_xx with second-order differences."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from pdebench_hss_tasks.burgers import BURGERS_1D, solver
from pdebench_hss_tasks.burgers.equation import coarse, generate, initial_modes
from pdebench_hss_tasks.burgers.solver import VISCOSITY, advection, march
from pdebench_hss_tasks.heat.equation import DIFFUSIVITY, diffuse
from pdebench_hss_tasks.heat.sine import amplitudes, values
from scipy.integrate import solve_ivp

from pdebench_hss.contract.task import Recipe, Scale

SMOKE = BURGERS_1D.scales["smoke"]
# Of seeds 0 ... 3: means over the left half (the whole is odd) and deviations, of inputs and outputs.
RECORDED_MOMENTS = [-0.02675042752321818, 0.46854446130080657, -0.004310730427944673, 0.1711249806660589]


def sized(points: int, grid: int, steps: int, stride: int = 1) -> Scale:
    options = {"points": points, "frame": 0.2, "stride": stride}
    return Scale(grid=(grid,), train=1, test=1, steps=steps, recipe=Recipe(batch=1, steps=1), options=options)


def cole_hopf(seed: int, x: np.ndarray, time: float, beta: float = 1.0) -> np.ndarray:
    """The exact solution on the whole line, where the odd, periodic start keeps u = 0 at x = 0 and x = 1.

    u(x, t) = int (y / (beta t)) w dy / int w dy,   w = exp(-y^2 / (4 nu t) - beta U(x - y) / (2 nu)),   U' = u(., 0)
    """
    modes = initial_modes(seed, 1024)
    wave = np.pi * np.arange(1, len(modes) + 1)
    reach = 1.1 * beta * time + 12 * np.sqrt(2 * VISCOSITY * time)
    y = np.linspace(-reach, reach, 8_001)
    potential = -np.cos((x[:, None] - y)[..., None] * wave[3::2]) @ (modes / wave)[3::2]  # the other modes are zero
    exponent = -(y**2) / (4 * VISCOSITY * time) - beta * potential / (2 * VISCOSITY)
    weight = np.exp(exponent - exponent.max(axis=1, keepdims=True))
    return (weight @ y) / weight.sum(axis=1) / (beta * time)


def relative(found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))


@pytest.mark.parametrize(("beta", "frames"), [(1.0, (1, 3, 5)), (1e-2, (5,))])
def test_second_order_towards_the_cole_hopf_solution(beta, frames):
    x = np.arange(1, 64) / 64
    truth = {frame: cole_hopf(2, x, 0.2 * frame, beta) for frame in frames}
    errors = []
    for points in (512, 1024):
        _, outputs = generate([2], sized(points, 64, max(frames)), beta=beta)
        errors.append([relative(outputs[0, frame - 1, 0, 1:], truth[frame]) for frame in frames])
    assert max(errors[1]) < 2e-3  # shocks are four cells wide at 1024 points
    assert np.log2(np.divide(*errors)) == pytest.approx([2] * len(frames), abs=0.15)


def test_late_times_follow_the_cole_hopf_solution():
    x = np.arange(1, 32) / 32
    _, outputs = generate([4], sized(1024, 32, steps=15, stride=5), beta=1.0)
    for frame in (3, 15):
        assert relative(outputs[0, frame - 1, 0, 1:], cole_hopf(4, x, frame)) < 1e-3


def right_hand_side(u: np.ndarray) -> np.ndarray:
    """The scheme as the solver's docstring states it, written down point by point."""
    full = np.concatenate([[0], u, [0]])
    intervals = len(full) - 1
    flux = (full[:-1] ** 2 + full[:-1] * full[1:] + full[1:] ** 2) / 6
    diffusion = VISCOSITY * np.diff(full, 2) * intervals**2
    return diffusion - np.diff(flux) * intervals


@pytest.mark.parametrize(("rtol", "atol", "agreement"), [(1e-4, 1e-6, 2e-4), (1e-7, 1e-9, 1e-5)])
def test_agrees_with_bdf_as_far_as_bdf_is_accurate(rtol, atol, agreement):
    points, frames = 1024, 10
    inputs, outputs = generate([1], sized(points, points, frames), beta=1.0)
    band = scipy.sparse.diags_array([1.0, 1.0, 1.0], offsets=[-1, 0, 1], shape=(points - 1, points - 1))
    solution = solve_ivp(
        lambda t, u: right_hand_side(u),
        (0, 2),
        inputs[0, 0, 1:],
        method="BDF",
        t_eval=0.2 * np.arange(1, frames + 1),
        jac_sparsity=band,
        rtol=rtol,
        atol=atol,
    )
    for frame in range(frames):
        assert relative(outputs[0, frame, 0, 1:], solution.y[:, frame]) < agreement


def test_time_is_fourth_order(monkeypatch):
    start = values(initial_modes(0, 1024), 1024)[None]
    found = []
    for courant in (2.0, 1.0, 0.25):
        monkeypatch.setattr(solver, "COURANT", courant)
        found.append(next(march(start, 1, 0.2, beta=1.0)))
    errors = [relative(u, found[-1]) for u in found[:-1]]
    assert errors[0] < 1e-5  # of the data, where the differences in space leave 1e-3
    assert np.log2(errors[0] / errors[1]) == pytest.approx(4, abs=0.4)


def test_advection_conserves_momentum_and_energy():
    u = np.random.default_rng(0).uniform(-1, 1, (3, 63))
    change = values(advection(3, 64, beta=0.7)(amplitudes(u)), 64)
    np.testing.assert_allclose(np.einsum("ni,ni->n", u, change), 0, atol=1e-10)
    # What is left of the momentum balance is the flux through the two ends.
    ends = 0.7 * 64 * (u[:, 0] ** 2 - u[:, -1] ** 2) / 6
    np.testing.assert_allclose(change.sum(axis=1), ends, atol=1e-10)


def test_too_coarse_a_grid_stays_bounded():
    inputs, _ = generate(range(4), sized(256, 32, steps=1), beta=1.0)
    rough = coarse(inputs, 3, sized(256, 32, steps=75), beta=1.0)
    energy = (rough**2).sum(axis=(2, 3))
    assert (np.diff(energy, axis=1) <= 0).all()


def test_without_advection_it_is_the_heat_equation():
    size = sized(128, 128, steps=3)
    inputs, outputs = generate([0, 1], size, beta=0.0)
    times = 0.2 * np.arange(1, 4) * VISCOSITY / DIFFUSIVITY
    modes = diffuse(amplitudes(inputs[:, 0, 1:]), points=129, times=times)
    np.testing.assert_allclose(outputs[:, :, 0, 1:], values(modes, 128), atol=1e-12)


def test_boundary_values_and_symmetry():
    inputs, outputs = generate(range(3), SMOKE, beta=1.0)
    for field in (inputs, outputs):
        assert not field[..., 0].any()
        np.testing.assert_allclose(field[..., 1:], -field[..., :0:-1], atol=1e-12)  # odd about x = 1/2


def test_starts_are_ten_sines_of_maximum_one():
    inputs, _ = generate(range(50), sized(1024, 1024, steps=1), beta=0.0)
    assert np.abs(inputs).max(axis=(1, 2)) == pytest.approx(np.ones(50), abs=1e-14)
    modes = amplitudes(inputs[:, 0, 1:])
    used = np.flatnonzero(np.abs(modes).max(axis=0) > 1e-12) + 1
    assert used.tolist() == [2 * (k + 1) for k in range(1, 11)]
    share = (modes[:, used - 1] > 0).mean()
    assert abs(share - 0.5) < 0.1  # signs are even: the standard error is 0.02


def test_stride_keeps_every_so_manyth_frame():
    _, every = generate([6], sized(256, 32, steps=6), beta=1.0)
    _, third = generate([6], sized(256, 32, steps=2, stride=3), beta=1.0)
    np.testing.assert_allclose(third, every[:, 2::3], atol=1e-5)


def test_saved_frames_solve_the_equation_on_the_saved_grid_at_its_order():
    residuals = []
    for grid in (64, 128, 256):  # beta = 0.01: no shock, so that these grids resolve the frames
        inputs, outputs = generate([7], sized(1024, grid, steps=4), beta=1e-2)
        frames = np.concatenate([inputs[:, None], outputs], axis=1)[0, :, 0, 1:]
        advanced = next(march(frames[:-1], 1, 0.2, beta=1e-2))
        residuals.append(relative(advanced, frames[1:]))
    assert np.log2(np.divide(residuals[:-1], residuals[1:])) == pytest.approx([2, 2], abs=0.15)


def test_a_sample_depends_on_its_seed_alone():
    inputs, outputs = generate(range(20), SMOKE, beta=1.0)
    again_inputs, again_outputs = generate([17], SMOKE, beta=1.0)
    assert np.array_equal(inputs[17:18], again_inputs)
    assert np.array_equal(outputs[17:18], again_outputs)


def test_coarse_solver_starts_at_the_data_and_gets_worse_level_by_level():
    size = sized(512, 64, steps=5)
    inputs, outputs = generate(range(3), size, beta=1.0)
    errors = [relative(coarse(inputs, level, size, beta=1.0), outputs) for level in range(4)]
    assert errors[0] < 1e-12
    assert 1e-3 < errors[1] < errors[2] < errors[3] < 1


def test_a_grid_coarser_than_the_tasks_is_carried_over_by_the_sine_series():
    size = sized(256, 128, steps=2)
    inputs, _ = generate([0], size, beta=1.0)
    found = coarse(inputs, 2, size, beta=1.0)[0, :, 0]  # solved on 64 points
    direct = coarse(inputs[..., ::2], 0, sized(64, 64, steps=2), beta=1.0)[0, :, 0]
    np.testing.assert_allclose(found[:, ::2], direct, atol=1e-12)
    series = np.sin(np.pi * np.outer(np.arange(128) / 128, np.arange(1, 64))) @ amplitudes(direct[:, 1:]).T
    np.testing.assert_allclose(found, series.T, atol=1e-12)


def test_data_have_not_changed():
    inputs, outputs = generate(range(4), SMOKE, beta=1.0)
    assert outputs.shape == (4, 4, 1, 32)
    found = [inputs[..., :16].mean(), inputs.std(), outputs[..., :16].mean(), outputs.std()]
    assert found == pytest.approx(RECORDED_MOMENTS, rel=1e-9)


def test_scales_and_contract():
    paper = BURGERS_1D.scales["paper"]
    assert (paper.grid, paper.train, paper.test) == ((256,), 1800, 200)
    assert paper.steps * paper.options["frame"] * paper.options["stride"] == pytest.approx(15)
    assert (paper.recipe.epochs, paper.recipe.batch, paper.recipe.lr) == (1500, 256, 5e-4)
    assert BURGERS_1D.info("paper").coords[0].tolist() == [i / 256 for i in range(256)]
    assert BURGERS_1D.params == {"beta": 1.0}
