"""All ways to apply an HSS map are one map: same values, same gradients; and the cost model counts what is done."""

from __future__ import annotations

import math

import pytest
import torch
from pdebench_hss_models.neural_hss.apply.activation import leaky_relu
from pdebench_hss_models.neural_hss.apply.cost import CPU, LARGEST_ROOT, Axis, best_cut, price, prices, root_entries
from pdebench_hss_models.neural_hss.apply.modes import modal_sum
from pdebench_hss_models.neural_hss.layer import HSSLayer, HSSMap
from pdebench_hss_models.neural_hss.matrix.expand import collapse, expand
from pdebench_hss_models.neural_hss.matrix.factors import Factors
from pdebench_hss_models.neural_hss.matrix.parameters import HSSMatrix
from pdebench_hss_models.neural_hss.triton import layer as triton_layer
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from pdebench_hss.training import flops

FORCED = ("tree", "collapsed", "dense")


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def written_out(matrix: HSSMatrix, k: int) -> Tensor:
    """Definition 2.1 with block-diagonal matrices of full size, from the root down."""
    a = matrix.D[-1][k, 0]
    for d, u, v in reversed(list(zip(matrix.D, matrix.U, matrix.V))):
        a = torch.block_diag(*d[k]) + torch.block_diag(*u[k]) @ a @ torch.block_diag(*v[k]).T
    return a[: matrix.shape[0], : matrix.shape[1]]


def reference(z: Tensor, layer: HSSMap) -> Tensor:
    """Equation (1) of the paper, term by term and axis by axis."""
    total = 0
    for k in range(layer.axes[0].terms):
        y = z
        for axis, matrix in enumerate(layer.axes, start=1):
            y = torch.tensordot(y, written_out(matrix, k), dims=([axis], [1])).movedim(-1, axis)
        total = total + y
    return total


def batch_last(z: Tensor) -> Tensor:
    """The same field with the batch innermost in memory."""
    return z.movedim(0, -1).contiguous().movedim(-1, 0)


SHAPES = [
    # out, in, levels, terms
    ((16,), (16,), 2, 1),
    ((13,), (11,), 2, 2),  # padded leaves, rectangular
    ((40,), (33,), 3, 1),
    ((6,), (6,), 0, 2),
    ((9, 10), (12, 7), 2, 2),
    ((4, 6, 5), (6, 4, 7), 1, 3),
    ((3, 2, 4, 5), (2, 3, 5, 4), 1, 2),
]


@pytest.mark.parametrize("layout", [torch.clone, batch_last], ids=["batch_first", "batch_last"])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(("out", "inn", "levels", "terms"), SHAPES)
def test_every_cut_has_the_values_and_gradients_of_the_dense_matrices(out, inn, levels, terms, batch, layout) -> None:
    layer = HSSMap(out, inn, levels, rank=2, outer_rank=terms).double()
    z = layout(torch.randn(batch, *inn, dtype=torch.float64)).requires_grad_()
    wanted = [z, *layer.parameters()]
    expected = reference(z, layer)
    g = torch.randn_like(expected)
    expected_gradients = torch.autograd.grad(expected, wanted, g)
    for cut in range(levels + 1):
        y = modal_sum(z, [axis.cut(min(cut, axis.levels)) for axis in layer.axes], out)
        torch.testing.assert_close(y, expected, rtol=0, atol=1e-11)
        for ours, theirs in zip(torch.autograd.grad(y, wanted, g), expected_gradients):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-11)


@pytest.mark.parametrize("way", FORCED)
@pytest.mark.parametrize("grid", [(64,), (24, 20), (8, 9, 10)])
def test_single_precision_is_as_close_to_the_exact_product_as_rounding_allows(grid, way) -> None:
    layer = HSSMap(grid, grid, levels=2, rank=3, outer_rank=2, way=way)
    z = torch.randn(5, *grid)
    y = layer(z)
    exact = reference(z.double(), layer.double())
    assert (y - exact).norm() < 1e-6 * exact.norm()


@pytest.mark.parametrize("way", FORCED)
@pytest.mark.parametrize("grid", [(10,), (6, 5), (4, 3, 4)])
def test_gradcheck_of_the_whole_layer(grid, way) -> None:
    layer = HSSLayer(grid, levels=1, rank=1, outer_rank=2, way=way).double()
    names, values = zip(*layer.named_parameters())
    z = torch.randn(2, *grid, dtype=torch.float64, requires_grad=True)

    def call(z: Tensor, *parameters: Tensor) -> Tensor:
        return torch.func.functional_call(layer, dict(zip(names, parameters)), (z,))

    assert torch.autograd.gradcheck(call, (z, *values), fast_mode=math.prod(grid) > 40)


@pytest.mark.parametrize("cut", [0, 1, 2, 3])
def test_gradcheck_of_the_dense_root_by_itself(cut) -> None:
    matrix = HSSMatrix(12, 10, levels=3, rank=1, terms=2).double()

    def root(*blocks: Tensor) -> tuple[Tensor, ...]:
        return expand(Factors.of(blocks), cut).blocks

    assert torch.autograd.gradcheck(root, matrix.factors().blocks, fast_mode=True)


def test_collapse_is_leaves_and_one_coupling() -> None:
    matrix = HSSMatrix(24, 16, levels=2, rank=2, terms=3).double()
    d, u, c, v = collapse(matrix.factors())
    assert (d.shape, u.shape, c.shape, v.shape) == ((3, 4, 6, 4), (3, 4, 6, 2), (3, 8, 8), (3, 4, 4, 2))
    for k in range(3):
        whole = torch.block_diag(*d[k]) + torch.block_diag(*u[k]) @ c[k] @ torch.block_diag(*v[k]).T
        torch.testing.assert_close(whole, written_out(matrix, k), rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="0 levels"):
        collapse(HSSMatrix(8, 8, levels=0, rank=1).factors())


@pytest.mark.parametrize("slope", [0.3, 1.0, 0.0, -0.5])
def test_activation_has_torchs_values_and_gradients(slope) -> None:
    x = batch_last(torch.randn(3, 4, 5, dtype=torch.float64)).requires_grad_()
    alpha = torch.tensor([slope], dtype=torch.float64, requires_grad=True)
    g = torch.randn(3, 4, 5, dtype=torch.float64)
    theirs = torch.nn.functional.prelu(x, alpha)
    ours = leaky_relu(x, alpha)
    torch.testing.assert_close(ours, theirs)
    for a, b in zip(torch.autograd.grad(ours, [x, alpha], g), torch.autograd.grad(theirs, [x, alpha], g)):
        torch.testing.assert_close(a, b)


class Copies(TorchDispatchMode):
    """Sizes of what is copied."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = function(*args, **(kwargs or {}))
        if function.overloadpacket in (torch.ops.aten.clone, torch.ops.aten.copy_, torch.ops.aten._to_copy):
            self.sizes.append(result.numel())
        return result


@pytest.mark.parametrize(
    ("grid", "batch", "way"),
    [((32, 32), 8, "dense"), ((16, 16, 16), 4, "dense"), ((64,), 400, "tree"), ((64,), 400, "dense")],
)
def test_no_field_is_copied(grid, batch, way) -> None:
    layers = torch.nn.Sequential(*(HSSLayer(grid, levels=2, rank=2, outer_rank=2, way=way) for _ in range(2)))
    z = torch.randn(batch, *grid, requires_grad=True)
    with Copies() as seen:
        y = layers(z)
        torch.autograd.grad(y, [z, *layers.parameters()], torch.ones_like(y))
    assert max(seen.sizes, default=0) < z.numel() / 2


def count_flops(layer: HSSMap, cut: int, rows: int) -> float:
    x = torch.randn(rows, layer.axes[0].shape[1], requires_grad=True)
    return flops.count(lambda: modal_sum(x, [layer.axes[0].cut(cut)], (layer.axes[0].shape[0],)).sum().backward())


@pytest.mark.parametrize(
    ("out", "inn", "levels", "rank", "terms"), [(64, 64, 3, 2, 1), (32, 64, 2, 4, 3), (16, 16, 1, 2, 2)]
)
def test_the_cost_model_counts_the_products_that_are_done(out, inn, levels, rank, terms) -> None:
    layer = HSSMap((out,), (inn,), levels, rank, outer_rank=terms)
    axis = Axis(out, inn, levels, rank, terms, rows=7)
    for cut in range(levels + 1):
        assert price(axis, cut, CPU).flops == count_flops(layer, cut, rows=7)


def test_small_matrices_with_many_rows_are_dense_and_large_ones_are_not() -> None:
    assert best_cut(Axis(64, 64, 2, 2, terms=1, rows=8192), CPU) == 0
    assert best_cut(Axis(4096, 4096, 6, 8, terms=1, rows=256), CPU) > 0
    assert best_cut(Axis(16384, 16384, 8, 8, terms=1, rows=1), CPU) > 1


def test_auto_builds_no_root_larger_than_the_limit() -> None:
    huge = Axis(2**20, 2**20, 14, 8, terms=1, rows=2**14)
    assert all(4 * root_entries(huge, p.cut) <= LARGEST_ROOT or p.cut == 14 for p in prices(huge, CPU))


def test_auto_changes_nothing_but_the_way() -> None:
    forced = {way: HSSMap((32, 32), (32, 32), levels=2, rank=2, outer_rank=2, way=way) for way in ("auto", *FORCED)}
    for layer in forced.values():
        layer.load_state_dict(forced["auto"].state_dict())
    for batch in (1, 50):
        z = torch.randn(batch, 32, 32)
        for way in FORCED:
            torch.testing.assert_close(forced[way](z), forced["auto"](z), rtol=1e-4, atol=1e-5)


def test_triton_forced_where_it_can_not_run_says_why(monkeypatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    layer = HSSMap((16,), (16,), levels=2, rank=2, way="triton")
    with pytest.raises(RuntimeError, match=r"GPU|not installed"):
        layer(torch.randn(2, 16))
    monkeypatch.setattr(triton_layer, "available", lambda device, dtype: None)
    with pytest.raises(RuntimeError, match="at least one level"):
        HSSMap((16,), (16,), levels=0, rank=2, way="triton")(torch.randn(2, 16))


@pytest.mark.parametrize(("out", "inn", "terms"), [((13,), (11,), 2), ((9, 10), (12, 7), 3), ((4, 6, 5), (6, 4, 7), 2)])
def test_the_road_to_the_kernels_is_the_same_map(monkeypatch, out, inn, terms) -> None:
    """With the kernels replaced by their definition: shapes, padding, order of axes, sum over terms and activation."""

    def defined(D, U, C, V, x, bias=None, slope=None, sum_terms=False):  # type: ignore[no-untyped-def]
        whole = [
            torch.block_diag(*D[k]) + torch.block_diag(*U[k]) @ C[k] @ torch.block_diag(*V[k]).T for k in range(len(D))
        ]
        y = torch.einsum("kij,...kj->...ki", torch.stack(whole), x.expand(*x.shape[:-2], len(D), -1))
        y = y.sum(-2) if sum_terms else y
        return y if slope is None else torch.nn.functional.prelu(y, slope)

    monkeypatch.setattr(triton_layer, "available", lambda device, dtype: None)
    monkeypatch.setattr(triton_layer, "apply_triton", defined)
    layer = HSSMap(out, inn, levels=1, rank=2, outer_rank=terms, way="triton").double()
    z, slope = torch.randn(3, *inn, dtype=torch.float64), torch.tensor([0.3], dtype=torch.float64)
    expected = torch.nn.functional.leaky_relu(reference(z, layer), 0.3)
    torch.testing.assert_close(layer(z, slope), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("points", "copied"), [(16, False), (15, True)])
def test_the_road_to_the_kernels_copies_a_field_only_where_leaves_are_padded(monkeypatch, points, copied) -> None:
    seen = []

    def taken(D, U, C, V, x, bias=None, slope=None, sum_terms=False):  # type: ignore[no-untyped-def]
        seen.append(x)
        return x.sum(-2) if sum_terms else x

    monkeypatch.setattr(triton_layer, "available", lambda device, dtype: None)
    monkeypatch.setattr(triton_layer, "apply_triton", taken)
    z = torch.randn(3, 16, points)
    HSSMap((16, points), (16, points), levels=2, rank=2, way="triton")(z)
    assert (seen[0].untyped_storage().data_ptr() != z.untyped_storage().data_ptr()) == copied
