"""Poisson on the L-shape: the factorised system is the paper's stencil, by hand-made assembly and exact solutions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sparse
from pdebench_hss_tasks.poisson import POISSON_2D, POISSON_2D_LSHAPE, box, dirichlet, forcing, grid, lshape
from scipy.sparse.linalg import spsolve

from pdebench_hss.contract.task import Recipe, Scale


def size(n: int, points: int) -> Scale:
    recipe = Recipe(steps=1, batch=1)
    return Scale(grid=(points, points), train=1, test=1, recipe=recipe, options={"solve": (n, n), "modes": 10})


def inside(i: int, j: int, n: int) -> bool:
    return 0 < i < n and 0 < j < n and not (2 * i >= n and 2 * j >= n)


def test_the_solver_equals_a_sparse_direct_solve_of_the_nine_point_stencil() -> None:
    n = 20
    f = np.random.default_rng(0).standard_normal((n, n))
    f[0, :] = f[:, 0] = 0
    unknowns = [(i, j) for i in range(n) for j in range(n) if inside(i, j, n)]
    number = {point: row for row, point in enumerate(unknowns)}
    matrix, rhs = sparse.lil_matrix((len(unknowns),) * 2), np.zeros(len(unknowns))
    for (i, j), row in number.items():
        for di in (-1, 0, 1):
            for dj in (-1, 0, 1):
                neighbour = (i + di, j + dj)
                weight = {0: 20, 1: -4, 2: -1}[abs(di) + abs(dj)] * n**2 / 6
                if neighbour in number:
                    matrix[row, number[neighbour]] = weight
                if abs(di) + abs(dj) < 2 and max(neighbour) < n:  # f = 0 at x = 1 and y = 1
                    rhs[row] += {0: 8, 1: 1}[abs(di) + abs(dj)] / 12 * f[neighbour]
    expected = spsolve(matrix.tocsc(), rhs)
    u = lshape.solve(f[None])[0]
    found = np.array([u[point] for point in unknowns])
    assert np.linalg.norm(found - expected) / np.linalg.norm(expected) < 1e-10
    assert np.count_nonzero(u) == len(unknowns)  # zero everywhere else


def test_fourth_order_on_a_smooth_exact_solution_with_forcing_on_the_inner_edges() -> None:
    """u = sin(2 pi x) sin(2 pi y) (2 + cos(pi x) cos(pi y)); f vanishes on the outer edges only."""
    pi, errors = np.pi, []
    for n in (16, 32, 64, 128):
        x, y = grid.points((n, n))
        sx, sy, q = np.sin(2 * pi * x), np.sin(2 * pi * y), 2 + np.cos(pi * x) * np.cos(pi * y)
        gradient = -pi * np.sin(pi * x) * np.cos(pi * y), -pi * np.cos(pi * x) * np.sin(pi * y)
        laplacian = (
            -8 * pi**2 * sx * sy * q
            + 4 * pi * (np.cos(2 * pi * x) * sy * gradient[0] + sx * np.cos(2 * pi * y) * gradient[1])
            - 2 * pi**2 * sx * sy * np.cos(pi * x) * np.cos(pi * y)
        )
        error = lshape.solve(-laplacian[None])[0] - sx * sy * q
        errors.append(np.abs(error[lshape.mask((n, n))]).max())
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert np.all(orders > 3.8), orders


def test_with_the_papers_forcing_the_solution_is_the_squares_own() -> None:
    """sin(2 pi k x) is odd about x = 1/2, so the square's solution is zero on the new edges too."""
    scale = size(64, 32)
    _, on_square = dirichlet.generate_2d(range(3), scale)
    f, u = lshape.generate(range(3), scale)
    inner = lshape.mask((32, 32))
    np.testing.assert_allclose(u[..., inner], on_square[..., inner], atol=1e-14)
    assert np.all(f[..., ~inner] == 0)
    assert np.all(u[..., ~inner] == 0)


def test_factor_1_feels_the_corner() -> None:
    """Like r^(2/3) along the diagonal into the re-entrant corner, while the square's solution is smooth there."""
    n = 256
    u = lshape.solve(box.synthesize(forcing.square([0], 10, draw=False, factor=1), (n, n)))[0]
    steps = np.arange(2, 7)
    corner = n // 2
    slope = np.polyfit(np.log(steps), np.log(np.abs(u[corner - steps, corner - steps])), 1)[0]
    assert slope == pytest.approx(2 / 3, abs=0.06)


def test_refinement_converges_at_the_rate_that_the_corner_allows() -> None:
    coefficients = forcing.square(range(2), 10, draw=False, factor=1)
    u = {n: lshape.solve(box.synthesize(coefficients, (n, n))) for n in (64, 128, 256)}
    first = np.linalg.norm(u[128][:, ::4, ::4] - u[64][:, ::2, ::2])
    second = np.linalg.norm(u[256][:, ::8, ::8] - u[128][:, ::4, ::4])
    assert np.log2(first / second) == pytest.approx(4 / 3, abs=0.2)
    assert second / np.linalg.norm(u[256][:, ::8, ::8]) < 1e-3


def test_the_boundary_values_are_exactly_zero() -> None:
    for factor in (1, 2):
        _, u = lshape.generate(range(2), size(64, 32), factor=factor)
        u = u[:, 0]
        assert np.all(u[:, 0, :] == 0)
        assert np.all(u[:, :, 0] == 0)
        assert np.all(u[:, 16, 16:] == 0)
        assert np.all(u[:, 16:, 16] == 0)
        assert np.all(u[:, 1:16, 1:16] != 0)


def test_the_mask_is_the_closed_l_shape() -> None:
    mask = lshape.mask((32, 32))
    assert mask.sum() == 32 * 32 - 15 * 15
    assert mask[16, 20]
    assert mask[20, 16]
    assert not mask[17, 17]
    assert POISSON_2D_LSHAPE.info("small").mask is not None
    assert POISSON_2D.info("small").mask is None


def test_an_odd_number_of_points_is_refused() -> None:
    with pytest.raises(ValueError, match="33 points must be an even number"):
        lshape.solve(np.zeros((1, 33, 33)))
