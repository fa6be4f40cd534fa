"""Darcy flow -div(a grad u) = 1 on the unit square: permeability in, pressure out."""

from __future__ import annotations

from pdebench_hss import Recipe, Scale, TaskSpec, hookimpl

HERE = "pdebench_hss_tasks.darcy"

FNO_PAPER = """@inproceedings{li2021fourier,
  title     = {{Fourier} Neural Operator for Parametric Partial Differential Equations},
  author    = {Li, Zongyi and Kovachki, Nikola and Azizzadenesheli, Kamyar and Liu, Burigede and
               Bhattacharya, Kaushik and Stuart, Andrew and Anandkumar, Anima},
  booktitle = {International Conference on Learning Representations},
  year      = {2021}
}"""

SMALL = Recipe(steps=500, batch=16, lr=2e-3, lr_min=1e-5, weight_decay=1e-4)
MEDIUM = Recipe(steps=2000, batch=16, lr=2e-3, lr_min=1e-5, weight_decay=1e-4)
PAPER = Recipe(epochs=500, batch=20, lr=1e-3, lr_min=1e-5, weight_decay=1e-4)

DARCY_2D = TaskSpec(
    name="darcy_2d",
    title="Darcy flow",
    equation="-div(a grad u) = 1 on (0, 1)^2, u = 0 on the boundary; a -> u",
    dim=2,
    in_channels=1,
    out_channels=1,
    linear=False,
    normalization="zscore",
    generate=f"{HERE}.flow:generate",
    coarse=f"{HERE}.flow:coarse",
    coarse_levels=3,
    coords=f"{HERE}.flow:cell_centres",
    params={"lognormal": False},
    scales={
        "smoke": Scale(grid=(16, 16), train=8, test=4, recipe=Recipe(steps=4, batch=4), options={"refine": 2}),
        "small": Scale(grid=(32, 32), train=512, test=256, recipe=SMALL, options={"refine": 4}),
        "medium": Scale(grid=(48, 48), train=2048, test=512, recipe=MEDIUM, options={"refine": 4}),
        "paper": Scale(grid=(64, 64), train=1000, test=200, recipe=PAPER, options={"refine": 4}),
    },
    chunk=16,
    citation=FNO_PAPER,
    description="Beyond the paper: the field's standard benchmark, with a = 3 or 12 by the sign of a Gaussian field as "
    "in Li et al. (2021), or a log-normal with lognormal=true; finite volumes.",
)


@hookimpl
def pdebench_hss_tasks() -> list[TaskSpec]:
    return [DARCY_2D]
