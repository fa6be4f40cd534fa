"""HSS algebra against dense linear algebra, and what the theory says of elliptic equations."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from pdebench_hss_models.neural_hss.matrix.algebra import (
    Factors,
    add,
    from_dense,
    inverse,
    multiply,
    to_dense,
    transpose,
)
from pdebench_hss_models.neural_hss.matrix.parameters import HSSMatrix
from torch import Tensor, nn
from torch.nn import functional as F


def random_hss(points: int, levels: int, rank: int) -> Factors:
    """Far from low rank and well conditioned: factors of norm about one, around twice the identity."""
    matrix = HSSMatrix(points, points, levels, rank).double()
    d, u, v = ([2 * b.detach()[0] for b in blocks] for blocks in (matrix.D, matrix.U, matrix.V))
    d[0] = 0.3 * d[0] + 2 * torch.eye(d[0].shape[-1], dtype=torch.float64)
    return Factors(tuple(d), tuple(u), tuple(v))


def poisson_matrix(points: int) -> Tensor:
    """-u'' by second differences with u = 0 outside, times h^2."""
    off = torch.ones(points - 1, dtype=torch.float64)
    return 2 * torch.eye(points, dtype=torch.float64) - torch.diag(off, 1) - torch.diag(off, -1)


def relative(a: Tensor, b: Tensor) -> float:
    return (torch.linalg.matrix_norm(a - b) / torch.linalg.matrix_norm(b)).item()


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("levels", [0, 1, 2, 3])
class TestExactOperations:
    def test_transpose(self, levels: int) -> None:
        a = random_hss(48, levels, 2)
        torch.testing.assert_close(to_dense(transpose(a)), to_dense(a).T, rtol=0, atol=1e-13)

    def test_sum_adds_ranks(self, levels: int) -> None:
        a, b = random_hss(48, levels, 2), random_hss(48, levels, 3)
        total = add(a, b)
        assert relative(to_dense(total), to_dense(a) + to_dense(b)) < 1e-14
        assert total.rank == (5 if levels else 0)

    def test_product_adds_ranks(self, levels: int) -> None:
        a, b = random_hss(48, levels, 2), random_hss(48, levels, 3)
        product = multiply(a, b)
        assert relative(to_dense(product), to_dense(a) @ to_dense(b)) < 1e-13
        assert product.rank == (5 if levels else 0)

    def test_inverse_keeps_the_rank(self, levels: int) -> None:
        a = random_hss(48, levels, 2)
        assert relative(to_dense(inverse(a)), torch.linalg.inv(to_dense(a))) < 1e-12
        assert inverse(a).rank == a.rank

    def test_compression_finds_the_rank_again(self, levels: int) -> None:
        dense = to_dense(random_hss(48, levels, 2))
        by_tolerance = from_dense(dense, levels, tolerance=1e-10)
        assert by_tolerance.rank == (2 if levels else 0)
        assert relative(to_dense(by_tolerance), dense) < 1e-13
        assert relative(to_dense(from_dense(dense, levels, rank=2)), dense) < 1e-13


def test_mixed_expression_of_compressed_matrices() -> None:
    a, b = random_hss(64, 3, 2), random_hss(64, 3, 1)
    expression = multiply(inverse(add(a, b)), transpose(a))
    expected = torch.linalg.inv(to_dense(a) + to_dense(b)) @ to_dense(a).T
    assert relative(to_dense(expression), expected) < 1e-12


def test_compressed_bases_larger_than_a_leaf_are_harmless() -> None:
    dense = torch.randn(16, 16, dtype=torch.float64)
    assert relative(to_dense(from_dense(dense, levels=3, rank=8)), dense) < 1e-13


@pytest.mark.parametrize("points", [64, 256])
def test_inverse_of_the_poisson_matrix_is_hss_of_rank_two_and_exact(points: int) -> None:
    poisson = poisson_matrix(points)
    green = torch.linalg.inv(poisson)
    assert from_dense(green, 3, tolerance=1e-12).rank == 2
    assert relative(to_dense(from_dense(green, 3, rank=2)), green) < 1e-14
    assert relative(to_dense(from_dense(green, 3, rank=1)), green) > 0.05  # rank one is not enough
    # The structured inverse never sees the dense one; what remains is rounding times the condition number.
    structured = to_dense(inverse(from_dense(poisson, 3, rank=2)))
    assert relative(structured, green) < 1e-15 * torch.linalg.cond(poisson).item()


@pytest.mark.parametrize("kernel", ["log", "inverse_distance", "gaussian_tail"])
def test_asymptotically_smooth_kernels_compress_exponentially_in_the_rank(kernel: str) -> None:
    x = torch.arange(256, dtype=torch.float64) / 256
    distance = (x[:, None] - x[None]).abs() + torch.eye(256, dtype=torch.float64)  # the diagonal is stored anyway
    matrix = {
        "log": distance.log(),
        "inverse_distance": 1 / distance,
        "gaussian_tail": torch.exp(-8 * distance**2) * distance,
    }[kernel]
    errors = [relative(to_dense(from_dense(matrix, 3, rank=r)), matrix) for r in range(1, 14, 2)]
    rates = [math.log10(b / a) / 2 for a, b in pairwise(errors)]
    assert all(rate < -0.2 for rate in rates)  # each further rank takes off at least a factor 1.58
    assert errors[-1] < 1e-5


def test_rough_kernels_do_not_compress() -> None:
    matrix = torch.randn(128, 128, dtype=torch.float64)
    assert relative(to_dense(from_dense(matrix, 3, rank=4)), matrix) > 0.5


class PlainLayer(nn.Module):
    """The layer written with torch's own operations, which `jacrev` can differentiate row by row."""

    def __init__(self, points: int) -> None:
        super().__init__()
        self.matrix = HSSMatrix(points, points, levels=2, rank=1)
        self.slope = nn.Parameter(torch.full((1,), 0.9))

    def forward(self, x: Tensor) -> Tensor:
        return F.prelu(self.matrix(x.unsqueeze(-2)).squeeze(-2), self.slope)


def recover(layers: int, samples: int, points: int = 16) -> tuple[float, float, list[float]]:
    """Train a stack on Gaussian data of a random rank-1 HSS operator with the loss of Theorem 2.3.

    Levenberg-Marquardt, because it ends at a minimiser and not near one. Returns the residual norm, the relative
    error on unseen samples, and the slopes, which start below 1.
    """
    operator = to_dense(random_hss(points, levels=2, rank=1))
    operator = operator / torch.linalg.matrix_norm(operator, 2)
    stack = nn.Sequential(*(PlainLayer(points) for _ in range(layers))).double()
    x, unseen = torch.randn(samples, points).double(), torch.randn(100, points).double()
    names, start = zip(*stack.named_parameters())

    def unpack(theta: Tensor) -> dict[str, Tensor]:
        return {n: t.view_as(p) for n, t, p in zip(names, theta.split([p.numel() for p in start]), start)}

    def residual(theta: Tensor) -> Tensor:
        parameters = unpack(theta)
        misfit = torch.func.functional_call(stack, parameters, (x,)) - x @ operator.T
        slopes = torch.cat([parameters[n] - 1 for n in names if n.endswith("slope")])
        return torch.cat([misfit.flatten(), 0.1 * slopes])

    theta = levenberg_marquardt(residual, torch.cat([p.detach().flatten() for p in start]))
    prediction = torch.func.functional_call(stack, unpack(theta), (unseen,)).detach()
    slopes = [unpack(theta)[n].item() for n in names if n.endswith("slope")]
    return residual(theta).norm().item(), relative(prediction, unseen @ operator.T), slopes


def levenberg_marquardt(residual, theta: Tensor, steps: int = 60) -> Tensor:
    jacobian, damping, error = torch.func.jacrev(residual), 1e-2, residual(theta)
    for _ in range(steps):
        j = jacobian(theta)
        gradient, hessian, identity = j.T @ error, j.T @ j, torch.eye(len(theta), dtype=theta.dtype)
        while damping < 1e8:
            candidate = theta - torch.linalg.solve(hessian + damping * identity, gradient)
            after = residual(candidate)
            if after.norm() < error.norm():
                theta, error, damping = candidate, after, max(damping / 3, 1e-13)
                break
            damping *= 4
        if error.norm() < 1e-11 or damping >= 1e8:
            break
    return theta


@pytest.mark.parametrize(("layers", "samples"), [(1, 14), (2, 24)])
def test_a_stack_trained_on_gaussian_data_recovers_an_hss_operator(layers: int, samples: int) -> None:
    """The theorem speaks of global minimisers: of three starts, the one that ends lowest."""
    loss, error, slopes = min(recover(layers, samples) for _ in range(3))
    assert loss < 1e-9
    assert error < 1e-8
    assert slopes == pytest.approx([1.0] * layers, abs=1e-8)


def test_too_few_samples_fit_perfectly_and_recover_nothing() -> None:
    """The theorem needs N >= C sum r_i: with six samples of 16 points the minimiser is not unique."""
    loss, error, _ = min(recover(layers=1, samples=6) for _ in range(3))
    assert loss < 1e-9
    assert error > 0.1


def test_mistakes_are_named() -> None:
    square = torch.eye(16, dtype=torch.float64)
    with pytest.raises(ValueError, match="either rank or tolerance"):
        from_dense(square, 2)
    with pytest.raises(ValueError, match="square matrix"):
        from_dense(square[:8], 2, rank=1)
    with pytest.raises(ValueError, match="18 points can't be shared evenly by 4 leaves"):
        from_dense(torch.eye(18, dtype=torch.float64), 2, rank=1)
    with pytest.raises(ValueError, match="don't share a tree"):
        multiply(from_dense(square, 2, rank=1), from_dense(square, 1, rank=1))
