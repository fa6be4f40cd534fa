"""FNO: its spectral layer against neuraloperator's, the paper's parameter counts, the contract of a model."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from factories.tasks import make_task, numel
from pdebench_hss_models.fno import FNO
from pdebench_hss_models.fno.model import SpectralConvolution

from pdebench_hss import TaskInfo


def build(task: TaskInfo, **changes):
    return FNO.make(task, {**FNO.hparams_for(task), **changes})


def reals(model) -> int:
    return sum(p.numel() * (2 if p.is_complex() else 1) for p in model.parameters())


@pytest.mark.parametrize(("grid", "modes"), [((32,), 5), ((17,), 8), ((16, 24), 6), ((16, 16), 8)])
def test_the_spectral_layer_equals_neuraloperators(grid, modes):
    reference_class = pytest.importorskip("neuralop.layers.spectral_convolution").SpectralConv
    torch.manual_seed(0)
    dim, width = len(grid), 3
    ours = SpectralConvolution(dim, width, modes)
    # They count both signs, and half as many plus one on the last axis; they store frequencies in ascending order.
    theirs = reference_class(width, width, (2 * modes,) * (dim - 1) + (2 * modes - 1,), bias=False)
    ascending = np.fft.fftshift(ours.weight.detach().numpy(), axes=range(2, dim + 1))
    theirs.weight.tensor.data.copy_(torch.from_numpy(ascending))
    v = torch.randn(4, width, *grid)
    difference = (ours(v) - theirs(v)).norm() / theirs(v).norm()
    assert difference < 3e-7  # single precision rounding


def test_a_spectral_layer_with_one_matrix_for_all_modes_is_a_low_pass_filter():
    layer = SpectralConvolution(2, 1, 4).double()
    torch.nn.init.ones_(layer.weight)
    x = torch.arange(16, dtype=torch.float64) / 16
    grid = torch.meshgrid(x, x, indexing="ij")
    kept = torch.cos(2 * torch.pi * (3 * grid[0] - 2 * grid[1])) + 0.5
    dropped = torch.sin(2 * torch.pi * 6 * grid[0])
    assert torch.allclose(layer((kept + dropped)[None, None])[0, 0], kept, atol=1e-14)


@pytest.mark.parametrize(
    ("name", "grid", "expected_numel", "expected_reals"),
    [
        ("poisson_1d", (256,), 80_193, 153_921),
        ("heat_1d", (256,), 80_193, 153_921),  # paper: 150K
        ("poisson_1d_neumann", (256,), 53_505, 102_657),  # paper: 102K
        ("burgers_1d", (256,), 811_649, 1_598_081),  # paper: 1.5M
        ("poisson_2d", (64, 64), 132_241, 263_313),  # paper: 132K
        ("poisson_2d_mixed", (64, 64), 132_241, 263_313),  # paper: 132K
        ("gray_scott_forward", (128, 128), 2_101_666, 4_198_818),  # paper: 2.1M
        ("navier_stokes_forward", (128, 128), 2_101_537, 4_198_689),  # paper: 2.1M
        ("poisson_3d", (128, 128, 128), 803_321, 1_606_137),  # paper: not stated
    ],
)
def test_parameter_counts_at_scale_paper(name, grid, expected_numel, expected_reals):
    task = make_task(name, grid, "paper")
    with torch.device("meta"):
        model = build(task)
    assert (numel(model), reals(model)) == (expected_numel, expected_reals)
    layers, width, modes = (FNO.hparams_for(task)[key] for key in ("layers", "width", "modes"))
    spectral = 2 * (2 * modes) ** (task.dim - 1) * modes * width**2
    ends = (task.in_channels + task.dim + 1) * width + (width + 1) * task.out_channels
    assert expected_reals == layers * (spectral + (width + 1) * width) + ends


@pytest.mark.parametrize(
    ("grid", "channels"), [((16,), (1, 1)), ((8, 12), (4, 2)), ((8, 6, 10), (2, 3)), ((4, 6, 4, 4), (1, 2))]
)
def test_shapes_and_every_parameter_gets_a_gradient(grid, channels):
    model = build(make_task(grid=grid, channels=channels))
    y = model(torch.randn(3, channels[0], *grid))
    assert y.shape == (3, channels[1], *grid)
    y.square().mean().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in model.parameters())


def test_the_lift_sees_the_coordinates_scaled_to_the_unit_box():
    task = make_task(grid=(5,), domain=((-1.0, 3.0),))
    assert build(task).unit_coords.flatten().tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize("move", [lambda m: m.double(), lambda m: m.to(torch.float64)], ids=["double", "to"])
def test_complex_weights_survive_a_change_of_precision(move):
    model = build(make_task())
    x = torch.randn(2, 1, 16)
    before = model(x)
    moved = move(model)
    assert moved.layers[0].spectral.weight.dtype == torch.complex128
    assert torch.allclose(moved(x.double()).float(), before, rtol=1e-5, atol=1e-7)


def test_more_modes_than_the_grid_has_are_refused_and_never_asked_for_by_default():
    with pytest.raises(ValueError, match=r"modes=9, .* \(16,\) has 1 to 8 modes"):
        build(make_task(), modes=9)
    assert FNO.hparams_for(make_task(grid=(8, 32), scale="paper"))["modes"] == 4


@pytest.mark.parametrize("grid", [(16,), (8, 12)])
def test_padding_is_zeros_behind_the_domain_for_the_layers_alone(grid):
    task, padding = make_task(grid=grid), 5
    torch.manual_seed(0)
    model = build(task, padding=padding)
    u = torch.randn(3, 1, *grid)
    v = model.lift(u) + model.lift_coords(model.unit_coords)
    wide = torch.zeros(*v.shape[:2], *(n + padding for n in grid))
    wide[(..., *(slice(n) for n in grid))] = v
    first, last = model.layers
    wide = last(torch.nn.functional.gelu(first(wide)))
    by_hand = model.projection(wide[(..., *(slice(n) for n in grid))])
    assert torch.allclose(model(u), by_hand, atol=1e-6)
    assert numel(model) == numel(build(task))
    with pytest.raises(ValueError, match="padding=-1 must not be negative"):
        build(task, padding=-1)
