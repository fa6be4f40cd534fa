"""Helmholtz on the periodic square: exact series, independent sparse solve of the coarse stencil, resonance."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sparse
from pdebench_hss_tasks.helmholtz import HELMHOLTZ_2D, spectral
from scipy.sparse.linalg import spsolve

PAPER = HELMHOLTZ_2D.scales["paper"]


def test_a_sample_is_the_exact_solution_of_its_series() -> None:
    f, u = spectral.generate([9], PAPER)
    c = np.random.default_rng(9).uniform(size=(10, 10))
    k = np.arange(1, 11)
    sines = np.sin(2 * np.pi * np.outer(np.arange(64) / 64, k))
    eigenvalue = 4 * np.pi**2 * (k[:, None] ** 2 + k**2) - 70**2
    np.testing.assert_allclose(f[0, 0], sines @ c @ sines.T, atol=1e-11)
    exact = sines @ (c / eigenvalue) @ sines.T
    assert np.linalg.norm(u[0, 0] - exact) / np.linalg.norm(exact) < 1e-12


def test_the_saved_samples_satisfy_the_equation_to_rounding() -> None:
    """The Laplacian as a dense differentiation matrix, not by the generator's transforms."""
    f, u = (a[0, 0] for a in spectral.generate([0], PAPER))
    n = len(u)
    offset = np.arange(n)[:, None] - np.arange(n)
    offset[np.eye(n, dtype=bool)] = 1  # not used
    second = -((-1.0) ** offset) / (2 * np.sin(np.pi * offset / n) ** 2)
    np.fill_diagonal(second, -(n**2) / 12 - 1 / 6)
    second *= (2 * np.pi) ** 2
    residual = -(second @ u + u @ second.T) - 70**2 * u - f
    assert np.abs(residual).max() / np.abs(f).max() < 1e-10


def test_the_coarse_solver_equals_a_sparse_direct_solve_of_the_nine_point_stencil() -> None:
    n, kappa = 24, 70.0
    f = np.random.default_rng(0).standard_normal((n, n))
    matrix, right = sparse.lil_matrix((n * n, n * n)), sparse.lil_matrix((n * n, n * n))
    for i in range(n):
        for j in range(n):
            for di in (-1, 0, 1):
                for dj in (-1, 0, 1):
                    there, away = (i + di) % n * n + (j + dj) % n, abs(di) + abs(dj)
                    mass = {0: 8 / 12, 1: 1 / 12, 2: 0}[away]
                    matrix[i * n + j, there] += {0: 20, 1: -4, 2: -1}[away] * n**2 / 6 - kappa**2 * mass
                    right[i * n + j, there] += mass
    expected = spsolve(matrix.tocsc(), right @ f.ravel()).reshape(n, n)
    found = spectral.apply(spectral.inverse_nine_point(n, kappa), f[None])[0]
    assert np.linalg.norm(found - expected) / np.linalg.norm(expected) < 1e-10


def test_the_nine_point_stencil_is_of_fourth_order() -> None:
    """u = exp(sin 2 pi x + cos 2 pi y), which has every wave number."""
    errors, kappa, two_pi = [], 10.0, 2 * np.pi
    for n in (32, 64, 128):
        x, y = np.meshgrid(np.arange(n) / n, np.arange(n) / n, indexing="ij")
        s, c = np.sin(two_pi * x), np.cos(two_pi * y)
        u = np.exp(s + c)
        f = -(two_pi**2) * u * (1 - s**2 - s + 1 - c**2 - c) - kappa**2 * u
        found = spectral.apply(spectral.inverse_nine_point(n, kappa), f[None])[0]
        errors.append(np.abs(found - u).max())
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert orders == pytest.approx([4, 4], abs=0.25)


def test_the_modes_10_5_and_5_10_nearly_resonate_and_dominate() -> None:
    _, u = spectral.generate(range(50), PAPER)
    energy = np.abs(np.fft.fft2(u[:, 0])) ** 2
    resonant = sum(energy[:, a, b] for a, b in ((10, 5), (10, -5), (-10, 5), (-10, -5)))
    resonant = resonant + sum(energy[:, a, b] for a, b in ((5, 10), (5, -10), (-5, 10), (-5, -10)))
    assert (resonant.sum() / energy.sum()) > 0.8


def test_samples_are_periodic_and_symmetric_as_their_series() -> None:
    f, u = spectral.generate([1], PAPER)
    for field in (f[0, 0], u[0, 0]):
        np.testing.assert_allclose(field[0], 0, atol=1e-12)  # sums of sines
        np.testing.assert_allclose(field[1:], -field[:0:-1], atol=1e-11)


def test_fourier_interpolation_goes_through_its_points_and_back() -> None:
    fine = np.random.default_rng(0).standard_normal((2, 16, 16))
    smooth = spectral.resample(fine, (64, 64))
    again = spectral.resample(smooth[:, ::4, ::4], (64, 64))
    np.testing.assert_allclose(again, smooth, atol=1e-13)
    assert not np.allclose(smooth, 0)


def test_kappa_is_a_parameter_and_an_eigenvalue_is_refused() -> None:
    _, u = spectral.generate([0], PAPER, kappa=10.0)
    assert not np.allclose(u, spectral.generate([0], PAPER)[1])
    with pytest.raises(ValueError, match="is an eigenvalue on 128 x 128 points"):
        spectral.generate([0], PAPER, kappa=2 * np.pi * np.sqrt(125))


def test_the_wave_number_of_the_paper_and_its_sizes() -> None:
    assert HELMHOLTZ_2D.params["kappa"] == 70
    assert (PAPER.train, PAPER.test, PAPER.recipe.epochs, PAPER.recipe.batch) == (2250, 250, 1000, 64)
    assert HELMHOLTZ_2D.info("paper").coords[0, 1, 0] == 1 / 64  # the default of periodic tasks is our convention
