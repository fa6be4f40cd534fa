"""HSS layers: the paper's Algorithm 1, Definition 2.1's storage and equation (1), against plain loops."""

from __future__ import annotations

import pytest
import torch
from pdebench_hss_models.neural_hss.layer import HSSLayer, HSSMap
from pdebench_hss_models.neural_hss.matrix.factors import Factors, to_dense
from pdebench_hss_models.neural_hss.matrix.parameters import HSSMatrix
from pdebench_hss_models.neural_hss.matrix.sweep import apply_tree
from pdebench_hss_models.neural_hss.matrix.tree import count_parameters, levels_for
from torch import Tensor


def algorithm_1(x: Tensor, factors: Factors, term: int, level: int = 0) -> Tensor:
    """The paper's forward pass as it is printed: block by block, recursive."""
    if level == factors.levels:
        return factors.D[level][term, 0] @ x  # the root
    d, u, v = factors.D[level][term], factors.U[level][term], factors.V[level][term]
    blocks = x.chunk(len(d))
    z = torch.cat([v[i].T @ block for i, block in enumerate(blocks)])
    y = algorithm_1(z, factors, term, level + 1).chunk(len(d))
    return torch.cat([u[i] @ y[i] + d[i] @ block for i, block in enumerate(blocks)])


def definition_2_1(factors: Factors, term: int) -> Tensor:
    """A = D + U A' V^T with block-diagonal D, U, V, from the root down."""
    a = factors.D[-1][term, 0]
    for d, u, v in reversed(list(zip(factors.D, factors.U, factors.V))):
        a = torch.block_diag(*d[term]) + torch.block_diag(*u[term]) @ a @ torch.block_diag(*v[term]).T
    return a


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize(("points", "levels", "rank"), [(16, 0, 2), (16, 1, 3), (24, 2, 2), (64, 3, 2), (32, 4, 1)])
def test_forward_is_algorithm_1_and_the_dense_matrix(points: int, levels: int, rank: int) -> None:
    matrix = HSSMatrix(points, points, levels, rank, terms=2).double()
    x = torch.randn(3, 2, points, dtype=torch.float64)
    y, dense = matrix(x), matrix.dense()
    for term in range(2):
        torch.testing.assert_close(dense[term], definition_2_1(matrix.factors(), term), rtol=0, atol=1e-12)
        for sample in range(3):
            expected = algorithm_1(x[sample, term], matrix.factors(), term)
            torch.testing.assert_close(y[sample, term], expected, rtol=0, atol=1e-12)
            torch.testing.assert_close(y[sample, term], dense[term] @ x[sample, term], rtol=0, atol=1e-12)


@pytest.mark.parametrize(("out", "inn", "levels"), [(13, 13, 2), (13, 9, 2), (7, 16, 1), (31, 40, 3)])
def test_points_that_leaves_cannot_share_are_padded_inside(out: int, inn: int, levels: int) -> None:
    matrix = HSSMatrix(out, inn, levels, rank=2).double()
    x = torch.randn(4, 1, inn, dtype=torch.float64)
    assert matrix.dense().shape == (1, out, inn)
    torch.testing.assert_close(matrix(x), x @ matrix.dense().mT, rtol=0, atol=1e-12)


def test_a_term_axis_of_one_is_shared_by_all_terms() -> None:
    matrix = HSSMatrix(16, 16, levels=2, rank=2, terms=3).double()
    x = torch.randn(5, 1, 16, dtype=torch.float64)
    torch.testing.assert_close(matrix(x), matrix(x.expand(5, 3, 16)), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("points", "levels", "rank", "count"),
    [(256, 3, 2, 9_424), (1024, 3, 32, 249_856), (64, 2, 2, 1_360), (128, 2, 8, 7_424), (128, 2, 4, 5_440)],
)
def test_parameter_counts_of_definition_2_1(points: int, levels: int, rank: int, count: int) -> None:
    with torch.device("meta"):
        matrix = HSSMatrix(points, points, levels, rank)
    assert sum(p.numel() for p in matrix.parameters()) == count
    assert count_parameters(points, levels, rank) == count
    assert matrix.factors().count == count


@pytest.mark.parametrize(("out", "inn", "levels", "rank"), [(9, 9, 1, 2), (30, 20, 3, 1), (17, 5, 0, 4)])
def test_count_formula_of_padded_and_rectangular_matrices(out: int, inn: int, levels: int, rank: int) -> None:
    matrix = HSSMatrix(out, inn, levels, rank)
    assert sum(p.numel() for p in matrix.parameters()) == count_parameters(out, levels, rank, in_points=inn)


@pytest.mark.parametrize("way", ["tree", "dense"])
@pytest.mark.parametrize(
    ("out", "inn"),
    [((12,), (12,)), ((9,), (14,)), ((8, 12), (10, 6)), ((4, 6, 5), (6, 4, 7)), ((2, 3, 4, 5), (3, 2, 5, 4))],
)
def test_m_dimensional_map_is_the_sum_of_modal_products(out: tuple, inn: tuple, way: str) -> None:
    layer = HSSMap(out, inn, levels=2, rank=2, outer_rank=3, way=way).double()
    z = torch.randn(2, *inn, dtype=torch.float64)
    expected = torch.zeros(2, *out, dtype=torch.float64)
    for k in range(3):
        term = z
        for axis, weight in enumerate(layer.axes, start=1):
            term = torch.tensordot(term, weight.dense()[k], dims=([axis], [1])).movedim(-1, axis)
        expected += term
    torch.testing.assert_close(layer(z), expected, rtol=0, atol=1e-11)


def test_auto_picks_one_of_the_ways_and_changes_nothing_else() -> None:
    layers = {
        way: HSSMap((32, 32), (32, 32), levels=2, rank=2, outer_rank=2, way=way) for way in ("auto", "tree", "dense")
    }
    for layer in layers.values():
        layer.load_state_dict(layers["auto"].state_dict())
    for batch in (1, 200):
        z = torch.randn(batch, 32, 32)
        result = layers["auto"](z)
        assert torch.equal(result, layers["tree"](z)) or torch.equal(result, layers["dense"](z))


def test_slope_acts_on_negative_values_only_and_one_is_linear() -> None:
    layer = HSSLayer((16,), levels=2, rank=2).double()
    z = torch.randn(4, 16, dtype=torch.float64)
    linear = layer.linear(z)
    with torch.no_grad():
        layer.slope.fill_(0.3)
        torch.testing.assert_close(layer(z), torch.where(linear > 0, linear, 0.3 * linear))
        layer.slope.fill_(1.0)
        torch.testing.assert_close(layer(z), linear)


def test_bad_trees_are_refused_with_the_limit() -> None:
    with pytest.raises(ValueError, match=r"levels=5 is outside 0\.\.4"):
        HSSMatrix(16, 16, levels=5, rank=1)
    with pytest.raises(ValueError, match="rank=0 must be at least 1"):
        HSSMatrix(16, 16, levels=1, rank=0)
    with pytest.raises(ValueError, match="way 'fast' is not one of"):
        HSSMap((16,), (16,), levels=1, rank=1, way="fast")


@pytest.mark.parametrize(
    ("points", "leaf", "levels"), [(256, 32, 3), (64, 16, 2), (250, 32, 3), (200, 32, 2), (5, 32, 1), (2, 8, 1)]
)
def test_levels_for_a_leaf_size(points: int, leaf: int, levels: int) -> None:
    assert levels_for(points, leaf) == levels


def test_stacked_factors_without_a_term_axis_work_too() -> None:
    matrix = HSSMatrix(16, 16, levels=2, rank=2).double()
    single = Factors(*(tuple(b[0] for b in blocks) for blocks in (matrix.D, matrix.U, matrix.V)))
    x = torch.randn(3, 16, dtype=torch.float64)
    torch.testing.assert_close(apply_tree(single, x), x @ to_dense(single).T, rtol=0, atol=1e-12)
