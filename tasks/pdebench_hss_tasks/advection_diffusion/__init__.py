"""Steady advection and diffusion -u'' + c u' = f on the interval: a linear operator that is not self-adjoint."""

from __future__ import annotations

from functools import partial

from pdebench_hss import Recipe, Scale, TaskSpec, hookimpl

HERE = "pdebench_hss_tasks.advection_diffusion"

# Grids, samples and training of poisson_1d_grf, so that the two rows differ in c alone.
training = partial(Recipe, lr=1e-3, lr_min=1e-5, weight_decay=1e-3)
SMALL = training(steps=500, batch=32)
MEDIUM = training(steps=4000, batch=32)
PAPER = training(epochs=2000, batch=256)

ADVECTION_DIFFUSION_1D = TaskSpec(
    name="advection_diffusion_1d",
    title="Advection-diffusion Eq. (1D)",
    equation="-u'' + c u' = f on (0, 1), u(0) = u(1) = 0",
    dim=1,
    in_channels=1,
    out_channels=1,
    linear=True,
    generate=f"{HERE}.compact:generate",
    coarse=f"{HERE}.compact:coarse",
    coarse_levels=4,
    coords="pdebench_hss_tasks.poisson.grid:points",
    options_at="pdebench_hss_tasks.poisson.grid:options_at",
    params={"c": 10.0, "length": 0.01},
    scales={
        "smoke": Scale(grid=(32,), train=8, test=4, recipe=Recipe(steps=4, batch=4), options={"solve": (128,)}),
        "small": Scale(grid=(256,), train=128, test=200, recipe=SMALL, options={"solve": (1024,)}),
        "medium": Scale(grid=(256,), train=200, test=1000, recipe=MEDIUM, options={"solve": (1024,)}),
        "paper": Scale(grid=(256,), train=200, test=1000, recipe=PAPER, options={"solve": (1024,)}),
    },
    description="Beyond the paper: the forcing of poisson_1d_grf and an operator without symmetry; "
    "fourth-order compact differences.",
)


@hookimpl
def pdebench_hss_tasks() -> list[TaskSpec]:
    return [ADVECTION_DIFFUSION_1D]
