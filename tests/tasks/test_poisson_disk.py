"""Poisson around a disk: cut cells measured by brute force, exact solutions, balance, refinement."""

from __future__ import annotations

import numpy as np
import pytest
from pdebench_hss_tasks.poisson import POISSON_2D_MIXED, box, disk, forcing, grid
from pdebench_hss_tasks.poisson.disk_cells import cut_by_disk

from pdebench_hss.contract.task import Recipe, Scale


def size(n: int, points: int) -> Scale:
    recipe = Recipe(steps=1, batch=1)
    return Scale(grid=(points, points), train=1, test=1, recipe=recipe, options={"solve": (n, n), "modes": 10})


def test_areas_faces_and_centroids_agree_with_counting_small_squares() -> None:
    n, fine = 10, 400
    cells = cut_by_disk(n, 0.2)
    inside = (np.arange(fine) + 0.5) / fine - 0.5  # positions inside a cell, in cells
    for i in range(2, 8):
        for j in range(2, 8):
            x, y = np.meshgrid((i + inside) / n - 0.5, (j + inside) / n - 0.5, indexing="ij")
            outside = np.hypot(x, y) > 0.2
            assert cells.area[i, j] == pytest.approx(outside.mean(), abs=2e-3)
            if cells.area[i, j] > 0.05:
                offset = (inside[:, None] * outside).mean() / outside.mean()
                assert cells.centroid[0][i, j] == pytest.approx(offset, abs=5e-3)
            face = np.hypot((i + 0.5) / n - 0.5, (j + inside) / n - 0.5) > 0.2  # towards the next cell along x
            assert cells.faces[0][i, j] == pytest.approx(face.mean(), abs=3e-3)
            if cells.faces[0][i, j] > 0.05:
                assert cells.face_centroid[0][i, j] == pytest.approx((inside * face).mean() / face.mean(), abs=5e-3)


@pytest.mark.parametrize("n", [16, 50, 128])
def test_the_open_cells_fill_the_domain(n: int) -> None:
    assert cut_by_disk(n, 0.2).area.sum() / n**2 == pytest.approx(1 - np.pi * 0.04, abs=1e-14)


def exact_solution(turns: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """u = w(q) Re (x + iy)^m, q = r^2, w = (0.45^2 - q)^6 (1 + b q), b such that du/dr = 0 at r = 0.2; and f."""
    w = 1e5 * np.polynomial.Polynomial([0.45**2, -1]) ** 6
    q0, m = 0.04, turns
    # d/dr (w (1 + b q) r^m) = r^(m-1) (2 q (w (1 + b q))' + m w (1 + b q)) = 0
    b = -(2 * q0 * w.deriv()(q0) + m * w(q0)) / (2 * q0 * (w.deriv()(q0) * q0 + w(q0)) + m * w(q0) * q0)
    w = w * np.polynomial.Polynomial([1, b])
    x, y = grid.points((n, n)) - 0.5
    q, wave = x**2 + y**2, ((x + 1j * y) ** m).real
    support = q < 0.45**2
    u = np.where(support, w(q), 0) * wave
    f = -np.where(support, 4 * q * w.deriv(2)(q) + 4 * (m + 1) * w.deriv()(q), 0) * wave
    return u, f


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_third_order_on_exact_solutions_that_are_flat_at_the_circle(turns: int) -> None:
    errors = []
    for n in (64, 128, 256):
        exact, f = exact_solution(turns, n)
        outside = disk.mask((n, n))
        error = (disk.solve(f[None])[0] - exact)[outside]
        errors.append(np.linalg.norm(error - error.mean()) / np.linalg.norm(exact[outside]))
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert np.all(orders > 2.8), orders
    assert errors[1] < 3e-4


def test_away_from_the_circle_it_is_the_nine_point_stencil_also_across_the_periodic_border() -> None:
    n = 48
    coefficients = forcing.square([2], 10, draw=False)
    f = box.synthesize(coefficients, (n, n))
    u = disk.solve(f)[0]
    lam = [2 * u - np.roll(u, 1, axis) - np.roll(u, -1, axis) for axis in (0, 1)]
    cross = 2 * lam[0] - np.roll(lam[0], 1, 1) - np.roll(lam[0], -1, 1)
    right = f[0] - sum(2 * f[0] - np.roll(f[0], 1, axis) - np.roll(f[0], -1, axis) for axis in (0, 1)) / 12
    residual = n**2 * (lam[0] + lam[1] - cross / 6) - right
    far = np.hypot(*(grid.points((n, n)) - 0.5)) > 0.2 + 4 / n
    assert far[0].all()  # the border rows are among them
    assert np.abs(residual[far]).max() / np.abs(f).max() < 1e-11


def test_refinement_of_the_papers_forcing() -> None:
    coefficients = forcing.square(range(2), 10, draw=False)
    u = {n: disk.solve(box.synthesize(coefficients, (n, n)))[:, :: n // 64, :: n // 64] for n in (64, 128, 256)}
    outside = disk.mask((64, 64))
    first, second = ((u[2 * n] - u[n])[:, outside] for n in (64, 128))
    assert np.log2(np.linalg.norm(first) / np.linalg.norm(second)) > 2.8
    assert np.linalg.norm(second) / np.linalg.norm(u[256][:, outside]) < 5e-4


def test_forcing_and_solution_have_mean_zero_over_the_domain() -> None:
    n = 64
    f = box.synthesize(forcing.square(range(3), 10, draw=False), (n, n))
    area = cut_by_disk(n, 0.2).area
    for fields in (f, disk.solve(f)):
        assert np.abs((fields * area).sum(axis=(1, 2))).max() / np.abs(fields * area).sum() < 1e-15


def test_the_solver_makes_any_forcing_solvable() -> None:
    """A forcing with a mean has no solution; that mean is taken out."""
    n = 32
    f = np.random.default_rng(0).standard_normal((1, n, n))
    np.testing.assert_allclose(disk.solve(f + 2.5), disk.solve(f), atol=1e-13)


def test_the_square_is_symmetric_so_turning_f_turns_u() -> None:
    f = box.synthesize(forcing.square([1], 10, draw=False), (32, 32))
    np.testing.assert_allclose(disk.solve(f.transpose(0, 2, 1)), disk.solve(f).transpose(0, 2, 1), atol=1e-14)


def test_samples_are_zero_in_the_disk_and_nowhere_else() -> None:
    f, u = disk.generate(range(2), size(64, 32))
    outside = disk.mask((32, 32))
    assert outside.sum() == sum((i - 16) ** 2 + (j - 16) ** 2 >= 6.4**2 for i in range(32) for j in range(32))
    assert np.all(f[..., ~outside] == 0)
    assert np.all(u[..., ~outside] == 0)
    assert np.count_nonzero(u[0, 0][outside]) > 0.9 * outside.sum()


def test_the_spec_says_periodic_outside_and_mixed() -> None:
    assert POISSON_2D_MIXED.periodic
    assert POISSON_2D_MIXED.boundary == "mixed"
    np.testing.assert_array_equal(POISSON_2D_MIXED.info("small").mask, disk.mask((32, 32)))
