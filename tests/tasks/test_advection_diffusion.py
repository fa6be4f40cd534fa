"""Advection and diffusion in 1D: exact series, order, an independent solve, the Green's function, no symmetry."""

from __future__ import annotations

import numpy as np
import pytest
from pdebench_hss_tasks.advection_diffusion import ADVECTION_DIFFUSION_1D, compact
from pdebench_hss_tasks.poisson import POISSON_1D_GRF, dirichlet, forcing

SMALL, PAPER = (ADVECTION_DIFFUSION_1D.scales[name] for name in ("small", "paper"))
PARAMS = dict(ADVECTION_DIFFUSION_1D.params)
speeds = pytest.mark.parametrize("c", [-10.0, 0.1, 10.0, 300.0])


def relative(found: np.ndarray, exact: np.ndarray) -> float:
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


def exact_solution(a: np.ndarray, c: float, x: np.ndarray) -> np.ndarray:
    """u for f = sum a_k sin(k pi x), by hand: sines and cosines, and 1 and exp(c x) for the boundary values."""
    k = np.pi * np.arange(1, len(a) + 1)
    sines, cosines = a / (k**2 + c**2), -c * a / (k * (k**2 + c**2))
    at_0, at_1 = cosines.sum(), (cosines * np.cos(k)).sum()
    grown = np.expm1(c * x) / np.expm1(c) if c < 0 else (np.exp(c * (x - 1)) - np.exp(-c)) / -np.expm1(-c)
    return np.sin(np.outer(x, k)) @ sines + np.cos(np.outer(x, k)) @ cosines - at_0 - (at_1 - at_0) * grown


def green(c: float, n: int) -> np.ndarray:
    """G(x_i, y_j) on the points j / n."""
    x, y = np.meshgrid(np.arange(n) / n, np.arange(n) / n, indexing="ij")
    below = np.expm1(c * x) * np.expm1(c * (1 - y))
    above = (np.exp(c) - np.exp(c * x)) * -np.expm1(-c * y)
    return np.where(x <= y, below, above) / (c * np.expm1(c))


@speeds
def test_the_data_are_the_exact_solution_of_their_series(c: float) -> None:
    f, u = compact.generate([9], PAPER, c=c, length=0.01)
    a = forcing.gaussian_field([9], PAPER.grid, 0.01)[0]
    x = np.arange(256) / 256
    np.testing.assert_allclose(f[0, 0], np.sin(np.pi * np.outer(x, np.arange(1, 256))) @ a, atol=1e-11)
    assert relative(u[0, 0], exact_solution(a, c, x)) < (1e-3 if c > 100 else 1e-7)


@pytest.mark.parametrize("c", [0.1, 10.0])
def test_the_scheme_is_of_fourth_order(c: float) -> None:
    """u = x (1 - x) e^x sin(pi x)^2: no symmetry and every mode, f by hand from u."""
    errors = []
    for n in (32, 64, 128, 256):
        x = np.arange(n) / n
        p, dp, d2p = x * (1 - x) * np.exp(x), (1 - x - x**2) * np.exp(x), (-3 * x - x**2) * np.exp(x)
        s, ds, d2s = np.sin(np.pi * x) ** 2, np.pi * np.sin(2 * np.pi * x), 2 * np.pi**2 * np.cos(2 * np.pi * x)
        u, du, d2u = p * s, dp * s + p * ds, d2p * s + 2 * dp * ds + p * d2s
        errors.append(relative(compact.solve((-d2u + c * du)[None], c)[0], u))
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert np.abs(orders - 4).max() < 0.1


@speeds
def test_the_solver_equals_a_dense_solve_of_the_assembled_system(c: float) -> None:
    """Rows written out point by point from the formula, with numpy's general solver."""
    n = 40
    h = 1 / n
    f = np.concatenate([[0.0], np.random.default_rng(0).standard_normal(n - 1), [0.0]])
    matrix, rhs = np.zeros((n - 1, n - 1)), np.zeros(n - 1)
    for row in range(n - 1):
        j = row + 1
        rhs[row] = f[j] + (f[j - 1] - 2 * f[j] + f[j + 1]) / 12 - h * c * (f[j + 1] - f[j - 1]) / 24
        for there, value in (
            (row - 1, -(1 + (c * h) ** 2 / 12) / h**2 - c / (2 * h)),
            (row, 2 * (1 + (c * h) ** 2 / 12) / h**2),
            (row + 1, -(1 + (c * h) ** 2 / 12) / h**2 + c / (2 * h)),
        ):
            if 0 <= there < n - 1:
                matrix[row, there] = value
    assert relative(compact.solve(f[None, :-1], c)[0, 1:], np.linalg.solve(matrix, rhs)) < 1e-10


@pytest.mark.parametrize("c", [0.1, 10.0])
def test_the_stored_pairs_are_an_integral_against_the_greens_function(c: float) -> None:
    """The formula at the head of compact.py, with the trapezoidal rule on the models' grid."""
    f, u = (fields[:, 0] for fields in compact.generate([1, 2, 3], SMALL, c=c, length=0.01))
    assert relative(f @ green(c, 256).T / 256, u) < 5e-4


@pytest.mark.parametrize("c", [0.1, 10.0])
def test_the_operator_is_an_hss_matrix_of_rank_two_without_symmetry(c: float) -> None:
    g = green(c, 64)[1:, 1:]
    asymmetry = np.linalg.norm(g - g.T) / np.linalg.norm(g)
    assert asymmetry > c / 100
    off_diagonal = np.concatenate([g[16:32, :16], g[16:32, 32:]], axis=1)  # a block row
    s = np.linalg.svd(off_diagonal, compute_uv=False)
    assert s[1] > 1e-6 * s[0]
    assert s[2] < 1e-12 * s[0]


def test_without_drift_it_is_poissons_equation() -> None:
    f, u = compact.generate([5], PAPER, c=0.0, length=0.01)
    f_poisson, u_poisson = dirichlet.generate_field([5], POISSON_1D_GRF.scales["paper"], length=0.01)
    np.testing.assert_array_equal(f, f_poisson)
    assert relative(u, u_poisson) < 1e-7


def test_a_layer_that_the_grid_does_not_resolve_does_not_oscillate() -> None:
    """f > 0 and cell Peclet number 30: u stays positive (the matrix is monotone)."""
    n = 32
    f = np.sin(np.pi * np.arange(n) / n)
    assert compact.solve(f[None], c=1000.0)[0, 1:].min() > 0


def test_the_coarse_solver_keeps_the_order_also_below_the_models_grid() -> None:
    inputs, outputs = compact.generate(list(range(4)), SMALL, **PARAMS)
    errors = [relative(compact.coarse(inputs, level, SMALL, **PARAMS), outputs) for level in range(5)]
    assert errors[0] < 1e-12
    assert errors == sorted(errors)
    assert errors[1] < 1e-6
    assert errors[4] < 2e-2
