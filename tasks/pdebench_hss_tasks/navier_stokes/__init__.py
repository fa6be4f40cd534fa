"""Incompressible Navier-Stokes in vorticity form on the torus: vorticity at t = 0 <-> vorticity at t = 1."""

from __future__ import annotations

from typing import Any

from pdebench_hss_studies.citation import NEURAL_HSS

from pdebench_hss import Recipe, Scale, TaskSpec, hookimpl

HERE = "pdebench_hss_tasks.navier_stokes"

# The data that the paper uses; ours are made by the same recipe.
DIFFUSION_PDE = """@inproceedings{huang2024diffusionpde,
  title     = {{DiffusionPDE}: Generative {PDE}-Solving Under Partial Observation},
  author    = {Huang, Jiahe and Yang, Guandao and Wang, Zichen and Park, Jeong Joon},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {37},
  year      = {2024}
}"""

OPTIONS = {"steps": 20}  # of the integrator, over the whole unit of time

SMOKE = Recipe(steps=4, batch=4, lr=1e-3, lr_min=1e-5)
SMALL = Recipe(steps=300, batch=8, lr=1e-3, lr_min=1e-5)
MEDIUM = Recipe(steps=2000, batch=8, lr=1e-3, lr_min=1e-5)
PAPER = Recipe(epochs=10, batch=64, lr=1e-3, lr_min=1e-5)

COMMON: dict[str, Any] = {
    "dim": 2,
    "in_channels": 1,
    "out_channels": 1,
    "linear": False,
    "periodic": True,
    "evolves": True,
    "normalization": "std",
    "dataset": "navier_stokes",
    "generate": f"{HERE}.equation:generate",
    "read": f"{HERE}.diffusionpde:read",
    "coarse_levels": 3,
    "dtype": "float32",
    "chunk": 50,
    "scales": {
        "smoke": Scale(grid=(32, 32), train=8, test=4, recipe=SMOKE, options=OPTIONS),
        "small": Scale(grid=(64, 64), train=400, test=200, recipe=SMALL, options=OPTIONS),
        "medium": Scale(grid=(64, 64), train=4096, test=512, recipe=MEDIUM, options=OPTIONS),
        "paper": Scale(grid=(128, 128), train=50_000, test=1_000, recipe=PAPER, options=OPTIONS),
    },
    "citation": f"{NEURAL_HSS}\n\n{DIFFUSION_PDE}",
}

FORWARD = TaskSpec(
    name="navier_stokes_forward",
    title="NS Eq. (Forward)",
    equation="w_t + v . grad w = 0.001 Lap w + q on the unit torus; w(0) -> w(1)",
    coarse=f"{HERE}.equation:coarse_forward",
    description="Gaussian random vorticity, steady diagonal forcing, Re = 1000, one unit of time.",
    **COMMON,
)

INVERSE = TaskSpec(
    name="navier_stokes_inverse",
    title="NS Eq. (Inverse)",
    equation="w_t + v . grad w = 0.001 Lap w + q on the unit torus; w(1) -> w(0)",
    view=f"{HERE}.equation:swap",
    coarse=f"{HERE}.equation:coarse_inverse",
    description="The forward task's data read backwards in time: ill-posed, what diffusion erased is gone.",
    **COMMON,
)


@hookimpl
def pdebench_hss_tasks() -> list[TaskSpec]:
    return [FORWARD, INVERSE]
