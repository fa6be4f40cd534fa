"""A batch of another size runs the kernels that are compiled already: what Triton specialises on stays the same."""

from __future__ import annotations

import pytest
import torch
from pdebench_hss_models.neural_hss.layer import HSSLayer
from pdebench_hss_models.neural_hss.triton import layer as triton_layer

triton = pytest.importorskip("triton")


@pytest.fixture
def launched(monkeypatch):
    """The launches of a step with the key under which Triton would look for their machine code; nothing is run."""
    from pdebench_hss_models.neural_hss.triton import launch as triton_launch
    from triton.backends.compiler import GPUTarget
    from triton.compiler import make_backend
    from triton.runtime.jit import create_function_from_signature

    backend, seen = make_backend(GPUTarget("cuda", 80, 32)), []

    def key(one):
        binder = create_function_from_signature(one.kernel.signature, one.kernel.params, backend)
        _, specialization, _ = binder(**one.arguments, **one.constants)
        return one.kernel.__name__, str(specialization), one.warps, one.stages

    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(triton_layer, "available", lambda device, dtype: None)
    monkeypatch.setattr(triton_launch.Launch, "run", lambda self: seen.append(key(self)))
    return seen


def keys_of_a_step(layers, z, seen):
    seen.clear()
    z = z.requires_grad_()
    y = layers(z)
    torch.autograd.grad(y, [z, *layers.parameters()], torch.randn_like(y))
    return list(seen)


@pytest.mark.parametrize("terms", [1, 3])
@pytest.mark.parametrize("grid", [(64,), (300,), (33,), (32, 48), (13, 11), (8, 12, 10)], ids=str)
def test_the_last_batch_compiles_nothing(launched, grid, terms):
    layers = torch.nn.Sequential(*(HSSLayer(grid, levels=2, rank=3, outer_rank=terms, way="triton") for _ in range(2)))
    full = keys_of_a_step(layers, torch.randn(64, *grid), launched)
    assert {name for name, *_ in full} >= {"correlate_kernel", "activation_backward_kernel"}
    for batch in (36, 33, 16, 2, 1):
        assert keys_of_a_step(layers, torch.randn(batch, *grid), launched) == full, batch


def test_the_key_would_notice(launched):
    layer = HSSLayer((64,), levels=2, rank=3, way="triton")
    even = keys_of_a_step(layer, torch.randn(4, 64), launched)
    spread = torch.randn(4, 64, 2)[..., 0]  # another stride between points is another kernel
    assert keys_of_a_step(layer, spread, launched) != even
