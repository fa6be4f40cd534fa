"""Maps in 1D as one chain: the values and gradients of the maps one by one, and of autograd on dense matrices."""

from __future__ import annotations

import pytest
import torch
from paper_tasks import make_task
from pdebench_hss_models.neural_hss.apply.chain import Link, chain
from pdebench_hss_models.neural_hss.apply.cost import CPU, Axis, price
from pdebench_hss_models.neural_hss.layer import HSSMap, follow
from pdebench_hss_models.neural_hss.matrix.expand import expand, expand_together
from pdebench_hss_models.neural_hss.matrix.factors import to_dense
from pdebench_hss_models.neural_hss.matrix.parameters import HSSMatrix
from pdebench_hss_models.neural_hss.model import NeuralHSS
from torch import Tensor, nn
from torch.nn import functional as F

from pdebench_hss import flops

# (rows, columns) of each map and whether an activation follows it: neighbours of one kind, padding, other kinds.
CHAINS = [
    [((16, 16), True)],
    [((16, 16), False), ((16, 16), True), ((16, 16), True), ((16, 16), False)],
    [((13, 13), True), ((13, 13), False), ((13, 13), True)],
    [((22, 11), False), ((22, 22), True), ((22, 22), True), ((11, 22), False)],
]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def links_of(sizes: list, cut: int) -> tuple[list[HSSMatrix], list[Tensor | None], list[Link]]:
    matrices = [HSSMatrix(*shape, levels=2, rank=2).double() for shape, _ in sizes]
    slopes = [nn.Parameter(torch.tensor([0.3 - 0.2 * i]).double()) if act else None for i, (_, act) in enumerate(sizes)]
    links = [Link(expand(m.factors(), cut), m.shape[0], slope) for m, slope in zip(matrices, slopes)]
    return matrices, slopes, links


def one_by_one(z: Tensor, matrices: list[HSSMatrix], slopes: list[Tensor | None]) -> Tensor:
    """Dense matrices and torch's own activation, differentiated by autograd."""
    for matrix, slope in zip(matrices, slopes):
        rows, columns = matrix.shape
        z = z @ to_dense(matrix.factors())[0, :rows, :columns].T
        z = z if slope is None else F.prelu(z, slope)
    return z


@pytest.mark.parametrize("row_major", [True, False])
@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("cut", [0, 1, 2])
@pytest.mark.parametrize("sizes", CHAINS)
def test_a_chain_has_the_values_and_gradients_of_its_maps_one_by_one(sizes, cut, batch, row_major) -> None:
    matrices, slopes, links = links_of(sizes, cut)
    z = torch.randn(batch, sizes[0][0][1], dtype=torch.float64)
    z = (z if row_major else z.T.contiguous().T).requires_grad_()
    wanted = [z, *(p for m in matrices for p in m.parameters()), *(s for s in slopes if s is not None)]
    ours, theirs = chain(z, links), one_by_one(z, matrices, slopes)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    g = torch.randn(theirs.shape, dtype=torch.float64)
    for a, b in zip(torch.autograd.grad(ours, wanted, g), torch.autograd.grad(theirs, wanted, g)):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def test_gradcheck_of_a_chain() -> None:
    matrices, slopes, _ = links_of(CHAINS[2], 1)
    parameters = [p for m in matrices for p in m.parameters()]

    def call(z: Tensor, first: Tensor, last: Tensor, *_: Tensor) -> Tensor:
        trees = expand_together([m.factors() for m in matrices], 1)
        return chain(z, [Link(a, 13, slope) for a, slope in zip(trees, (first, None, last))])

    z = torch.randn(2, 13, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(call, (z, slopes[0], slopes[2], *parameters), fast_mode=True)


def test_an_input_that_needs_no_gradient_gets_none() -> None:
    matrices, _, links = links_of(CHAINS[1], 1)
    z = torch.randn(3, 16, dtype=torch.float64)
    chain(z, links).sum().backward()
    assert z.grad is None
    assert all(p.grad is not None for m in matrices for p in m.parameters())


def test_a_parameter_that_changed_between_the_passes_is_an_error() -> None:
    matrices, _, links = links_of(CHAINS[1], 2)
    y = chain(torch.randn(3, 16, dtype=torch.float64), links).sum()
    with torch.no_grad():
        matrices[0].D[0].add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


@pytest.mark.parametrize("cut", [0, 1, 2])
def test_roots_of_several_matrices_are_those_of_each(cut) -> None:
    matrices = [HSSMatrix(14, 10, levels=3, rank=2, terms=2).double() for _ in range(3)]
    blocks = [p for m in matrices for p in m.parameters()]
    together = expand_together([m.factors() for m in matrices], cut)
    alone = [expand(m.factors(), cut) for m in matrices]
    weights = [torch.randn_like(a.D[-1]) for a in alone]

    def gradients(found: list) -> tuple[Tensor | None, ...]:
        total = sum((a.D[-1] * w).sum() for a, w in zip(found, weights))
        return torch.autograd.grad(total, blocks, allow_unused=True)

    for a, b in zip(together, alone):
        torch.testing.assert_close(a.D[-1], b.D[-1], rtol=0, atol=1e-13)
    for a, b in zip(gradients(together), gradients(alone)):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-13)


@pytest.mark.parametrize("projection", ["none", "hss", "dense"])
@pytest.mark.parametrize("lift", ["none", "hss", "dense"])
def test_the_model_is_its_maps_one_by_one(lift, projection) -> None:
    task = make_task(grid=(24,))
    model = NeuralHSS(task, levels=2, rank=2, layers=2, lift=lift, projection=projection).double()
    x, g = torch.randn(2, 3, 1, 24, dtype=torch.float64)
    y = model(x)
    z = model.lift(x).squeeze(1)
    for layer in model.layers:
        z = layer.linear.axis_by_axis(z, layer.slope)
    expected = model.projection(z.unsqueeze(1))
    assert y.is_contiguous()
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-12)
    parameters = list(model.parameters())
    for a, b in zip(torch.autograd.grad(y, parameters, g), torch.autograd.grad(expected, parameters, g)):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def test_maps_of_other_ways_or_several_terms_are_done_one_by_one() -> None:
    maps = [HSSMap((16,), (16,), 2, 2, way="tree"), HSSMap((16,), (16,), 2, 2, outer_rank=2, way="dense")]
    z = torch.randn(3, 16)
    torch.testing.assert_close(follow(z, [(one, None) for one in maps]), maps[1](maps[0](z)))


@pytest.mark.parametrize("cut", [0, 1, 2, 3])
def test_the_cost_model_counts_the_products_of_a_chain(cut) -> None:
    matrices = [HSSMatrix(64, 64, levels=3, rank=2) for _ in range(4)]
    x = torch.randn(7, 64, requires_grad=True)

    def step() -> None:
        trees = expand_together([m.factors() for m in matrices], cut)
        chain(x, [Link(a, 64, None) for a in trees]).sum().backward()

    assert flops.count(step) == 4 * price(Axis(64, 64, 3, 2, terms=1, rows=7, together=4), cut, CPU).flops
