"""From one grid to another: what is exact is exact, and what is promised of nested grids holds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from pdebench_hss_models.deeponet.model import DeepONet, interpolation, on_another_grid
from pdebench_hss_tasks.poisson.grid import options_at

from pdebench_hss import Recipe, Scale, TaskSpec
from pdebench_hss.use.regridding import carry, refusal


def task(grid, periodic=False, **more):
    size = Scale(grid, train=4, test=4, recipe=Recipe(batch=4, steps=1))
    spec = TaskSpec(
        name="toy", title="toy", equation="y = x", dim=len(grid), in_channels=1, out_channels=1, linear=True,
        generate=lambda seeds, size: None, scales={"smoke": size}, periodic=periodic, **more,
    )  # fmt: skip
    return spec.info("smoke")


@pytest.mark.parametrize(("start", "end"), [(16, 32), (32, 16), (16, 24)])
def test_a_periodic_field_is_carried_exactly_while_both_grids_hold_its_waves(start, end):
    here, there = task((start, start), periodic=True), task((end, end), periodic=True)

    def wave(x, y):
        return np.sin(2 * np.pi * (3 * x - 2 * y)) + np.cos(2 * np.pi * 5 * y)

    found = carry(wave(*here.coords)[None, None], here, there)
    np.testing.assert_allclose(found[0, 0], wave(*there.coords), atol=1e-13)


def test_other_fields_are_carried_by_splines_which_are_exact_for_cubics():
    here, there = task((9, 12)), task((20, 7))
    cubic = lambda x, y: (x**3 - 2 * x) * (1 - y**3 + y**2)  # noqa: E731
    found = carry(cubic(*here.coords)[None, None, None], here, there)  # a rollout's axes come before the grid's
    np.testing.assert_allclose(found[0, 0, 0], cubic(*there.coords), atol=1e-13)


def test_a_domain_with_an_edge_inside_the_grid_is_refused():
    assert "has an edge inside the grid" in refusal(task((8,), mask=lambda grid: np.arange(8) > 2))
    assert refusal(task((8,))) == ""


def test_deeponet_on_a_finer_grid_gives_the_same_values_at_the_points_it_was_trained_on():
    coarse, fine = task((16, 8), periodic=True), task((32, 24), periodic=True)
    torch.manual_seed(0)
    settings = {"width": 8, "depth": 3, "basis": 4, "sensor_stride": 2}
    trained = DeepONet(coarse, **settings)
    moved = on_another_grid(fine, coarse, **settings)
    moved.load_state_dict(trained.state_dict())
    field = torch.randn(3, 1, 32, 24)
    with torch.no_grad():
        there, here = moved(field), trained(field[:, :, ::2, ::3])
    assert there.shape == (3, 1, 32, 24)
    torch.testing.assert_close(there[:, :, ::2, ::3], here)


@pytest.mark.parametrize("periodic", [True, False])
def test_sensors_between_points_are_read_by_linear_interpolation(periodic):
    here, trained = task((10,), periodic), task((7,), periodic)
    matrix = interpolation(here, trained, 0)
    np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=1e-14)
    if not periodic:  # a straight line has no jump at the end only there
        np.testing.assert_allclose(matrix @ (2 + 3 * here.coords[0]), 2 + 3 * trained.coords[0], atol=1e-13)


@pytest.mark.parametrize(("grid", "solve"), [(32, 64), (64, 64), (128, 128), (48, 96)])
def test_the_solve_of_a_poisson_task_stays_where_it_can_and_is_never_coarser(grid, solve):
    assert options_at({"solve": (64, 64), "modes": 10}, (grid, grid)) == {"solve": (solve, solve), "modes": 10}
