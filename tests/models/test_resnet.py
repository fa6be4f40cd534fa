"""ResNet: the paper's parameter counts, padding by boundary condition, the contract of a model."""

from __future__ import annotations

import pytest
import torch
from factories.tasks import make_task, numel
from pdebench_hss_models.resnet import RESNET

from pdebench_hss import TaskInfo


def build(task: TaskInfo, **changes):
    return RESNET.make(task, {**RESNET.hparams_for(task), **changes})


@pytest.mark.parametrize(
    ("name", "grid", "expected"),
    [
        ("poisson_1d", (256,), 166_033),  # paper: 165K
        ("heat_1d", (256,), 166_033),  # paper: 165K
        ("poisson_1d_neumann", (256,), 166_033),  # paper: 165K
        ("burgers_1d", (256,), 1_620_451),  # paper: 1.7M
        ("poisson_2d", (64, 64), 166_033),  # paper: 165K
        ("poisson_2d_lshape", (64, 64), 166_033),  # paper: 165K
        ("helmholtz_2d", (64, 64), 166_033),  # paper: 165K
        ("gray_scott_forward", (128, 128), 1_991_330),  # paper: 1.99M
        ("navier_stokes_inverse", (128, 128), 1_990_945),  # paper: 1.99M
        ("poisson_3d", (128, 128, 128), 248_977),  # paper: not stated
    ],
)
def test_parameter_counts_at_scale_paper(name, grid, expected):
    task = make_task(name, grid, "paper")
    with torch.device("meta"):
        model = build(task)
    assert numel(model) == expected
    blocks, width = RESNET.hparams_for(task)["blocks"], RESNET.hparams_for(task)["width"]
    lift, projection = (task.in_channels + 1) * width, (width + 1) * task.out_channels
    assert expected == 2 * 3**task.dim * width**2 * blocks + lift + projection


def test_periodic_padding_commutes_with_shifts_and_zero_padding_does_not():
    torch.manual_seed(0)
    x = torch.randn(1, 1, 12, 16, dtype=torch.float64)
    for periodic in (True, False):
        model = build(make_task(grid=(12, 16), periodic=periodic)).double()
        difference = model(x.roll((3, 5), (2, 3))) - model(x).roll((3, 5), (2, 3))
        assert (difference.abs().max() < 1e-13) == periodic


@pytest.mark.parametrize(
    ("boundary", "periodic", "outside"),
    [("dirichlet", False, 0.0), ("neumann", False, 1.0), ("mixed", False, 1.0), ("mixed", True, 9.0)],
)
def test_what_a_convolution_sees_beyond_the_left_edge(boundary, periodic, outside):
    model = build(make_task(grid=(8,), boundary=boundary, periodic=periodic))
    convolution = model.blocks[0].first
    torch.nn.init.zeros_(convolution.weight)
    with torch.no_grad():
        convolution.weight[0, 0, 0] = 1.0  # picks the left neighbour
    field = torch.zeros(1, convolution.in_channels, 8)
    field[..., 0], field[..., -1] = 1.0, 9.0
    assert convolution(field)[0, 0, 0].item() == outside


@pytest.mark.parametrize(("grid", "channels"), [((16,), (1, 1)), ((8, 12), (4, 2)), ((8, 6, 4), (2, 3))])
def test_shapes_and_every_parameter_gets_a_gradient(grid, channels):
    model = build(make_task(grid=grid, channels=channels))
    y = model(torch.randn(3, channels[0], *grid))
    assert y.shape == (3, channels[1], *grid)
    y.square().mean().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in model.parameters())


def test_the_papers_learning_rates_in_3d_and_nobody_elses():
    assert RESNET.recipe_for(make_task("poisson_3d", (8, 8, 8), "paper")) == {"lr": 1e-4, "lr_min": 1e-5}
    assert RESNET.recipe_for(make_task("poisson_2d", (8, 8), "paper")) == {}


def test_more_than_three_dimensions_are_refused_with_a_reason():
    assert RESNET.unsupported(make_task(grid=(4, 4, 4, 4))) == "1D to 3D only"
    assert RESNET.unsupported(make_task(grid=(4, 4, 4))) is None
