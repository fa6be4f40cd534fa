"""Tasks over PDEBench's HDF5 files (Takamoto et al. 2022), in all three of their layouts.

With ``--data-dir DIR`` the samples are read from the downloaded files, wherever below that directory they are. Three
tasks have small solvers of their own too, so that a model can be tried before the files are there. The two never share
a result: where data come from is part of a trial's key.
"""

from __future__ import annotations

import re
from typing import Any

from pdebench_hss import Recipe, Scale, TaskSpec, hookimpl

HERE = "pdebench_hss_pdebench"
PDEBENCH = """@inproceedings{takamoto2022pdebench,
  title     = {{PDEBench}: An Extensive Benchmark for Scientific Machine Learning},
  author    = {Takamoto, Makoto and Praditia, Timothy and Leiteritz, Raphael and MacKinlay, Daniel and
               Alesiani, Francesco and Pfl{\\"u}ger, Dirk and Niepert, Mathias},
  booktitle = {Advances in Neural Information Processing Systems, Datasets and Benchmarks Track},
  volume    = {35},
  year      = {2022}
}"""

SMOKE, SMALL, PAPER = Recipe(steps=4, batch=4), Recipe(steps=300, batch=16), Recipe(epochs=500, batch=50)


def sizes(file: str, smoke: Any, small: Any, paper: Any, **options: Any) -> dict[str, Scale]:
    """Scales from (grid, train, test, steps); all of them read the same file."""
    found = {"smoke": (smoke, SMOKE), "small": (small, SMALL), "paper": (paper, PAPER)}
    return {
        name: Scale(grid, train=train, test=test, steps=steps, recipe=recipe, options={"file": file, **options})
        for name, ((grid, train, test, steps), recipe) in found.items()
    }


def task(name: str, layout: str, scales: dict[str, Scale], **settings: Any) -> TaskSpec:
    file = scales["smoke"].options["file"]
    return TaskSpec(
        name=f"pdebench_{name}",
        read=f"{HERE}.readers:{layout}",
        reads=("**/" + re.sub(r"{\w+}", "*", file),),
        scales=scales,
        dtype="float32",
        citation=PDEBENCH,
        **settings,
    )


SERIES_1D = (((32,), 8, 4, 4), ((128,), 128, 32, 20), ((256,), 9000, 1000, 20))
SERIES_2D = (((16, 16), 8, 4, 2), ((64, 64), 64, 16, 10), ((128, 128), 900, 100, 20))
CENTRES = f"{HERE}.readers:cell_centres"

# A model's step is five of the files' frames of 0.01.
ADVECTION = task(
    "advection",
    "one_array",
    sizes(
        "1D_Advection_Sols_beta{beta}.hdf5",
        *(((32,), 8, 4, 4), ((128,), 128, 32, 20), ((256,), 9000, 1000, 40)),
        stride=5,
    ),
    title="Advection Eq. (PDEBench)",
    equation="u_t + beta u_x = 0 on (0, 1), periodic; learn u(t) -> u(t + 0.05)",
    **{"dim": 1, "in_channels": 1, "out_channels": 1, "linear": True, "periodic": True, "rollout": True},
    params={"beta": 0.4},
    generate=f"{HERE}.advection:generate",
    coords=CENTRES,
    description="Two random sine waves carried around; exact.",
)

BURGERS = task(
    "burgers",
    "one_array",
    sizes("1D_Burgers_Sols_Nu{nu}.hdf5", *SERIES_1D, stride=5),
    title="Burgers Eq. (PDEBench)",
    equation="u_t + u u_x = (nu / pi) u_xx on (0, 1), periodic; learn u(t) -> u(t + 0.05)",
    **{"dim": 1, "in_channels": 1, "out_channels": 1, "linear": False, "periodic": True, "rollout": True},
    params={"nu": 0.01},
    coords=CENTRES,
    description="From files only.",
)

REACTION_DIFFUSION = task(
    "reaction_diffusion",
    "one_array",
    sizes("ReacDiff_Nu{nu}_Rho{rho}.hdf5", *SERIES_1D, stride=5),
    title="Reaction-Diffusion Eq. (PDEBench)",
    equation="u_t = nu u_xx + rho u (1 - u) on (0, 1), periodic; learn a step of five frames",
    **{"dim": 1, "in_channels": 1, "out_channels": 1, "linear": False, "periodic": True, "rollout": True},
    params={"nu": 0.5, "rho": 1.0},
    coords=CENTRES,
    description="From files only.",
)

DARCY = task(
    "darcy",
    "darcy",
    sizes(
        "2D_DarcyFlow_beta{beta}_Train.hdf5",
        *(((16, 16), 8, 4, 1), ((32, 32), 256, 64, 1), ((128, 128), 9000, 1000, 1)),
    ),
    title="Darcy Flow (PDEBench)",
    equation="-div(a grad u) = beta on the unit square, u = 0 on its boundary; learn a -> u",
    **{"dim": 2, "in_channels": 1, "out_channels": 1, "linear": False},
    params={"beta": 1.0},
    generate=f"{HERE}.darcy:generate",
    coords=CENTRES,
    description="A permeability of two values, 0.1 and 1; finite volumes.",
)

COMPRESSIBLE_1D = task(
    "compressible_1d",
    "array_per_field",
    sizes(
        "1D_CFD_Rand_Eta{eta}_Zeta{zeta}_periodic_Train.hdf5",
        *SERIES_1D,
        stride=5,
        fields=("density", "pressure", "Vx"),
    ),
    title="Compressible Navier-Stokes Eq. 1D (PDEBench)",
    equation="density, pressure and velocity of a viscous gas, periodic; learn a step of five frames",
    **{"dim": 1, "in_channels": 3, "out_channels": 3, "linear": False, "periodic": True, "rollout": True},
    params={"eta": 0.01, "zeta": 0.01},
    normalization="zscore",
    coords=CENTRES,
    description="From files only.",
)

COMPRESSIBLE_2D = task(
    "compressible_2d",
    "array_per_field",
    sizes(
        "2D_CFD_Rand_M{mach}_Eta{eta}_Zeta{zeta}_periodic_128_Train.hdf5",
        *SERIES_2D,
        stride=1,
        fields=("density", "pressure", "Vx", "Vy"),
    ),
    title="Compressible Navier-Stokes Eq. 2D (PDEBench)",
    equation="density, pressure and velocities of a viscous gas, periodic; learn a step of one frame",
    **{"dim": 2, "in_channels": 4, "out_channels": 4, "linear": False, "periodic": True, "rollout": True},
    params={"mach": 0.1, "eta": 0.01, "zeta": 0.01},
    normalization="zscore",
    coords=CENTRES,
    description="From files only.",
)

# The files' starts are white noise, of which no coarser grid keeps anything: so the first frame is that at t = 0.5.
DIFFUSION_REACTION = task(
    "diffusion_reaction",
    "group_per_sample",
    sizes(
        "2D_diff-react_NA_NA.h5",
        *(((16, 16), 8, 4, 2), ((32, 32), 64, 16, 9), ((128, 128), 900, 100, 9)),
        first=10,
        stride=10,
    ),
    title="Diffusion-Reaction Eq. (PDEBench)",
    equation="u_t = 0.001 Lap u + u - u^3 - 0.005 - v,  v_t = 0.005 Lap v + u - v; learn (u, v)(t) -> (u, v)(t + 0.5)",
    **{"dim": 2, "in_channels": 2, "out_channels": 2, "linear": False, "boundary": "neumann", "rollout": True},
    domain=((-1.0, 1.0), (-1.0, 1.0)),
    generate=f"{HERE}.diffusion_reaction:generate",
    description="FitzHugh-Nagumo from noise, no flow through the boundary; exact diffusion, split from the reaction.",
)

SHALLOW_WATER = task(
    "shallow_water",
    "group_per_sample",
    sizes("2D_rdb_NA_NA.h5", *SERIES_2D, stride=5),
    title="Shallow Water Eq. (PDEBench)",
    equation="the height of water after a radial dam break on (-2.5, 2.5)^2; learn a step of five frames",
    **{"dim": 2, "in_channels": 1, "out_channels": 1, "linear": False, "boundary": "neumann", "rollout": True},
    domain=((-2.5, 2.5), (-2.5, 2.5)),
    normalization="zscore",
    description="From files only.",
)

DIFFUSION_SORPTION = task(
    "diffusion_sorption",
    "group_per_sample",
    sizes("1D_diff-sorp_NA_NA.h5", *SERIES_1D, stride=5),
    title="Diffusion-Sorption Eq. (PDEBench)",
    equation="u_t = D / R(u) u_xx on (0, 1), u = 1 at the left end, a flux at the right; learn a step of five frames",
    **{"dim": 1, "in_channels": 1, "out_channels": 1, "linear": False, "boundary": "mixed", "rollout": True},
    description="From files only.",
)

TASKS = [ADVECTION, BURGERS, REACTION_DIFFUSION, DARCY, COMPRESSIBLE_1D, COMPRESSIBLE_2D]
TASKS += [DIFFUSION_REACTION, SHALLOW_WATER, DIFFUSION_SORPTION]


@hookimpl
def pdebench_hss_tasks() -> list[TaskSpec]:
    return TASKS
