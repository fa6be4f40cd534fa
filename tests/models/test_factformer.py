"""FactFormer: attention against the published order of operations, the count's formula, the contract of a model."""

from __future__ import annotations

import pytest
import torch
from factories.tasks import make_task, numel
from pdebench_hss_models.factformer import FACTFORMER
from pdebench_hss_models.factformer.attention import AxisKernel, FactorizedAttention

from pdebench_hss import TaskInfo


def build(task: TaskInfo, **changes):
    return FACTFORMER.make(task, {**FACTFORMER.hparams_for(task), **changes})


def formula(c_in, c_out, d, depth, heads, head_dim, kernel_multiplier) -> float:
    h = heads * head_dim
    k = h * kernel_multiplier
    layer = 11 * d**2 + 13 * d + 2 * d * h + 4 * d * k
    return (c_in + 1) * d + depth * layer + 15.5 * d**2 + 6.5 * d + (d + 1) * c_out


@pytest.mark.parametrize(
    ("name", "grid", "expected"),
    [
        ("poisson_2d", (64, 64), 3_934_657),  # paper: 3.9M everywhere
        ("helmholtz_2d", (64, 64), 3_934_657),
        ("navier_stokes_forward", (128, 128), 3_934_657),
        ("gray_scott_inverse", (128, 128), 3_936_194),
    ],
)
def test_parameter_counts_at_scale_paper(name, grid, expected):
    task = make_task(name, grid, "paper")
    with torch.device("meta"):
        model = build(task)
    assert numel(model) == expected == formula(task.in_channels, task.out_channels, 384, 1, 1, 8, 1)


@pytest.mark.parametrize(("d", "depth", "heads", "head_dim", "multiplier"), [(16, 2, 3, 4, 2), (40, 3, 2, 6, 1)])
def test_the_count_follows_its_formula_for_other_sizes(d, depth, heads, head_dim, multiplier):
    sizes = {"depth": depth, "heads": heads, "head_dim": head_dim, "kernel_multiplier": multiplier}
    model = build(make_task(grid=(8, 12), channels=(3, 2)), width=d, **sizes)
    assert numel(model) == formula(3, 2, d, depth, heads, head_dim, multiplier)


def test_attention_equals_the_published_order_of_operations():
    """Linear maps before the average, kernels applied point by point, head by head."""
    torch.manual_seed(0)
    n_x, n_y, heads, head_dim = 5, 7, 2, 4
    attention = FactorizedAttention(torch.linspace(0, 1, n_x), torch.linspace(0, 1, n_y), 12, heads, head_dim, 6)
    u = torch.randn(3, n_x, n_y, 12)
    normed = attention.norm(u)
    inner = attention.pooled_in(normed)
    kernels = []
    for axis, kernel in ((2, attention.kernel_x), (1, attention.kernel_y)):
        pooled = kernel.inner(inner).mean(dim=axis)
        gate, value = kernel.gated(kernel.norm(pooled)).chunk(2, dim=-1)
        features = kernel.mix(torch.nn.functional.gelu(gate) * value)
        q, k = (kernel._turned(f(features)) for f in (kernel.queries, kernel.keys))
        kernels.append(torch.einsum("bhid,bhjd->bhij", q, k))
    v = attention.values(normed)
    z = torch.zeros_like(v)
    for h in range(heads):
        for c in range(h * head_dim, (h + 1) * head_dim):
            z[..., c] = kernels[0][:, h] @ v[..., c] @ kernels[1][:, h].transpose(1, 2)
    z = torch.nn.functional.group_norm(z.permute(0, 3, 1, 2), heads).permute(0, 2, 3, 1)
    assert torch.allclose(attention(u), attention.out(z), rtol=1e-4, atol=1e-6)


def test_rotary_products_depend_on_the_distance_alone():
    torch.manual_seed(0)
    features = torch.randn(1, 1, 8).double().expand(1, 9, 8)  # the same features everywhere
    kernel = AxisKernel(torch.linspace(0, 1, 9).double(), 8, 1, 6).double()
    q, k = kernel._turned(kernel.queries(features)), kernel._turned(kernel.keys(features))
    products = (q @ k.transpose(-1, -2))[0, 0]
    for offset in range(-8, 9):
        diagonal = products.diagonal(offset)
        assert torch.allclose(diagonal, diagonal[0].expand_as(diagonal), rtol=1e-9, atol=1e-12)
    assert not torch.allclose(products[0], products[0, 0].expand(9), rtol=1e-3)


@pytest.mark.parametrize(("grid", "channels"), [((16, 16), (1, 1)), ((8, 12), (4, 2)), ((7, 5), (2, 3))])
def test_shapes_on_rectangles_and_every_parameter_gets_a_gradient(grid, channels):
    model = build(make_task(grid=grid, channels=channels), depth=2, heads=2)
    y = model(torch.randn(3, channels[0], *grid))
    assert y.shape == (3, channels[1], *grid)
    y.square().mean().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in model.parameters())


def test_a_state_dict_carries_the_random_position_code():
    task = make_task(grid=(8, 12))
    model, fresh = build(task), build(task)
    x = torch.randn(2, 1, 8, 12)
    assert not torch.equal(fresh(x), model(x))
    fresh.load_state_dict(model.state_dict())
    assert torch.equal(fresh(x), model(x))


def test_the_size_knob_turns_the_size_in_single_steps():
    sizes = [numel(build(make_task(grid=(8, 12)), **{FACTFORMER.size_knob: width})) for width in range(2, 18)]
    assert sizes == sorted(set(sizes))


def test_what_it_can_not_do_is_said():
    assert FACTFORMER.unsupported(make_task(grid=(8,))) == "2D only"
    assert FACTFORMER.unsupported(make_task(grid=(8, 8, 8))) == "2D only"
    with pytest.raises(ValueError, match="= 3 must be even"):
        build(make_task(grid=(8, 12)), head_dim=3)
