"""How Neural-HSS starts: as the zero map, from which every weight can grow, with slopes that follow from the task."""

from __future__ import annotations

import pytest
import torch
from factories.tasks import make_task
from pdebench_hss_models.neural_hss import pdebench_hss_models
from pdebench_hss_models.neural_hss.model import NeuralHSS

from pdebench_hss import TaskInfo

SPEC = next(spec for spec in pdebench_hss_models() if spec.name == "neural_hss")
GRIDS = [(16,), (37,), (3,), (16, 16), (17, 10), (64, 6), (8, 8, 8), (7, 9, 4), (4, 4, 4, 4)]
VERSION_3 = {"init": "normal", "slope": 0.9}


def build(task: TaskInfo, **changes) -> NeuralHSS:
    torch.manual_seed(0)
    return SPEC.make(task, {**SPEC.hparams_for(task), **changes})


def ramp(channels: int, grid: tuple[int, ...]) -> torch.Tensor:
    shape = (2, channels, *grid)
    return torch.linspace(-1, 1, torch.Size(shape).numel()).reshape(shape)


@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("channels", [(1, 1), (3, 2)])
@pytest.mark.parametrize("grid", GRIDS)
def test_a_task_of_any_size_starts_at_zero_and_soon_every_weight_has_a_gradient(grid, channels, linear) -> None:
    model = build(make_task(grid=grid, channels=channels, linear=linear))
    x, y = (torch.randn(2, count, *grid) for count in channels)
    assert not model(x).any()
    descent = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(3):
        descent.zero_grad()
        (model(x) - y).square().sum().backward()
        descent.step()
    dead = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert not dead
    assert model(x).any()


@pytest.mark.parametrize("way", ["auto", "tree", "collapsed", "dense"])
@pytest.mark.parametrize("kind", ["hss", "dense", "cp"])
def test_every_kind_of_projection_starts_at_zero_in_every_form(kind, way) -> None:
    for grid, channels, embed in [((12,), (2, 3), 20), ((8, 10), (3, 1), 12), ((6, 5, 4), (1, 2), 8)]:
        model = build(make_task(grid=grid, channels=channels), lift=kind, projection=kind, embed=embed, way=way)
        assert not model(torch.randn(2, channels[0], *grid)).any()


@pytest.mark.parametrize(("lift", "projection"), [("none", "none"), ("hss", "hss"), ("dense", "dense"), ("cp", "cp")])
@pytest.mark.parametrize("grid", [(16,), (8, 12)])
def test_only_the_last_map_is_zero_and_no_random_number_is_another(grid, lift, projection) -> None:
    options = {"layers": 2, "lift": lift, "projection": projection, "slope": 0.3}
    zero, normal = (build(make_task(grid=grid), init=init, **options) for init in ("zero", "normal"))
    changed = 0
    for (name, a), b in zip(zero.named_parameters(), normal.parameters(), strict=True):
        assert ((a == b) | (a == 0)).all(), name
        changed += int((a != b).sum())
    outermost = sum(p.numel() for p in normal.parameters()) - changed
    assert 0 < changed < outermost, "a small part"


@pytest.mark.parametrize("scale", ["smoke", "small", "paper"])
@pytest.mark.parametrize(("linear", "slope"), [(True, 1.0), (False, 0.5)])
def test_slopes_start_at_one_on_linear_tasks_and_at_a_half_on_others(linear, slope, scale) -> None:
    for grid in [(32,), (16, 16), (8, 8, 8)]:
        task = make_task("poisson_2d" if len(grid) == 2 else "toy", grid, scale, linear=linear)
        assert SPEC.hparams_for(task)["init"] == "zero"
        slopes = [p for name, p in build(task).named_parameters() if "slope" in name]
        assert slopes
        assert all((p == slope).all() for p in slopes)


def test_on_a_linear_task_the_network_starts_linear() -> None:
    model = build(make_task(grid=(16, 16)), init="normal").double()
    x, y = torch.randn(2, 3, 1, 16, 16, dtype=torch.float64)
    torch.testing.assert_close(model(2 * x - y), 2 * model(x) - model(y))


RECORDED = [
    ((32,), True, (1, 1), 0.797153, -0.111385),
    ((32,), False, (2, 1), 1.15246, 0.149159),
    ((16, 12), True, (1, 1), 5.78196, -0.430451),
    ((16, 12), False, (3, 2), 3.57657, 0.0742178),
    ((8, 8, 8), True, (1, 1), 7.64497, -0.610532),
]


@pytest.mark.parametrize(("grid", "linear", "channels", "norm", "sixth"), RECORDED)
def test_version_3_is_a_matter_of_options(grid, linear, channels, norm, sixth) -> None:
    """Values that version 3 gave; with some tolerance, because processors round random numbers differently."""
    y = build(make_task(grid=grid, linear=linear, channels=channels), **VERSION_3)(ramp(channels[0], grid))
    assert y.norm().item() == pytest.approx(norm, rel=1e-5)
    assert y.flatten()[5].item() == pytest.approx(sixth, rel=1e-4)


def test_another_start_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="init 'zeros' is not one of zero, normal"):
        build(make_task(), init="zeros")
