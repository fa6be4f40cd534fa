"""advection_1d: a shift, exact between the points too; the classical scheme and its order; the random starts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pdebench_hss_tasks.advection import ADVECTION_1D
from pdebench_hss_tasks.advection.equation import coarse, generate, lax_wendroff, random_field, shifted
from pdebench_hss_tasks.advection.fourier import resample

SMOKE, SMALL = (ADVECTION_1D.scales[name] for name in ("smoke", "small"))
PARAMS = dict(ADVECTION_1D.params)


def relative(found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))


def test_a_shift_by_whole_points_moves_the_array():
    inputs, outputs = generate([1, 2], SMALL, c=5 * 10 / 128, length=0.05)  # five points a frame
    for frame in range(4):
        np.testing.assert_allclose(outputs[:, frame], np.roll(inputs, 5 * (frame + 1), axis=-1), atol=1e-12)


@given(st.floats(-3, 3), st.integers(1, 15))
@settings(max_examples=30, deadline=None)
def test_a_shift_between_the_points_is_that_of_the_function(distance, waves):
    x = np.arange(32) / 32
    wave = np.sin(2 * np.pi * waves * x + 0.3)
    found = shifted(wave[None], np.array([distance]))[0, 0]
    np.testing.assert_allclose(found, np.sin(2 * np.pi * waves * (x - distance) + 0.3), atol=1e-11)


def test_the_classical_scheme_is_of_second_order():
    errors = []
    for n in (64, 128, 256):
        x = np.arange(n) / n
        wave = np.exp(np.sin(2 * np.pi * x))[None]
        found = lax_wendroff(wave, 3, 0.1, 0.49)[:, 2]  # 4, 8, 16 steps a frame: one Courant number
        errors.append(relative(found, np.exp(np.sin(2 * np.pi * (x - 0.147)))[None]))
    assert np.log2(np.divide(errors[:-1], errors[1:])) == pytest.approx([2, 2], abs=0.15)


def test_starts_have_zero_mean_mean_square_one_and_the_spectrum_of_their_formula():
    fields = np.stack([random_field(seed, 128, 0.05) for seed in range(400)])
    assert np.abs(fields.mean(axis=1)).max() < 1e-12
    power = (fields**2).mean(axis=1)
    assert power.mean() == pytest.approx(1, abs=4 * power.std() / 20)
    spectrum = (np.abs(np.fft.rfft(fields)) ** 2).mean(axis=0)
    expected = (1 + (2 * np.pi * 0.05 * np.arange(65)) ** 2) ** -2.0
    assert spectrum[1:9] / spectrum[1] == pytest.approx(expected[1:9] / expected[1], rel=0.3)
    assert spectrum[64] < 1e-20


def test_resampling_there_and_back_is_the_identity():
    fields = np.stack([random_field(seed, 32, 0.05) for seed in range(3)])
    finer = resample(fields, 96)
    np.testing.assert_allclose(finer[:, ::3], fields, atol=1e-12)
    np.testing.assert_allclose(resample(finer, 32), fields, atol=1e-12)


def test_a_sample_depends_on_its_seed_alone():
    together, alone = generate([4, 7, 9], SMOKE, **PARAMS), generate([7], SMOKE, **PARAMS)
    for fields, single in zip(together, alone):
        np.testing.assert_array_equal(fields[1:2], single)


def test_the_coarse_solver_starts_at_the_data_and_gets_worse_level_by_level():
    inputs, outputs = generate(range(8), SMALL, **PARAMS)
    errors = [relative(coarse(inputs, level, SMALL, **PARAMS), outputs) for level in range(4)]
    assert errors[0] < 1e-12
    assert 0.01 < errors[1] < errors[2] < errors[3] < 1


def test_data_have_not_changed():
    inputs, outputs = generate(range(100, 104), SMOKE, **PARAMS)
    assert [inputs.std(), (inputs**3).mean(), (outputs**3).mean()] == pytest.approx(RECORDED_MOMENTS, rel=1e-9)


RECORDED_MOMENTS = [1.1120359985974235, 0.40630538700502955, 0.4080813711676926]
