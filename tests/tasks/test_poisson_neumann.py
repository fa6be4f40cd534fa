"""Poisson with Neumann ends: the cosine solver is the five-band system, fourth order up to the ends, mean-free."""

from __future__ import annotations

import numpy as np
import pytest
from pdebench_hss_tasks.poisson import POISSON_1D_NEUMANN, neumann

from pdebench_hss.contract.task import Recipe, Scale


def size(n: int, points: int) -> Scale:
    recipe = Recipe(steps=1, batch=1)
    return Scale(grid=(points,), train=1, test=1, recipe=recipe, options={"solve": (n,), "modes": 10})


def mean(values: np.ndarray) -> float:
    """Trapezoidal rule on [0, 1], both ends among the points."""
    return float(np.trapezoid(values, dx=1 / (len(values) - 1)))


def five_band(n: int) -> np.ndarray:
    """-u'' on n + 1 points, the values beyond the ends mirrored: u(-h) = u(h)."""
    matrix = np.zeros((n + 1, n + 1))
    for i in range(n + 1):
        for step, weight in zip((-2, -1, 0, 1, 2), (1, -16, 30, -16, 1)):
            j = abs(i + step)
            matrix[i, 2 * n - j if j > n else j] += weight * n**2 / 12
    return matrix


def test_the_solver_solves_the_mirrored_five_band_system_with_the_corrected_ends() -> None:
    """Reference: a dense least-squares solve, with f'(0) and f'(1) of an f whose derivative is known."""
    n = 40
    x = np.arange(n + 1) / n
    f = 4 * x**3 + 5 * x - 3.5  # mean zero; a cubic, whose derivative one-sided differences give exactly
    slope_left, slope_right = 5.0, 17.0
    rhs = f.copy()
    rhs[0] += 2 / 9 / n * slope_left
    rhs[1] -= 1 / 36 / n * slope_left
    rhs[-1] -= 2 / 9 / n * slope_right
    rhs[-2] += 1 / 36 / n * slope_right
    expected, *_ = np.linalg.lstsq(five_band(n), rhs, rcond=None)
    np.testing.assert_allclose(five_band(n) @ expected, rhs, atol=1e-9)  # solvable: the corrected mean is zero
    np.testing.assert_allclose(neumann.solve(f[None])[0], expected - mean(expected), atol=1e-10)


@pytest.mark.parametrize(
    ("f", "u"),
    [
        (lambda x: np.sin(2 * np.pi * x), lambda x: (np.sin(2 * np.pi * x) - 2 * np.pi * x) / (4 * np.pi**2)),
        (lambda x: np.e - 1 - np.exp(x), lambda x: np.exp(x) - x - (np.e - 1) * x**2 / 2),
    ],
    ids=["the task's sine", "not symmetric"],
)
def test_fourth_order_on_exact_solutions_whose_mirror_image_is_not_smooth(f, u) -> None:
    fine = np.linspace(0, 1, 200_001)
    errors = []
    for n in (32, 64, 128, 256):
        x = np.arange(n + 1) / n
        exact = u(x) - mean(u(fine))
        errors.append(np.abs(neumann.solve(f(x)[None])[0] - exact).max())
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert np.all(orders > 3.8), orders


def test_a_sample_is_the_exact_solution_of_its_series() -> None:
    c = np.random.default_rng(3).uniform(size=10)
    k = 2 * np.pi * np.arange(1, 11)
    f, u = neumann.generate([3], size(1024, 256))
    x = np.arange(256) / 256
    exact = (np.sin(np.outer(x, k)) - np.outer(x, k) + k / 2) @ (c / k**2)  # u'(0) = u'(1) = 0, mean zero
    np.testing.assert_allclose(f[0, 0], np.sin(np.outer(x, k)) @ c, atol=1e-12)
    assert np.linalg.norm(u[0, 0] - exact) / np.linalg.norm(exact) < 1e-7


def test_forcing_and_solution_are_mean_free_to_rounding() -> None:
    f, _ = neumann.generate(range(4), size(256, 256))
    assert np.abs(f.mean(axis=-1)).max() < 1e-13
    u = neumann.solve(np.pad(f[:, 0], [(0, 0), (0, 1)]))
    assert max(abs(mean(field)) for field in u) < 1e-15


def test_the_ends_of_a_sample_are_flat() -> None:
    """u'(0) from six saved points, one-sided and of fifth order: its own error is all that is left."""
    one_sided = np.array([-137, 300, -300, 200, -75, 12]) / 60
    slopes = []
    for points in (256, 512):
        _, u = neumann.generate([0], size(1024, points))
        slopes.append(abs(points * one_sided @ u[0, 0, :6]) / (points * np.abs(np.diff(u[0, 0])).max()))
    assert slopes[0] < 1e-3
    assert slopes[1] < slopes[0] / 16


def test_a_constant_in_the_forcing_is_ignored_as_it_must_be() -> None:
    f = np.random.default_rng(0).standard_normal((1, 65))
    np.testing.assert_allclose(neumann.solve(f + 3.0), neumann.solve(f), atol=1e-13)


def test_cosine_interpolation_goes_through_its_points() -> None:
    u = np.random.default_rng(0).standard_normal((2, 9))
    np.testing.assert_allclose(neumann.resample(u, 32)[:, ::4], u, atol=1e-14)


def test_too_few_points_for_the_stencil_are_refused() -> None:
    with pytest.raises(ValueError, match="4 intervals are too few"):
        neumann.solve(np.zeros((1, 5)))


def test_the_spec_says_neumann() -> None:
    assert POISSON_1D_NEUMANN.boundary == "neumann"
    assert not POISSON_1D_NEUMANN.periodic
