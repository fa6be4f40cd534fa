"""DeepONet: the defining sum written out, the paper's parameter counts, the contract of a model."""

from __future__ import annotations

import pytest
import torch
from factories.tasks import make_task, numel
from pdebench_hss_models.deeponet import DEEPONET, MANY_SENSORS

from pdebench_hss import TaskInfo


def build(task: TaskInfo, **changes):
    return DEEPONET.make(task, {**DEEPONET.hparams_for(task), **changes})


def test_the_output_is_the_sum_over_branch_times_trunk_at_each_point():
    torch.manual_seed(0)
    task = make_task(grid=(4, 6), channels=(3, 2), domain=((-1.0, 1.0), (0.0, 4.0)))
    model = build(task, basis=5, sensor_stride=2).double()
    u = torch.randn(1, 3, 4, 6, dtype=torch.float64)
    b = model.branch(u[0, :, ::2, ::2].reshape(1, -1))[0]  # 10 numbers: five of channel 0, five of channel 1
    for i, j in [(0, 0), (3, 5), (1, 4)]:
        x, y = task.coords[:, i, j]
        t = model.trunk(torch.tensor([[x, y / 2 - 1]], dtype=torch.float64))[0]
        for c in range(2):
            expected = sum(b[5 * c + k] * t[5 * c + k] for k in range(5))
            assert torch.allclose(model(u)[0, c, i, j], expected, rtol=1e-6)  # points are kept in float32


def test_the_trunk_is_evaluated_once_for_the_whole_batch():
    model = build(make_task(grid=(4, 6)))
    rows = []
    model.trunk.register_forward_pre_hook(lambda _, args: rows.append(len(args[0])))
    model(torch.randn(7, 1, 4, 6))
    assert rows == [24]


@pytest.mark.parametrize(
    ("name", "grid", "expected"),
    [
        ("poisson_1d", (256,), 247_360),  # paper: 247K for the rows below
        ("heat_1d", (256,), 247_360),
        ("poisson_1d_neumann", (256,), 247_360),
        ("burgers_1d", (256,), 1_708_544),  # paper: 1.7M
        ("poisson_2d", (64, 64), 292_040),  # paper: 280K
        ("helmholtz_2d", (64, 64), 292_040),  # paper: 280K
        ("gray_scott_inverse", (128, 128), 2_295_808),  # paper: 2.3M
        ("navier_stokes_forward", (128, 128), 2_295_808),  # paper: 2.3M
        ("poisson_3d", (128, 128, 128), 268_535_168),  # paper: not stated
    ],
)
def test_parameter_counts_at_scale_paper(name, grid, expected):
    task = make_task(name, grid, "paper")
    with torch.device("meta"):
        model = build(task)
    assert numel(model) == expected
    row = DEEPONET.hparams_for(task)
    w, outputs = row["width"], row["basis"] * task.out_channels
    sensors = task.in_channels
    for n in grid:
        sensors *= n // row["sensor_stride"]
    hidden = 2 * (row["depth"] - 2) * (w + 1) * w
    assert expected == (sensors + task.dim + 2) * w + hidden + 2 * (w + 1) * outputs


@pytest.mark.parametrize(
    ("grid", "channels"), [((16,), (1, 1)), ((8, 12), (4, 2)), ((8, 6, 4), (2, 3)), ((4, 6, 4, 4), (1, 2))]
)
def test_shapes_and_every_parameter_gets_a_gradient(grid, channels):
    model = build(make_task(grid=grid, channels=channels))
    y = model(torch.randn(3, channels[0], *grid))
    assert y.shape == (3, channels[1], *grid)
    y.square().mean().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in model.parameters())


def test_unknown_tasks_with_huge_grids_get_a_bounded_branch():
    row = DEEPONET.hparams_for(make_task(grid=(100, 100, 100), scale="small", channels=(2, 1)))
    stride = row["sensor_stride"]
    assert 2 * (-(-100 // stride)) ** 3 <= MANY_SENSORS["small"] < 2 * (-(-100 // (stride - 1))) ** 3


def test_the_papers_learning_rates_in_3d_and_nobody_elses():
    assert DEEPONET.recipe_for(make_task("poisson_3d", (8, 8, 8), "paper")) == {"lr": 1e-3, "lr_min": 1e-5}
    assert DEEPONET.recipe_for(make_task("poisson_2d", (8, 8), "paper")) == {}


def test_a_depth_that_is_no_perceptron_is_refused():
    with pytest.raises(ValueError, match=r"depth=1, .* at least 2"):
        build(make_task(), depth=1)
