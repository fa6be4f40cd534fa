"""wave_2d: a standing wave, d'Alembert's shape, energy, the order of the leapfrog scheme, another integrator."""

from __future__ import annotations

import numpy as np
import pytest
from pdebench_hss_tasks.waves import WAVE_2D
from pdebench_hss_tasks.waves.equation import coarse, generate, leapfrog, oscillate, random_modes, second_difference
from scipy.integrate import solve_ivp

from pdebench_hss import Scale

SMOKE, SMALL = (WAVE_2D.scales[name] for name in ("smoke", "small"))
PARAMS = dict(WAVE_2D.params)
C = PARAMS["c"]


def relative(found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))


def standing(n: int, times: np.ndarray) -> np.ndarray:
    """u = cos(5 pi c t) sin(3 pi x) sin(4 pi y) and its velocity, ``(times, 2, n, n)``."""
    x = np.arange(n) / n
    shape, w = np.outer(np.sin(3 * np.pi * x), np.sin(4 * np.pi * x)), 5 * np.pi * C
    return np.stack([np.multiply.outer(np.cos(w * times), shape), np.multiply.outer(-w * np.sin(w * times), shape)], 1)


def test_a_standing_wave_comes_out_as_its_formula():
    times = np.arange(1.0, 11)
    start = standing(32, np.zeros(1))
    found = coarse(start, 0, SMALL, **PARAMS)
    np.testing.assert_allclose(found[0], standing(32, times), atol=1e-12)


def test_the_leapfrog_scheme_is_of_second_order():
    times = np.arange(1.0, 4)
    errors = [relative(leapfrog(standing(n, np.zeros(1)), 3, 1.0, C)[0], standing(n, times)) for n in (32, 64, 128)]
    assert np.log2(np.divide(errors[:-1], errors[1:])) == pytest.approx([2, 2], abs=0.1)


def test_the_leapfrog_scheme_follows_the_same_differences_solved_by_another_integrator():
    n = 16
    state = generate([1], Scale((n, n), 1, 1, SMOKE.recipe, steps=2, options={"frame": 1.0}), **PARAMS)[0]

    def change(t: float, y: np.ndarray) -> np.ndarray:
        u, velocity = y.reshape(2, 1, n, n)
        return np.concatenate([velocity.ravel(), C**2 * second_difference(u).ravel()])

    solution = solve_ivp(change, (0, 0.25), state.ravel(), method="DOP853", rtol=1e-10, atol=1e-12)
    found = leapfrog(state, 1, 0.25, C)[0, 0]
    assert relative(found, solution.y[:, -1].reshape(2, n, n)) < 0.02


def test_energy_is_conserved_and_time_can_be_turned_round():
    start = np.random.default_rng(0).standard_normal((3, 2, 15, 15))
    k = np.pi * C * np.arange(1, 16)
    w = np.hypot(k[:, None], k)
    later = oscillate(start, np.array([0.7, 20.0]), C)
    energy = ((w * later[:, :, 0]) ** 2 + later[:, :, 1] ** 2).sum(axis=(2, 3))
    at_start = ((w * start[:, 0]) ** 2 + start[:, 1] ** 2).sum(axis=(1, 2))
    np.testing.assert_allclose(energy, np.stack([at_start, at_start], axis=1), rtol=1e-12)
    back = oscillate(later[:, 1], np.array([-20.0]), C)[:, 0]
    np.testing.assert_allclose(back, start, atol=1e-10)


def test_starts_are_at_rest_with_mean_square_one_and_zero_boundary():
    inputs, outputs = generate(range(100), SMALL, **PARAMS)
    assert not inputs[:, 1].any()
    assert not inputs[:, :, 0].any()
    assert not outputs[..., 0].any()
    power = (inputs[:, 0] ** 2).mean(axis=(1, 2))
    assert power.mean() == pytest.approx(1, abs=4 * power.std() / 10)
    assert 0.3 < outputs[:, :, 1].std() / outputs[:, :, 0].std() < 3  # both channels count in an error


def test_a_seed_has_its_own_modes():
    modes = random_modes([3, 4], 16, 0.1)
    np.testing.assert_array_equal(modes[1:], random_modes([4], 16, 0.1))
    assert not np.allclose(modes[0], modes[1])
    together, alone = generate([4, 7], SMOKE, **PARAMS), generate([7], SMOKE, **PARAMS)
    for fields, single in zip(together, alone):
        np.testing.assert_array_equal(fields[1:2], single)


def test_the_coarse_solver_starts_at_the_data_and_gets_worse_level_by_level():
    inputs, outputs = generate(range(4), SMALL, **PARAMS)
    errors = [relative(coarse(inputs, level, SMALL, **PARAMS), outputs) for level in range(4)]
    assert errors[0] < 1e-12
    assert 0.01 < errors[1] < errors[2] < errors[3] < 1


def test_data_have_not_changed():
    inputs, outputs = generate(range(100, 104), SMOKE, **PARAMS)
    assert [inputs.std(), inputs.mean(), outputs.std(), outputs.mean()] == pytest.approx(RECORDED_MOMENTS, rel=1e-9)


RECORDED_MOMENTS = [0.8146533994900718, 0.013175957040532246, 0.7315603428968667, -0.019175563521860877]
