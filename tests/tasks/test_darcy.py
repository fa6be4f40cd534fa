"""darcy_2d: finite volumes against a sparse solve, an exact solution, and the moments of the published data."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from pdebench_hss_tasks.darcy import DARCY_2D, flow
from pdebench_hss_tasks.darcy.permeability import MODES, gaussian_field, permeability

SMOKE, SMALL, PAPER = (DARCY_2D.scales[name] for name in ("smoke", "small", "paper"))
both_kinds = pytest.mark.parametrize("lognormal", [False, True])


def relative(found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))


def assembled(a: np.ndarray) -> scipy.sparse.csc_array:
    """The finite volumes of the docstring, cell by cell."""
    n = len(a)
    rows, columns, values = [], [], []
    for i in range(n):
        for j in range(n):
            for k, m in ((i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)):
                inside = 0 <= k < n and 0 <= m < n
                t = 2 / (1 / a[i, j] + 1 / a[k, m]) if inside else 2 * a[i, j]
                rows.append(i * n + j), columns.append(i * n + j), values.append(t)
                if inside:
                    rows.append(i * n + j), columns.append(k * n + m), values.append(-t)
    return scipy.sparse.csc_array((values, (rows, columns)), shape=(n * n, n * n))


@both_kinds
def test_the_solution_is_that_of_the_assembled_system(lognormal):
    a = permeability([3], 24, lognormal)[0]
    direct = scipy.sparse.linalg.spsolve(assembled(a), np.full(a.size, 1 / a.size)).reshape(a.shape)
    assert relative(flow.solve(a), direct) < 1e-11


def test_a_constant_permeability_is_poissons_equation():
    """u = sum over odd k, m of 16 sin(k pi x) sin(m pi y) / (pi^4 k m (k^2 + m^2)), divided by a."""
    errors = []
    for n in (32, 64):  # 5.6e-4 at 64, 1.4e-4 at 128
        x = (np.arange(n) + 0.5) / n
        k = np.arange(1, 400, 2)
        sines = np.sin(np.pi * np.outer(x, k)) / k
        series = 16 / np.pi**4 * sines @ (1 / (k[:, None] ** 2 + k**2)) @ sines.T
        errors.append(relative(flow.solve(np.full((n, n), 5.0)), series / 5))
    assert errors[1] < 6e-4
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.1)


def test_layers_have_the_flux_of_resistances_in_series():
    """a depends on x alone, in the middle of a long strip: u obeys (a u')' = -1, solved by hand. Harmonic means are
    exact for a that jumps between cells; arithmetic ones would not be."""
    a = np.array([3.0, 12.0, 12.0, 3.0])
    size, wide = 4, 4096
    faces = flow.transmissibilities(np.repeat(a[:, None], 1, axis=1))[:, 0] * size
    matrix = np.diag(faces[:-1] + faces[1:]) - np.diag(faces[1:-1], 1) - np.diag(faces[1:-1], -1)
    found = np.linalg.solve(matrix, np.full(size, 1 / size))
    fine = np.repeat(a, wide // size)
    s = (np.arange(wide) + 0.5) / wide
    resistance = np.concatenate([[0], np.cumsum(1 / fine)]) / wide  # from 0 to each face
    moment = np.concatenate([[0], np.cumsum(s / fine)]) / wide
    flux = moment[-1] / resistance[-1]  # a u' = flux - x, and u(1) = 0
    exact = flux * resistance - moment
    centres = exact[wide // 8 :: wide // 4]
    assert found == pytest.approx(centres + 1 / (8 * size**2 * a), rel=1e-3)  # the source within a cell


@both_kinds
def test_refinement_converges_to_a_fine_reference(lognormal):
    a = permeability([0, 1], 16, lognormal)
    fine = flow.pressure(a, 16)
    errors = [relative(flow.pressure(a, refine), fine) for refine in (1, 2, 4)]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.01


def test_moments_are_those_of_the_published_data():
    """1,024 samples on 241^2 points: a has mean 7.48360 and deviation 4.49996, u 5.74634e-3 and 3.88433e-3: the
    scales for the file piececonst_r241_N1024_smooth1 in the Darcy example of NVIDIA's PhysicsNeMo."""
    a = permeability(range(200), 64, lognormal=False)
    u = flow.pressure(a, 1)
    of_means = u.mean(axis=(1, 2)).std() / np.sqrt(len(u))
    assert set(np.unique(a)) == {3.0, 12.0}
    assert a.mean() == pytest.approx(7.48360, abs=4 * a.mean(axis=(1, 2)).std() / np.sqrt(len(a)))
    assert a.std() == pytest.approx(4.49996, abs=0.01)
    assert u.mean() == pytest.approx(5.74634e-3, abs=4 * of_means)
    assert u.std() == pytest.approx(3.88433e-3, rel=0.04)


def test_the_field_has_the_covariance_of_its_formula():
    """Variance at a point, averaged over the square: the sum of squares of the deviations; and at resolution 2n the
    field of a seed is that at n but for the modes in between."""
    k = np.arange(64)
    squares = (3 / (np.pi**2 * (k[:, None] ** 2 + k**2) + 9)) ** 2
    field = gaussian_field(range(400), 64)
    per_sample = (field**2).mean(axis=(1, 2))
    assert per_sample.mean() == pytest.approx(squares.sum() - squares[0, 0], abs=4 * per_sample.std() / 20)
    assert np.abs(field.mean(axis=(1, 2))).max() < 1e-12
    finer = flow.cell_means(gaussian_field(range(3), 2 * 64), 2)
    assert relative(finer, field[:3]) < 0.05
    assert MODES == 128


@both_kinds
def test_a_sample_depends_on_its_seed_alone(lognormal):
    together = flow.generate([5, 9, 2**63 + 1], SMOKE, lognormal)
    for fields, alone in zip(together, flow.generate([9], SMOKE, lognormal)):
        np.testing.assert_array_equal(fields[1:2], alone)


def test_the_coarse_solver_starts_at_the_data_and_gets_worse_level_by_level():
    a, u = flow.generate(range(4), SMALL, lognormal=False)
    errors = [relative(flow.coarse(a, level, SMALL, lognormal=False), u) for level in range(4)]
    assert errors[0] == 0
    assert 1e-4 < errors[1] < errors[2] < errors[3] < 0.2


def test_pressure_is_positive_and_largest_inside():
    _, u = flow.generate(range(4), SMALL, lognormal=True)
    assert u.min() > 0
    edge = np.concatenate([u[:, 0, 0], u[:, 0, -1], u[:, 0, :, 0], u[:, 0, :, -1]], axis=1)
    assert (edge.max(axis=1) < u.max(axis=(1, 2, 3)) / 2).all()


def test_data_have_not_changed():
    a, u = flow.generate(range(100, 104), SMOKE, lognormal=False)
    assert [a.mean(), u.mean(), u.std()] == pytest.approx(RECORDED_MOMENTS, rel=1e-9)


RECORDED_MOMENTS = [7.0078125, 0.00632248486037696, 0.003983811061904541]
