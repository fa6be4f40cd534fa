"""The Kuramoto-Sivashinsky equation u_t + u u_x + u_xx + u_xxxx = 0 on a circle: a chaotic rollout task."""

from __future__ import annotations

from pdebench_hss import Recipe, Scale, TaskSpec, hookimpl

HERE = "pdebench_hss_tasks.kuramoto_sivashinsky"

# A model learns a step of `frame`, which takes `substeps` of the integrator; the first `warm_up` frames are not shown.
OPTIONS = {"frame": 1.0, "substeps": 20, "warm_up": 60}

SMALL = Recipe(steps=1000, batch=64, lr=2e-3, lr_min=1e-5)
MEDIUM = Recipe(steps=4000, batch=64, lr=2e-3, lr_min=1e-5)
PAPER = Recipe(epochs=100, batch=128, lr=1e-3, lr_min=1e-5)

KURAMOTO_SIVASHINSKY_1D = TaskSpec(
    name="kuramoto_sivashinsky_1d",
    title="Kuramoto-Sivashinsky Eq.",
    equation="u_t + u u_x + u_xx + u_xxxx = 0 on a circle of length 48; learn u(t) -> u(t + 1)",
    dim=1,
    in_channels=1,
    out_channels=1,
    linear=False,
    periodic=True,
    rollout=True,
    normalization="std",
    metric="relative_l2",
    domain=((0.0, 48.0),),
    generate=f"{HERE}.equation:generate",
    coarse=f"{HERE}.equation:coarse",
    coarse_levels=2,
    chunk=32,
    scales={
        "smoke": Scale(grid=(64,), train=8, test=4, steps=4, recipe=Recipe(steps=4, batch=4), options=OPTIONS),
        "small": Scale(grid=(128,), train=128, test=128, steps=30, recipe=SMALL, options=OPTIONS),
        "medium": Scale(grid=(128,), train=512, test=256, steps=30, recipe=MEDIUM, options=OPTIONS),
        "paper": Scale(grid=(256,), train=1024, test=128, steps=40, recipe=PAPER, options=OPTIONS),
    },
    description="Beyond the paper: chaos. Two trajectories that start almost alike part by a factor of e in about "
    "14 units of time, so errors of a rollout saturate. Fourier and ETDRK4, from states on the attractor.",
)


@hookimpl
def pdebench_hss_tasks() -> list[TaskSpec]:
    return [KURAMOTO_SIVASHINSKY_1D]
