"""navier_stokes_forward and _inverse: the flow agrees with references that share nothing with its solver."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pdebench_hss_tasks.navier_stokes import FORWARD, INVERSE
from pdebench_hss_tasks.navier_stokes.equation import (
    AMPLIFICATION,
    coarse_forward,
    coarse_inverse,
    generate,
    random_vorticity,
    swap,
)
from pdebench_hss_tasks.navier_stokes.solver import FORCING, VISCOSITY, backward, forward
from pdebench_hss_tasks.navier_stokes.spectral import resample

SMOKE, SMALL, PAPER = (FORWARD.scales[name] for name in ("smoke", "small", "paper"))
STD_START, STD_END = 0.262, 0.256  # of DiffusionPDE's released fields
RECORDED_MOMENTS = [0.2596557042884459, 0.2541945776670268]  # deviations of inputs and outputs, seeds 0 ... 3, smoke


def relative(found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))


def mesh(n: int) -> tuple[np.ndarray, np.ndarray]:
    return np.meshgrid(np.arange(n) / n, np.arange(n) / n, indexing="ij")


def textbook_flow(start: np.ndarray, n: int, steps: int) -> np.ndarray:
    """v . grad w by four complex transforms on an n x n grid, classical Runge-Kutta for everything, all modes kept.

    The start is carried to that grid by zero-padding its Fourier series. No integrating factor, no 2/3 rule: the grid
    is so much finer than the flow that neither is needed.
    """
    old = start.shape[-1]
    centred = np.fft.fftshift(np.fft.fft2(start))[1:, 1:]  # without the Nyquist modes, which have no partner
    gap = (n - old) // 2
    w = np.fft.ifftshift(np.pad(centred, ((gap + 1, gap), (gap + 1, gap)))) * (n / old) ** 2
    k = 2j * np.pi * np.fft.fftfreq(n, 1 / n)
    dx, dy = k[:, None], k[None, :]
    laplacian = dx**2 + dy**2
    inverse = np.where(laplacian == 0, 0, 1 / np.where(laplacian == 0, 1, laplacian))
    x, y = mesh(n)
    phase = 2 * np.pi * (x + y)
    forcing = np.fft.fft2(0.1 * (np.sin(phase) + np.cos(phase)))

    def rate(w: np.ndarray) -> np.ndarray:
        stream = -inverse * w
        physical = [np.fft.ifft2(part).real for part in (dy * stream, -dx * stream, dx * w, dy * w)]
        advection = physical[0] * physical[2] + physical[1] * physical[3]
        return 1e-3 * laplacian * w + forcing - np.fft.fft2(advection)

    dt = 1 / steps
    for _ in range(steps):
        k1 = rate(w)
        k2 = rate(w + dt / 2 * k1)
        k3 = rate(w + dt / 2 * k2)
        k4 = rate(w + dt * k3)
        w = w + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return np.fft.ifft2(w).real


def test_agrees_with_a_finer_textbook_solver_to_1e_5():
    inputs, outputs = generate([0, 1], SMALL)  # 64 x 64
    for start, end in zip(inputs[:, 0], outputs[:, 0]):
        reference = textbook_flow(start, n=96, steps=120)
        assert relative(end[::2, ::2], reference[::3, ::3]) < 1e-6


def test_twice_the_grid_and_the_steps_change_nothing_that_is_stored():
    inputs, outputs = generate([2], SMALL)
    finer = forward(resample(inputs[:, 0], 128), 2 * SMALL.options["steps"])
    assert relative(outputs[:, 0], finer[:, ::2, ::2]) < 1e-7  # float32 resolves 6e-8


def test_time_is_fourth_order():
    starts = np.stack([random_vorticity(seed, 64) for seed in range(3)])
    fine = forward(starts, 160)
    errors = [relative(forward(starts, steps), fine) for steps in (10, 20, 40)]
    assert errors[1] < 1e-7
    assert np.log2(np.divide(errors[:-1], errors[1:])) == pytest.approx([4, 4], abs=0.1)


def test_diagonal_waves_follow_their_closed_form():
    # w = w(x + y) does not advect itself: each wave decays and the forced one tends to forcing / (nu 8 pi^2).
    x, y = mesh(32)
    phase = 2 * np.pi * (x + y)
    rate = VISCOSITY * 8 * np.pi**2
    forced = FORCING * (np.sin(phase) + np.cos(phase)) * (1 - np.exp(-rate)) / rate
    start = np.cos(3 * phase) + 0.5 * np.sin(phase)
    end = np.exp(-9 * rate) * np.cos(3 * phase) + np.exp(-rate) * 0.5 * np.sin(phase) + forced
    np.testing.assert_allclose(forward(start[None], 20)[0], end, atol=1e-10)


def test_mean_vorticity_stays_zero_and_forcing_is_as_printed():
    inputs, outputs = generate(range(4), SMOKE)
    np.testing.assert_allclose(inputs.mean(axis=(2, 3)), 0, atol=1e-15)
    np.testing.assert_allclose(outputs.mean(axis=(2, 3)), 0, atol=1e-15)
    assert (FORCING, VISCOSITY) == (0.1, 1e-3)


def test_spectrum_of_the_starts():
    count = 400
    starts = np.stack([random_vorticity(seed, 32) for seed in range(count)])
    power = (np.abs(np.fft.fft2(starts) / 32**2) ** 2).mean(axis=0)
    for kx, ky in ((0, 1), (1, 0), (1, 1), (-1, 2), (3, 4), (0, 10)):
        expected = 2 * 7**3 * (4 * np.pi**2 * (kx**2 + ky**2) + 49) ** -2.5
        assert power[kx, ky] == pytest.approx(expected, rel=4 / np.sqrt(count))  # four standard errors
    assert power[0, 0] < 1e-30


def mean_squares(fields: np.ndarray) -> np.ndarray:
    """Of each sample, over its points."""
    return (fields**2).reshape(len(fields), -1).mean(axis=1)


def moment_and_error(squares: np.ndarray) -> tuple[float, float]:
    """Root mean square over samples, and its standard error."""
    moment = np.sqrt(squares.mean())
    return moment, squares.std() / np.sqrt(len(squares)) / (2 * moment)


def test_starts_deviate_like_the_released_data():
    frequency = np.fft.fftfreq(128, 1 / 128)
    spectrum = 2 * 7**3 * (4 * np.pi**2 * np.add.outer(frequency**2, frequency**2) + 49) ** -2.5
    assert np.sqrt(spectrum.sum() - spectrum[0, 0]) == pytest.approx(STD_START, rel=1e-3)  # what is asked for
    starts = np.stack([random_vorticity(seed, 64) for seed in range(1000)])
    moment, error = moment_and_error(mean_squares(starts))  # what is drawn
    assert error < 0.01 * STD_START
    assert abs(moment - STD_START) < 3 * error


def test_ends_deviate_like_the_released_data():
    size = replace(SMALL, grid=(32, 32), options={"steps": 8})
    _, outputs = generate(range(600), size)
    moment, error = moment_and_error(mean_squares(outputs))
    assert error < 0.01 * STD_END
    assert abs(moment - STD_END) < 3 * error


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_moments_are_those_of_the_released_data_within_one_percent():
    size = replace(PAPER, options={"steps": 5})  # accurate to 1e-5, where moments need 1e-2
    found = [[mean_squares(field) for field in generate(batch, size)] for batch in np.arange(5000).reshape(-1, 100)]
    for squares, expected in zip(np.hstack(found), (STD_START, STD_END)):
        moment, error = moment_and_error(squares)
        assert 3 * error < 0.01 * expected
        assert moment == pytest.approx(expected, rel=0.01)


def test_a_sample_depends_on_its_seed_alone():
    inputs, outputs = generate(range(11), SMOKE)
    again_inputs, again_outputs = generate([9], SMOKE)
    assert np.array_equal(inputs[9:10], again_inputs)
    assert np.array_equal(outputs[9:10], again_outputs)


def test_backwards_undoes_forwards_where_diffusion_left_something():
    start = resample(resample(random_vorticity(0, 64)[None], 8), 64)  # |k| < 4: all of its flow is recoverable
    assert relative(backward(forward(start, 20), 20, AMPLIFICATION), start) < 1e-6


def test_backwards_drops_what_it_would_amplify_too_much():
    x, _ = mesh(32)
    rate = VISCOSITY * (2 * np.pi * 9) ** 2
    fast, slow = np.cos(2 * np.pi * 9 * x), np.cos(2 * np.pi * x)
    fields = np.stack([fast + slow, slow])
    with_both, without = backward(fields, 20, amplification=0.99 * np.exp(rate))
    np.testing.assert_allclose(with_both, without, atol=1e-13)


@pytest.mark.parametrize(("solve", "best", "worst"), [(coarse_forward, 1e-7, 0.2), (coarse_inverse, 0.03, 0.5)])
def test_coarse_solvers_get_worse_level_by_level(solve, best, worst):
    w0, w1 = (field.astype(np.float32) for field in generate(range(4), SMALL))  # as stored
    inputs, outputs = (w0, w1) if solve is coarse_forward else (w1, w0)
    errors = [relative(solve(inputs, level, SMALL), outputs) for level in range(FORWARD.coarse_levels + 1)]
    assert errors[0] < best
    assert errors == sorted(errors)
    assert errors[-1] < worst


def test_resampling_keeps_what_both_grids_hold():
    x, y = mesh(16)
    smooth = np.sin(2 * np.pi * (3 * x - 2 * y)) + np.cos(2 * np.pi * 5 * y)
    x, y = mesh(48)
    finer = np.sin(2 * np.pi * (3 * x - 2 * y)) + np.cos(2 * np.pi * 5 * y)
    np.testing.assert_allclose(resample(smooth, 48), finer, atol=1e-13)
    np.testing.assert_allclose(resample(finer, 16), smooth, atol=1e-13)
    assert resample(smooth, 16) is smooth


def test_inverse_reads_the_same_data_backwards():
    inputs, outputs = generate([0], SMOKE)
    found = swap(inputs, outputs)
    assert found[0] is outputs
    assert found[1] is inputs
    assert FORWARD.dataset == INVERSE.dataset == "navier_stokes"
    assert FORWARD.view is None


def test_data_have_not_changed():
    inputs, outputs = generate(range(4), SMOKE)
    assert [inputs.std(), outputs.std()] == pytest.approx(RECORDED_MOMENTS, rel=1e-9)


def test_scales_and_contract():
    for spec in (FORWARD, INVERSE):
        assert (PAPER.grid, PAPER.train, PAPER.test) == ((128, 128), 50_000, 1_000)
        assert (PAPER.recipe.epochs, PAPER.recipe.batch, PAPER.recipe.weight_decay) == (10, 64, 0)
        assert (spec.normalization, spec.dtype, spec.evolves, spec.periodic) == ("std", "float32", True, True)
