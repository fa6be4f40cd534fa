"""The residual that a task gives: nothing is left of solutions known on paper, and the right amount of others."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from metric_settings import samples_of

from pdebench_hss.contract.registry import load_registry
from pdebench_hss.metrics.measuring import setting_of
from pdebench_hss.metrics.residuals import pde_residuals

TASKS = load_registry().tasks
WITH_RESIDUAL = sorted(name for name, task in TASKS.items() if task.spec.residual)


def info(name: str, grid: tuple[int, ...] | None = None, **params):
    """A task as metrics see it, at another grid if asked for."""
    spec = TASKS[name].spec
    if grid:
        spec = dataclasses.replace(spec, scales={"smoke": dataclasses.replace(spec.scales["smoke"], grid=grid)})
    return spec.info("smoke", params)


def relative(name: str, inputs, outputs, grid=None, **params) -> float:
    about = setting_of(info(name, grid, **params), inputs)
    return float(pde_residuals(outputs, outputs, about)["pde_residual"][0])


def test_the_tasks_that_have_one():
    poisson = [name for name, task in TASKS.items() if name.startswith("poisson")]
    assert sorted([*poisson, "helmholtz_2d", "heat_1d"]) == WITH_RESIDUAL
    assert len(poisson) == 8


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_a_sine_on_the_box(dim):
    """u = prod sin(k pi x), f = pi^2 |k|^2 u."""
    grid = (16,) * dim
    axes = np.meshgrid(*[np.arange(n) / n for n in grid], indexing="ij")
    u = np.prod([np.sin((2 + i) * np.pi * x) for i, x in enumerate(axes)], axis=0)[None, None]
    f = np.pi**2 * sum((2 + i) ** 2 for i in range(dim)) * u
    assert relative(f"poisson_{dim}d", f, u, grid) < 1e-12
    assert relative(f"poisson_{dim}d", f, 0.9 * u, grid) == pytest.approx(0.1, rel=1e-9)
    assert relative(f"poisson_{dim}d", f, 0 * u, grid) == 1.0


@pytest.mark.parametrize("name", ["poisson_1d_neumann", "poisson_2d_lshape", "poisson_2d_mixed"])
def test_stencils_are_of_fourth_order(name):
    """Any smooth u with its own f: away from boundaries only the equation counts."""
    left = []
    for n in (32, 64):
        task = info(name, (n,) * TASKS[name].spec.dim)
        axes = task.coords
        u = np.prod([np.cos(3 * x + 1) for x in axes], axis=0)[None, None]
        left.append(relative(name, 9 * task.dim * u, u, task.grid))
    assert left[1] < 1e-5
    assert left[0] / left[1] == pytest.approx(16, rel=0.1)


def test_what_is_outside_the_domain_does_not_count():
    task = info("poisson_2d_mixed")
    rng = np.random.default_rng(0)
    f, u = rng.normal(size=(2, 1, 1, *task.grid))
    outside = 1e9 * ~task.mask
    assert relative("poisson_2d_mixed", f + outside, u - outside) == relative("poisson_2d_mixed", f, u)


def test_a_wave_of_helmholtz():
    x, y = np.meshgrid(np.arange(16) / 16, np.arange(16) / 16, indexing="ij")
    u = np.cos(2 * np.pi * (2 * x - 3 * y))[None, None]
    f = (4 * np.pi**2 * 13 - 50.0**2) * u
    assert relative("helmholtz_2d", f, u, kappa=50.0) < 1e-12
    assert relative("helmholtz_2d", f, u, kappa=51.0) == pytest.approx((51**2 - 50**2) / abs(4 * np.pi**2 * 13 - 50**2))


def test_heat_of_one_sine():
    """Amplitudes decay by exp(-D (k pi)^2 t); a field that stays as it is misses its whole rate of change."""
    x, times, rate = np.linspace(0, 1, 32), 0.8 * np.arange(1, 5), 2e-4 * (3 * np.pi) ** 2
    start = np.sin(3 * np.pi * x)[None, None]
    frames = start[:, None] * np.exp(-rate * times)[:, None, None]
    assert relative("heat_1d", start, frames) < 1e-12
    stays = relative("heat_1d", start, np.repeat(start[:, None], 4, axis=1))
    assert stays == pytest.approx((1 - np.exp(-0.8 * rate)) / (0.8 * rate), rel=1e-9)
    later = np.concatenate([frames[:, 1], start], axis=1)  # history: the newest frame comes first
    spec = dataclasses.replace(TASKS["heat_1d"].spec, history=2)
    about = setting_of(spec.info("smoke"), later)
    assert pde_residuals(frames[:, 2:], frames[:, 2:], about)["pde_residual"][0] < 1e-12


@pytest.mark.parametrize("name", WITH_RESIDUAL)
def test_the_data_solve_their_equation_and_a_blurred_copy_does_not(name):
    data = samples_of(name)
    about = setting_of(data.task, data.test.inputs)
    wrong = 0.5 * (data.test.outputs + np.roll(data.test.outputs, 1, axis=-1))
    found = pde_residuals(wrong, data.test.outputs, about)
    assert found["pde_residual_data"].max() < 0.1
    assert (found["pde_residual"] > 5 * found["pde_residual_data"]).all()
