"""Advection u_t + c u_x = 0 on a circle: the simplest rollout task, which tells apart who moves and who smears."""

from __future__ import annotations

from pdebench_hss import Recipe, Scale, TaskSpec, hookimpl

HERE = "pdebench_hss_tasks.advection"

SMALL = Recipe(steps=500, batch=64, lr=2e-3, lr_min=1e-5)
MEDIUM = Recipe(steps=4000, batch=64, lr=2e-3, lr_min=1e-5)
PAPER = Recipe(epochs=200, batch=128, lr=1e-3, lr_min=1e-5)

ADVECTION_1D = TaskSpec(
    name="advection_1d",
    title="Advection Eq.",
    equation="u_t + c u_x = 0 on a circle of length 1; learn u(t) -> u(t + 0.1)",
    dim=1,
    in_channels=1,
    out_channels=1,
    linear=True,
    periodic=True,
    rollout=True,
    normalization="std",
    metric="relative_l2",
    generate=f"{HERE}.equation:generate",
    coarse=f"{HERE}.equation:coarse",
    coarse_levels=3,
    params={"c": 0.4, "length": 0.05},
    chunk=128,
    scales={
        "smoke": Scale(grid=(32,), train=8, test=4, steps=4, recipe=Recipe(steps=4, batch=4), options={"frame": 0.1}),
        "small": Scale(grid=(128,), train=64, test=128, steps=20, recipe=SMALL, options={"frame": 0.1}),
        "medium": Scale(grid=(256,), train=512, test=256, steps=20, recipe=MEDIUM, options={"frame": 0.1}),
        "paper": Scale(grid=(256,), train=1000, test=200, steps=40, recipe=PAPER, options={"frame": 0.1}),
    },
    description="Beyond the paper: a random periodic field that moves and keeps its shape; exact in its Fourier modes.",
)


@hookimpl
def pdebench_hss_tasks() -> list[TaskSpec]:
    return [ADVECTION_1D]
