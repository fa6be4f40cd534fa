"""Poisson's equation -Lap u = f: interval, square, cube, L-shape, square minus a disk."""

from __future__ import annotations

from pdebench_hss import hookimpl
from pdebench_hss.task import Recipe, Scale, TaskSpec

HERE = "pdebench_hss_tasks.poisson"
PAPER = "Neural-HSS, section 'Data Specification', Poisson equation"
SMOKE = Recipe(steps=4, batch=4)

SMALL_1D = Recipe(steps=500, batch=32, lr=1e-3, lr_min=1e-5, weight_decay=1e-3)
PAPER_1D = Recipe(epochs=500, batch=256, lr=1e-3, lr_min=1e-5, weight_decay=1e-3)

POISSON_1D = TaskSpec(
    name="poisson_1d",
    title="Poisson Eq. 1D",
    equation="-u'' = f on (0, 1), u(0) = u(1) = 0",
    dim=1,
    in_channels=1,
    out_channels=1,
    linear=True,
    generate=f"{HERE}.dirichlet:generate_1d",
    coarse=f"{HERE}.dirichlet:coarse_1d",
    coarse_levels=4,
    params={"edge": 1},
    coords=f"{HERE}.grid:points",
    scales={
        "smoke": Scale(grid=(32,), train=8, test=4, recipe=SMOKE, options={"solve": (128,)}),
        "small": Scale(grid=(256,), train=256, test=200, recipe=SMALL_1D, options={"solve": (1024,)}),
        "paper": Scale(grid=(256,), train=1000, test=1000, recipe=PAPER_1D, options={"solve": (1024,)}),
    },
    citation=PAPER,
    description="Ten sine modes with coefficients U(0, 1); fourth-order five-band differences.",
)


@hookimpl
def pdebench_hss_tasks() -> list[TaskSpec]:
    return [POISSON_1D]
