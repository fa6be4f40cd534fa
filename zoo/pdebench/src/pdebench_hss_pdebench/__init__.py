"""Three tasks over PDEBench's HDF5 files (Takamoto et al. 2022), one for each of their layouts.

With ``--data-dir DIR`` the samples are read from the downloaded files. Without it they are made by small solvers of the
same equations, so that a model can be tried before the files are there. The two never share a result: where data come
from is part of a trial's key.
"""

from __future__ import annotations

from pdebench_hss import Recipe, Scale, TaskSpec, hookimpl

PDEBENCH = """@inproceedings{takamoto2022pdebench,
  title     = {{PDEBench}: An Extensive Benchmark for Scientific Machine Learning},
  author    = {Takamoto, Makoto and Praditia, Timothy and Leiteritz, Raphael and MacKinlay, Daniel and
               Alesiani, Francesco and Pfl{\\"u}ger, Dirk and Niepert, Mathias},
  booktitle = {Advances in Neural Information Processing Systems, Datasets and Benchmarks Track},
  volume    = {35},
  year      = {2022}
}"""

SMOKE, SMALL, PAPER = Recipe(steps=4, batch=4), Recipe(steps=300, batch=16), Recipe(epochs=500, batch=50)

# A model's step is five of the files' frames of 0.01.
ADVECTION = TaskSpec(
    name="pdebench_advection",
    title="Advection Eq. (PDEBench)",
    equation="u_t + beta u_x = 0 on (0, 1), periodic; learn u(t) -> u(t + 0.05)",
    dim=1,
    in_channels=1,
    out_channels=1,
    linear=True,
    periodic=True,
    rollout=True,
    params={"beta": 0.4},
    generate="pdebench_hss_pdebench.advection:generate",
    read="pdebench_hss_pdebench.readers:advection",
    coords="pdebench_hss_pdebench.readers:cell_centres",
    dtype="float32",
    scales={
        "smoke": Scale((32,), train=8, test=4, steps=4, recipe=SMOKE),
        "small": Scale((128,), train=128, test=32, steps=20, recipe=SMALL),
        "paper": Scale((256,), train=9000, test=1000, steps=40, recipe=PAPER),
    },
    citation=PDEBENCH,
    description="Two random sine waves carried around; exact.",
)

DARCY = TaskSpec(
    name="pdebench_darcy",
    title="Darcy Flow (PDEBench)",
    equation="-div(a grad u) = beta on the unit square, u = 0 on its boundary; learn a -> u",
    dim=2,
    in_channels=1,
    out_channels=1,
    linear=False,
    params={"beta": 1.0},
    generate="pdebench_hss_pdebench.darcy:generate",
    read="pdebench_hss_pdebench.readers:darcy",
    coords="pdebench_hss_pdebench.readers:cell_centres",
    dtype="float32",
    scales={
        "smoke": Scale((16, 16), train=8, test=4, recipe=SMOKE),
        "small": Scale((32, 32), train=256, test=64, recipe=SMALL),
        "paper": Scale((128, 128), train=9000, test=1000, recipe=PAPER),
    },
    citation=PDEBENCH,
    description="A permeability of two values, 0.1 and 1; finite volumes.",
)

# The files' starts are white noise, of which no coarser grid keeps anything: so the first frame is that at t = 0.5.
DIFFUSION_REACTION = TaskSpec(
    name="pdebench_diffusion_reaction",
    title="Diffusion-Reaction Eq. (PDEBench)",
    equation="u_t = 0.001 Lap u + u - u^3 - 0.005 - v,  v_t = 0.005 Lap v + u - v; learn (u, v)(t) -> (u, v)(t + 0.5)",
    dim=2,
    in_channels=2,
    out_channels=2,
    linear=False,
    boundary="neumann",
    rollout=True,
    domain=((-1.0, 1.0), (-1.0, 1.0)),
    generate="pdebench_hss_pdebench.diffusion_reaction:generate",
    read="pdebench_hss_pdebench.readers:diffusion_reaction",
    dtype="float32",
    scales={
        "smoke": Scale((16, 16), train=8, test=4, steps=2, recipe=SMOKE, options={"points": 32}),
        "small": Scale((32, 32), train=64, test=16, steps=9, recipe=SMALL, options={"points": 64}),
        "paper": Scale((128, 128), train=900, test=100, steps=9, recipe=PAPER, options={"points": 128}),
    },
    citation=PDEBENCH,
    description="FitzHugh-Nagumo from noise, no flow through the boundary; exact diffusion, split from the reaction.",
)


@hookimpl
def pdebench_hss_tasks() -> list[TaskSpec]:
    return [ADVECTION, DARCY, DIFFUSION_REACTION]
