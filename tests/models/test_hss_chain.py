"""Maps in 1D as one chain: the values and gradients of the maps one by one, and of autograd on dense matrices."""

from __future__ import annotations

import pytest
import torch
from factories.tasks import make_task
from pdebench_hss_models.neural_hss.apply.chain import chain
from pdebench_hss_models.neural_hss.apply.cost import CPU, Axis, price
from pdebench_hss_models.neural_hss.layer import HSSChain, HSSLayer, forest_map
from pdebench_hss_models.neural_hss.lift import field_map
from pdebench_hss_models.neural_hss.matrix.expand import expand
from pdebench_hss_models.neural_hss.matrix.factors import to_dense
from pdebench_hss_models.neural_hss.matrix.parameters import HSSMatrix
from pdebench_hss_models.neural_hss.model import NeuralHSS
from pdebench_hss_models.neural_hss.triton import layer as triton_layer
from torch import Tensor, nn
from torch.nn import functional as F

from pdebench_hss.training import flops

ACTIVE = [(True,), (False, True, True, False), (True, False, True)]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def make(points: int, active: tuple[bool, ...], way: str = "auto") -> HSSChain:
    made = HSSChain(points, levels=2, rank=2, active=active, way=way).double()
    nn.init.uniform_(made.slopes, -0.5, 0.9)
    return made


def one_by_one(z: Tensor, one: HSSChain) -> Tensor:
    """Dense matrices and torch's own activation, differentiated by autograd."""
    points, slopes = z.shape[1], iter(one.slopes.split(1))
    for matrix, active in zip(to_dense(one.matrices.factors()), one.active):
        z = z @ matrix[:points, :points].T
        z = F.prelu(z, next(slopes)) if active else z
    return z


def gradients(y: Tensor, z: Tensor, one: nn.Module) -> tuple[Tensor, ...]:
    g = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape)
    return torch.autograd.grad(y, [z, *one.parameters()], g, retain_graph=True)


@pytest.mark.parametrize("row_major", [True, False])
@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("points", [16, 13])
@pytest.mark.parametrize("active", ACTIVE)
def test_a_chain_has_the_values_and_gradients_of_its_maps_one_by_one(active, points, batch, row_major) -> None:
    made = make(points, active)
    z = torch.randn(batch, points, dtype=torch.float64)
    z = (z if row_major else z.T.contiguous().T).requires_grad_()
    expected = one_by_one(z, made)
    for cut in range(3):
        y = chain(z, expand(made.matrices.factors(), cut), made.slopes, active)
        torch.testing.assert_close(y, expected, rtol=0, atol=1e-12)
        for a, b in zip(gradients(y, z, made), gradients(expected, z, made)):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


@pytest.mark.parametrize("way", ["tree", "collapsed", "dense"])
def test_gradcheck_of_a_chain(way) -> None:
    made = make(13, ACTIVE[2], way)
    names, values = zip(*made.named_parameters())

    def call(z: Tensor, *parameters: Tensor) -> Tensor:
        return torch.func.functional_call(made, dict(zip(names, parameters)), (z,))

    z = torch.randn(2, 13, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(call, (z, *values), fast_mode=True)


def test_single_precision_is_as_close_as_rounding_allows() -> None:
    made = make(64, ACTIVE[1]).float()
    z = torch.randn(5, 64)
    exact = one_by_one(z.double(), made.double())
    assert (made.float()(z) - exact).norm() < 1e-6 * exact.norm()


def test_an_input_that_needs_no_gradient_gets_none() -> None:
    made, z = make(16, ACTIVE[1]), torch.randn(3, 16, dtype=torch.float64)
    made(z).sum().backward()
    assert z.grad is None
    assert all(p.grad is not None for p in made.parameters())


def test_a_parameter_that_changed_between_the_passes_is_an_error() -> None:
    made = make(16, ACTIVE[1], way="tree")
    y = made(torch.randn(3, 16, dtype=torch.float64)).sum()
    with torch.no_grad():
        made.matrices.D[0].add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_what_a_gpu_does_is_the_same_map(monkeypatch) -> None:
    """The functions that a GPU would call, map after map, with the kernels replaced by their definition."""

    def defined(D, U, C, V, x, bias=None, slope=None, sum_terms=False):  # type: ignore[no-untyped-def]
        whole = torch.block_diag(*D[0]) + torch.block_diag(*U[0]) @ C[0] @ torch.block_diag(*V[0]).T
        y = (x @ whole.T).squeeze(-2)
        return y if slope is None else F.prelu(y, slope)

    made, z = make(13, ACTIVE[1]), torch.randn(3, 13, dtype=torch.float64)
    expected = made(z)
    torch.testing.assert_close(made.one_by_one(z, made.matrices.factors(), forest_map), expected, rtol=0, atol=1e-12)
    made.way = "triton"
    with pytest.raises(RuntimeError, match=r"GPU|not installed"):
        made(z)
    monkeypatch.setattr(triton_layer, "available", lambda device, dtype: None)
    monkeypatch.setattr(triton_layer, "apply_triton", defined)
    torch.testing.assert_close(made(z), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("points", [6, 48])  # torch draws fewer than 16 numbers in another way
def test_terms_that_are_drawn_apart_start_as_matrices_of_their_own_would(points) -> None:
    torch.manual_seed(3)
    alone = [HSSMatrix(points, points - 1, levels=1, rank=2).factors().blocks for _ in range(3)]
    torch.manual_seed(3)
    together = HSSMatrix(points, points - 1, levels=1, rank=2, terms=3, apart=True).factors().blocks
    for block, *parts in zip(together, *alone, strict=True):
        assert torch.equal(block, torch.cat(parts))


@pytest.mark.parametrize("projection", ["none", "hss", "dense"])
@pytest.mark.parametrize("lift", ["none", "hss", "dense"])
def test_the_model_is_lift_layers_and_projection_made_one_by_one(lift, projection) -> None:
    """From the same seed: a chain starts with the very weights that maps of their own would have."""
    tree = {"levels": 2, "rank": 2, "outer_rank": 1, "way": "auto"}
    model = NeuralHSS(make_task(grid=(24,)), **tree, layers=2, lift=lift, projection=projection, init="normal")
    torch.manual_seed(0)
    first = field_map(lift, (1, 1), ((24,), (24,)), cp_rank=1, **tree)
    layers = nn.Sequential(*(HSSLayer((24,), **tree) for _ in range(2)))
    last = field_map(projection, (1, 1), ((24,), (24,)), cp_rank=1, **tree)
    x = torch.randn(3, 1, 24)
    y = model(x)
    assert y.is_contiguous()
    torch.testing.assert_close(y, last(layers(first(x).squeeze(1)).unsqueeze(1)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("cut", [0, 1, 2, 3])
def test_the_cost_model_counts_the_products_of_a_chain(cut) -> None:
    made = HSSChain(64, levels=3, rank=2, active=[False] * 4)
    x = torch.randn(7, 64, requires_grad=True)
    axis = Axis(64, 64, 3, 2, terms=1, rows=7, together=4)
    counted = flops.count(
        lambda: chain(x, expand(made.matrices.factors(), cut), made.slopes, made.active).sum().backward()
    )
    assert counted == 4 * price(axis, cut, CPU).flops
