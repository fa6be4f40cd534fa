"""The wave equation u_tt = c^2 Lap u on the unit square: a linear rollout task with two channels."""

from __future__ import annotations

from pdebench_hss import Recipe, Scale, TaskSpec, hookimpl

HERE = "pdebench_hss_tasks.waves"

SMALL = Recipe(steps=500, batch=16, lr=2e-3, lr_min=1e-5)
MEDIUM = Recipe(steps=2000, batch=16, lr=2e-3, lr_min=1e-5)
PAPER = Recipe(epochs=100, batch=64, lr=1e-3, lr_min=1e-5)

WAVE_2D = TaskSpec(
    name="wave_2d",
    title="Wave Eq.",
    equation="u_tt = c^2 Lap u on (0, 1)^2, u = 0 on the boundary; learn (u, u_t)(t) -> (u, u_t)(t + 1)",
    dim=2,
    in_channels=2,
    out_channels=2,
    linear=True,
    rollout=True,
    normalization="std",
    metric="relative_l2",
    generate=f"{HERE}.equation:generate",
    coarse=f"{HERE}.equation:coarse",
    coarse_levels=3,
    coords="pdebench_hss_tasks.poisson.grid:points",
    params={"c": 0.1, "length": 0.1},
    chunk=32,
    scales={
        "smoke": Scale(
            grid=(16, 16), train=8, test=4, steps=4, recipe=Recipe(steps=4, batch=4), options={"frame": 1.0}
        ),
        "small": Scale(grid=(32, 32), train=64, test=128, steps=10, recipe=SMALL, options={"frame": 1.0}),
        "medium": Scale(grid=(48, 48), train=256, test=256, steps=10, recipe=MEDIUM, options={"frame": 1.0}),
        "paper": Scale(grid=(64, 64), train=1000, test=200, steps=20, recipe=PAPER, options={"frame": 1.0}),
    },
    description="Beyond the paper: waves that never decay. A random field at rest, released; exact in its sines.",
)


@hookimpl
def pdebench_hss_tasks() -> list[TaskSpec]:
    return [WAVE_2D]
