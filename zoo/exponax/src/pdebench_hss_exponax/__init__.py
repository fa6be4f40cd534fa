"""Exponax's solvers on periodic boxes (https://github.com/Ceyron/exponax) as rollout tasks in 1D to 3D.

The equations are the library's steppers; a table says of each its size, its time step and its starts, and one generator
serves them all. Parameters in brackets are the stepper's own: ``exponax_burgers_2d[diffusivity=0.02]``.
"""

from __future__ import annotations

import math
from typing import Any

from pdebench_hss import Recipe, Scale, TaskSpec, hookimpl, needs_library

needs_library("exponax", "0.2", "0.3")

HERE = "pdebench_hss_exponax.generator"
APEBENCH = """@inproceedings{koehler2024apebench,
  title     = {{APEBench}: A Benchmark for Autoregressive Neural Emulators of {PDEs}},
  author    = {Koehler, Felix and Niedermayr, Simon and Westermann, R{\\"u}diger and Thuerey, Nils},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {37},
  year      = {2024}
}"""
TWO_PI = 2 * math.pi

# By dimension: grid, train, test, frames to predict, recipe.
SIZES = {
    1: {
        "smoke": ((32,), 8, 4, 4, Recipe(steps=4, batch=4)),
        "small": ((128,), 128, 32, 20, Recipe(steps=300, batch=32)),
        "paper": ((256,), 1024, 128, 40, Recipe(epochs=100, batch=64)),
    },
    2: {
        "smoke": ((32, 32), 8, 4, 2, Recipe(steps=4, batch=4)),
        "small": ((64, 64), 64, 16, 10, Recipe(steps=300, batch=16)),
        "paper": ((128, 128), 512, 64, 20, Recipe(epochs=50, batch=32)),
    },
    3: {
        "smoke": ((8, 8, 8), 4, 4, 2, Recipe(steps=4, batch=2)),
        "small": ((16, 16, 16), 32, 8, 5, Recipe(steps=200, batch=8)),
        "paper": ((32, 32, 32), 128, 32, 10, Recipe(epochs=50, batch=8)),
    },
}


def task(
    name: str,
    title: str,
    equation: str,
    stepper: str,
    dim: int,
    extent: float,
    params: dict[str, Any],
    frame: float,
    substeps: int,
    start: str = "waves",
    *,
    channels: int = 1,
    modes: int = 3,
    amplitude: float = 1.0,
    warm_up: int = 0,
    order: int | None = 4,
    levels: int = 2,
    linear: bool = False,
    description: str = "",
) -> TaskSpec:
    options = {
        **{"stepper": stepper, "extent": extent, "order": order, "frame": frame, "substeps": substeps},
        **{"warm_up": warm_up, "start": start, "modes": modes, "amplitude": amplitude, "channels": channels},
    }
    return TaskSpec(
        name=f"exponax_{name}",
        title=f"{title} (exponax)",
        equation=equation,
        dim=dim,
        in_channels=channels,
        out_channels=channels,
        linear=linear,
        periodic=True,
        rollout=True,
        normalization="std",
        domain=((0.0, extent),) * dim,
        params=params,
        generate=f"{HERE}:generate",
        coarse=f"{HERE}:coarse",
        coarse_levels=levels,
        chunk=64,  # every part starts a process with JAX
        scales={
            scale: Scale(grid, train=train, test=test, steps=steps, recipe=recipe, options=options)
            for scale, (grid, train, test, steps, recipe) in SIZES[dim].items()
        },
        citation=APEBENCH,
        description=description,
    )


TASKS = [
    task(
        "advection_1d",
        "Advection Eq.",
        "u_t + velocity u_x = 0 on a circle; learn u(t) -> u(t + 0.05)",
        *("Advection", 1, 1.0, {"velocity": 1.0}, 0.05, 1),
        modes=6,
        order=None,
        linear=True,
        description="Exact in Fourier space.",
    ),
    task(
        "korteweg_de_vries_1d",
        "Korteweg-de Vries Eq.",
        "u_t - 6 u u_x + u_xxx + hyper_diffusivity u_xxxx = 0 on a circle of length 20; learn u(t) -> u(t + 0.05)",
        *("KortewegDeVries", 1, 20.0, {"hyper_diffusivity": 0.0}, 0.05, 10),
        description="Solitons that pass through each other.",
    ),
    task(
        "kuramoto_sivashinsky_2d",
        "Kuramoto-Sivashinsky Eq. 2D",
        "u_t + |grad u|^2 / 2 + Lap u + Lap^2 u = 0 on a square of side 30, mean removed; learn u(t) -> u(t + 0.5)",
        *("KuramotoSivashinsky", 2, 30.0, {}, 0.5, 10),
        warm_up=100,
        levels=1,  # a quarter of the points is not stable
        description="Chaotic flame fronts, from states on the attractor.",
    ),
    task(
        "fisher_kpp_2d",
        "Fisher-KPP Eq.",
        "u_t = diffusivity Lap u + reactivity u (1 - u) on a square of side 10; learn u(t) -> u(t + 0.2)",
        *("FisherKPP", 2, 10.0, {"diffusivity": 0.1, "reactivity": 1.0}, 0.2, 4, "fronts"),
        description="Fronts that run into the state 0.",
    ),
    task(
        "swift_hohenberg_2d",
        "Swift-Hohenberg Eq.",
        "u_t = reactivity u - (1 + Lap)^2 u + u^2 - u^3 on a square of side 10 pi; learn u(t) -> u(t + 0.5)",
        *("SwiftHohenberg", 2, 5 * TWO_PI, {"reactivity": 0.7}, 0.5, 5),
        amplitude=0.5,
        description="Stripes and spots of one wavelength grow out of long waves.",
    ),
    task(
        "burgers_2d",
        "Burgers Eq. 2D",
        "u_t + (u . grad) u = diffusivity Lap u on a square of side 2 pi; learn u(t) -> u(t + 0.1)",
        *("Burgers", 2, TWO_PI, {"diffusivity": 0.1}, 0.1, 5),
        channels=2,
        modes=2,
        description="Two velocities that carry each other, with shocks of finite width.",
    ),
    task(
        "kolmogorov_flow_2d",
        "Kolmogorov Flow",
        "w_t + u . grad w = diffusivity Lap w + drag w + curl sin(4 y) on a square of side 2 pi; "
        "learn w(t) -> w(t + 0.2)",
        *("KolmogorovFlowVorticity", 2, TWO_PI, {"diffusivity": 0.03, "drag": -0.1}, 0.2, 20),
        warm_up=50,
        levels=1,  # a quarter of the points loses to standing still
        description="Vorticity of a flow that is driven by a shear and breaks up.",
    ),
    task(
        "allen_cahn_3d",
        "Allen-Cahn Eq. 3D",
        "u_t = diffusivity Lap u + u - u^3 on a cube of side 2 pi; learn u(t) -> u(t + 0.2)",
        *("AllenCahn", 3, TWO_PI, {"diffusivity": 0.05}, 0.2, 4),
        modes=1,
        amplitude=0.5,
        levels=1,
        description="Two phases that separate, with walls of finite width.",
    ),
    task(
        "navier_stokes_3d",
        "Navier-Stokes Eq. 3D",
        "u_t + (u . grad) u + grad p = diffusivity Lap u, div u = 0 on a cube of side 2 pi; learn u(t) -> u(t + 0.1)",
        *("NavierStokesVelocity", 3, TWO_PI, {"diffusivity": 0.1}, 0.1, 5, "solenoidal"),
        channels=3,
        modes=1,
        levels=1,
        description="Three velocities of a decaying flow without divergence.",
    ),
]


@hookimpl
def pdebench_hss_tasks() -> list[TaskSpec]:
    return TASKS
