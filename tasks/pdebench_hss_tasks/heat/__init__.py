"""The heat equation u_t = D u_xx on the interval: a rollout task."""

from __future__ import annotations

from pdebench_hss_studies.citation import NEURAL_HSS

from pdebench_hss import Recipe, Scale, TaskSpec, hookimpl

HERE = "pdebench_hss_tasks.heat"

# Frames every 0.2 as the paper generates them; a model learns a step of four frames, 0.8.
OPTIONS = {"points": 1024, "frame": 0.2, "stride": 4}

SMOKE = Recipe(steps=4, batch=4, lr=1e-3, lr_min=1e-5, weight_decay=1e-3)
SMALL = Recipe(steps=500, batch=64, lr=1e-3, lr_min=1e-5, weight_decay=1e-3)
MEDIUM = Recipe(steps=4000, batch=64, lr=1e-3, lr_min=1e-5, weight_decay=1e-3)
PAPER = Recipe(epochs=1000, batch=256, lr=1e-3, lr_min=1e-5, weight_decay=1e-3)

HEAT_1D = TaskSpec(
    name="heat_1d",
    title="Heat Eq.",
    equation="u_t = 0.0002 u_xx on (0, 1), u(0, t) = u(1, t) = 0; learn u(t) -> u(t + 0.8)",
    dim=1,
    in_channels=1,
    out_channels=1,
    linear=True,
    rollout=True,
    normalization="max",
    metric="trajectory_l2",
    generate=f"{HERE}.equation:generate",
    coarse=f"{HERE}.equation:coarse",
    residual=f"{HERE}.equation:residual",
    coarse_levels=3,
    chunk=256,
    scales={
        "smoke": Scale(grid=(32,), train=8, test=4, steps=4, recipe=SMOKE, options=OPTIONS),
        "small": Scale(grid=(128,), train=64, test=128, steps=10, recipe=SMALL, options=OPTIONS),
        "medium": Scale(grid=(256,), train=512, test=256, steps=10, recipe=MEDIUM, options=OPTIONS),
        "paper": Scale(grid=(256,), train=1800, test=200, steps=10, recipe=PAPER, options=OPTIONS),
    },
    citation=NEURAL_HSS,
    description="Ten sine modes with coefficients U(0, 1); second differences on 1024 points, exact in time.",
)


@hookimpl
def pdebench_hss_tasks() -> list[TaskSpec]:
    return [HEAT_1D]
