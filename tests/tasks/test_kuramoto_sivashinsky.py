"""kuramoto_sivashinsky_1d: against another integrator, order, conservation, and that it is chaotic and resolved."""

from __future__ import annotations

import numpy as np
import pytest
from pdebench_hss_tasks.kuramoto_sivashinsky import KURAMOTO_SIVASHINSKY_1D
from pdebench_hss_tasks.kuramoto_sivashinsky.equation import LENGTH, coarse, generate, initial, march
from scipy.integrate import solve_ivp

SMOKE, SMALL = (KURAMOTO_SIVASHINSKY_1D.scales[name] for name in ("smoke", "small"))


def relative(found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))


def on_attractor(count: int, points: int = 128) -> np.ndarray:
    return march(np.stack([initial(seed, points) for seed in range(count)]), 60, 1.0, 20)[:, -1]


def right_hand_side(u: np.ndarray) -> np.ndarray:
    """-u u_x - u_xx - u_xxxx with complex transforms of the whole spectrum, products on three halves of the points."""
    n = len(u)
    k = np.fft.fftfreq(n, 1 / n)
    q = 2 * np.pi * k / LENGTH
    v = np.where(np.abs(k) < n / 3, np.fft.fft(u), 0)
    fine = np.zeros(3 * n, complex)
    fine[k.astype(int)] = 3 * v
    square = np.fft.fft(np.fft.ifft(fine).real ** 2)[k.astype(int)] / 3
    change = (q**2 - q**4) * v - 0.5j * q * np.where(np.abs(k) < n / 3, square, 0)
    return np.fft.ifft(change).real


def test_agrees_with_a_general_stiff_integrator():
    start = on_attractor(1)[0]
    times = [1.0, 2.0, 4.0]
    solution = solve_ivp(
        lambda t, u: right_hand_side(u), (0, 4), start, method="Radau", t_eval=times, rtol=1e-8, atol=1e-9
    )
    found = march(start[None], 4, 1.0, 20)[0]
    for column, frame in zip(solution.y.T, (0, 1, 3)):
        assert relative(found[frame], column) < 5e-6


def test_the_order_in_time_approaches_four():
    """The scheme loses part of an order where the linear part is stiff: 3.1, 3.3, 3.5, 3.7 from 10 to 160 steps."""
    start = on_attractor(4)
    reference = march(start, 1, 1.0, 1280)
    errors = [relative(march(start, 1, 1.0, substeps), reference) for substeps in (20, 40, 80, 160)]
    assert errors[0] < 1e-6  # of the data
    first, second, third = np.log2(np.divide(errors[:-1], errors[1:]))
    assert 3.2 < first < second < third < 4.1


def test_twice_the_points_change_a_trajectory_by_less_than_a_millionth():
    inputs, outputs = generate(range(4), SMALL)
    finer = march(np.fft.irfft(2 * np.fft.rfft(inputs[:, 0])[:, :64], n=256), 20, 1.0, 20)[:, :, ::2]
    assert relative(finer[:, :10], outputs[:, :10, 0]) < 1e-6


def test_a_wave_too_long_grows_and_one_too_short_decays_at_their_rates():
    x = 2 * np.pi * np.arange(128) / 128
    for waves in (3, 12):
        q = 2 * np.pi * waves / LENGTH
        start = 1e-8 * np.sin(waves * x)[None]
        grown = march(start, 1, 1.0, 20)[0, 0]
        np.testing.assert_allclose(grown, np.exp(q**2 - q**4) * start[0], atol=1e-14)


def test_the_mean_is_conserved():
    _, outputs = generate(range(4), SMALL)
    assert np.abs(outputs.mean(axis=-1)).max() < 1e-13


def test_it_is_chaotic_and_bounded():
    start = on_attractor(16)
    nearby = start + 1e-9 * np.random.default_rng(0).standard_normal(start.shape)
    distance = np.linalg.norm(march(nearby, 110, 1.0, 10) - march(start, 110, 1.0, 10), axis=2)  # (16, 110)
    rate = np.log(distance[:, 109] / distance[:, 19]) / 90
    assert 0.05 < rate.mean() < 0.1
    _, outputs = generate(range(16), SMALL)
    assert 1.1 < outputs.std() < 1.5
    assert np.abs(outputs).max() < 5


def test_a_sample_depends_on_its_seed_alone():
    together, alone = generate([4, 7, 9], SMOKE), generate([7], SMOKE)
    for fields, single in zip(together, alone):
        np.testing.assert_array_equal(fields[1:2], single)


def test_the_coarse_solver_starts_at_the_data_and_gets_worse_level_by_level():
    inputs, outputs = generate(range(4), SMALL)
    errors = [relative(coarse(inputs, level, SMALL), outputs) for level in range(3)]
    assert errors[0] < 1e-12
    assert 1e-4 < errors[1] < 0.5 < errors[2] < 5


def test_data_have_not_changed():
    inputs, outputs = generate(range(100, 104), SMOKE)
    found = [inputs.std(), outputs[:, -1].std(), (inputs**3).mean(), (outputs**3).mean()]
    assert found == pytest.approx(RECORDED_MOMENTS, rel=1e-7)


RECORDED_MOMENTS = [1.3868077284344669, 1.352628955881569, -0.07201381176794673, -0.11079082578678218]
