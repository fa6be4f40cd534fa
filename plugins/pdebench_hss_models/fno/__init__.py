"""Fourier Neural Operator: layers that multiply the lowest Fourier modes by learned matrices."""

from __future__ import annotations

from typing import Any

from pdebench_hss import ModelSpec, TaskInfo, hookimpl

# Layers, width and modes per sign of the paper's tables. For Gray-Scott and Navier-Stokes it prints 32 modes; 2.1M
# parameters are 32 in all, 16 per sign. Neumann's 102K are 4 layers, not the 6 of its table (docs/models.md).
DYNAMICS = {"layers": 4, "width": 32, "modes": 16}
PAPER = {
    "poisson_1d_neumann": {"layers": 4, "width": 32, "modes": 12},
    "burgers_1d": {"layers": 6, "width": 64, "modes": 32},
    "gray_scott_forward": DYNAMICS,
    "gray_scott_inverse": DYNAMICS,
    "navier_stokes_forward": DYNAMICS,
    "navier_stokes_inverse": DYNAMICS,
}
# By dimension; three stands for all higher ones.
BY_DIM = {
    "paper": {
        1: {"layers": 6, "width": 32, "modes": 12},
        2: {"layers": 4, "width": 16, "modes": 8},
        3: {"layers": 2, "width": 14, "modes": 8},
    },
    "small": {
        1: {"layers": 4, "width": 32, "modes": 12},
        2: {"layers": 4, "width": 16, "modes": 8},
        3: {"layers": 2, "width": 8, "modes": 6},
    },
    "smoke": {dim: {"layers": 2, "width": 4, "modes": 3} for dim in (1, 2, 3)},
}


def hparams(task: TaskInfo, scale: str) -> dict[str, Any]:
    row = PAPER.get(task.name) if scale == "paper" else None
    row = row or BY_DIM[scale][min(task.dim, 3)]
    modes = min(row["modes"], min(task.grid) // 2)  # a grid of n points has n/2 modes per sign
    return {**row, "modes": modes, "way": "auto"}  # fft, dft or auto: same numbers to rounding, see `ways`


FNO = ModelSpec(
    name="fno",
    title="FNO",
    build="pdebench_hss_models.fno.model:FNO",
    hparams=hparams,
    size_knob="width",
    citation="""@inproceedings{li2021fourier,
  title     = {Fourier Neural Operator for Parametric Partial Differential Equations},
  author    = {Li, Zongyi and Kovachki, Nikola and Azizzadenesheli, Kamyar and Liu, Burigede and
               Bhattacharya, Kaushik and Stuart, Andrew and Anandkumar, Anima},
  booktitle = {International Conference on Learning Representations},
  year      = {2021}
}""",
    description="Learned multipliers on the lowest Fourier modes, with a pointwise bypass.",
)


@hookimpl
def pdebench_hss_models() -> list[ModelSpec]:
    return [FNO]
