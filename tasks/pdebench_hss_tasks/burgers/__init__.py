"""Burgers' equation u_t + beta u u_x = nu u_xx on the interval: a rollout task."""

from __future__ import annotations

from pdebench_hss_studies.citation import NEURAL_HSS

from pdebench_hss import Recipe, Scale, TaskSpec, hookimpl

HERE = "pdebench_hss_tasks.burgers"

# Frames every 0.2; a model learns a step of `stride` frames.
OPTIONS = {"points": 1024, "frame": 0.2, "stride": 1}

SMOKE = Recipe(steps=4, batch=4, lr=5e-4, lr_min=1e-6, weight_decay=1e-3)
SMALL = Recipe(steps=1000, batch=64, lr=5e-4, lr_min=1e-6, weight_decay=1e-3)
MEDIUM = Recipe(steps=4000, batch=64, lr=5e-4, lr_min=1e-6, weight_decay=1e-3)
PAPER = Recipe(epochs=1500, batch=256, lr=5e-4, lr_min=1e-6, weight_decay=1e-3)

BURGERS_1D = TaskSpec(
    name="burgers_1d",
    title="Burgers' Eq.",
    equation="u_t + beta u u_x = 0.001 u_xx on (0, 1), u(0, t) = u(1, t) = 0; learn u(t) -> u(t + 0.2)",
    dim=1,
    in_channels=1,
    out_channels=1,
    linear=False,
    rollout=True,
    normalization="max",
    metric="trajectory_l2",
    params={"beta": 1.0},
    generate=f"{HERE}.equation:generate",
    coarse=f"{HERE}.equation:coarse",
    coarse_levels=3,
    coords=f"{HERE}.equation:coords",
    chunk=16,
    scales={
        "smoke": Scale(grid=(32,), train=8, test=4, steps=4, recipe=SMOKE, options={**OPTIONS, "points": 256}),
        # Trajectories of 20 steps, in which shocks form and start to decay. Of 75 steps the first three have 98 % of
        # the squared residual: in effect a regression on the starts alone.
        "small": Scale(grid=(128,), train=256, test=128, steps=20, recipe=SMALL, options=OPTIONS),
        "medium": Scale(grid=(128,), train=1024, test=256, steps=20, recipe=MEDIUM, options=OPTIONS),
        "paper": Scale(grid=(256,), train=1800, test=200, steps=75, recipe=PAPER, options=OPTIONS),
    },
    citation=NEURAL_HSS,
    description="Ten sine modes with coefficients U(-1, 1) that steepen into shocks; second-order differences.",
)


@hookimpl
def pdebench_hss_tasks() -> list[TaskSpec]:
    return [BURGERS_1D]
