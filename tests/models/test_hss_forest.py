"""All terms of a layer in each product, for a GPU: the map of `modes`, in as many products as one term has."""

from __future__ import annotations

import pytest
import torch
from pdebench_hss_models.neural_hss import layer
from pdebench_hss_models.neural_hss.apply import forest
from pdebench_hss_models.neural_hss.apply.forest import forest_sum
from pdebench_hss_models.neural_hss.apply.modes import modal_sum
from pdebench_hss_models.neural_hss.layer import HSSMap
from test_hss_ways import SHAPES, batch_last
from torch.utils._python_dispatch import TorchDispatchMode

from pdebench_hss.training import flops


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def value_and_gradients(apply, z, layers, cut, out):
    y = apply(z, [axis.cut(min(cut, axis.levels)) for axis in layers.axes], out)
    return [y, *torch.autograd.grad(y, [z, *layers.parameters()], torch.linspace(-1, 1, y.numel()).double().view_as(y))]


@pytest.mark.parametrize("group", [1, 2, 100])
@pytest.mark.parametrize("layout", [torch.clone, batch_last], ids=["batch_first", "batch_last"])
@pytest.mark.parametrize(("out", "inn", "levels", "terms"), SHAPES)
def test_a_forest_has_the_values_and_gradients_of_its_trees(monkeypatch, out, inn, levels, terms, layout, group):
    monkeypatch.setattr(forest, "GROUP_BYTES", group * forest.largest_field(torch.empty(3, *inn).double(), out))
    layers = HSSMap(out, inn, levels, rank=2, outer_rank=terms).double()
    z = layout(torch.randn(3, *inn, dtype=torch.float64)).requires_grad_()
    for cut in range(levels + 1):
        ours, theirs = (value_and_gradients(apply, z, layers, cut, out) for apply in (forest_sum, modal_sum))
        for a, b in zip(ours, theirs):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-11)


class Products(TorchDispatchMode):
    """How many matrix products are started."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function.overloadpacket.__name__.rstrip("_") in ("mm", "bmm", "addmm", "baddbmm")
        return function(*args, **(kwargs or {}))


def products(apply, terms, grid=(16, 16)):
    layers, z = HSSMap(grid, grid, 2, rank=2, outer_rank=terms), torch.randn(4, *grid)
    with Products() as seen:
        apply(z, [axis.cut(2) for axis in layers.axes], grid).sum().backward()
    return seen.count


def test_a_forest_starts_as_many_products_as_one_tree():
    assert products(forest_sum, 32) == products(forest_sum, 1)
    assert products(modal_sum, 32) > 20 * products(forest_sum, 32)


@pytest.mark.parametrize("cut", [0, 1, 2])
def test_a_forest_costs_the_flops_of_its_trees(cut):
    grid = (16, 20)
    layers, z = HSSMap(grid, grid, 2, rank=2, outer_rank=3), torch.randn(4, *grid)
    counts = [
        flops.count(lambda apply=apply: apply(z, [axis.cut(cut) for axis in layers.axes], grid).sum().backward())
        for apply in (forest_sum, modal_sum)
    ]
    assert counts[0] == counts[1]


def test_a_cpu_goes_term_by_term_and_a_gpu_by_forests(monkeypatch):
    """Results of a CPU stay what they were, bit for bit."""
    taken = []
    monkeypatch.setattr(layer, "forest_sum", lambda *a: taken.append("forest") or forest_sum(*a))
    monkeypatch.setattr(layer, "modal_sum", lambda *a: taken.append("term by term") or modal_sum(*a))
    layers = HSSMap((8,), (8,), 1, rank=1, outer_rank=2)
    layers(torch.randn(2, 8))
    monkeypatch.setattr(layer, "batches_terms", lambda device: device.type == "cpu")  # as if it were a GPU
    layers(torch.randn(2, 8))
    assert taken == ["term by term", "forest"]
    monkeypatch.undo()
    assert layer.batches_terms(torch.device("cuda"))
    assert not layer.batches_terms(torch.device("cpu"))
