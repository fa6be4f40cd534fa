"""Fourier Neural Operator: layers that multiply the lowest Fourier modes by learned matrices."""

from __future__ import annotations

from typing import Any

from pdebench_hss import Integer, ModelSpec, OneOf, TaskInfo, around, hookimpl

from ..rates import tuned
from ..sizes import AIM, aim, nearest

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
PAPER_BY_DIM = {
    1: {"layers": 6, "width": 32, "modes": 12},
    2: {"layers": 4, "width": 16, "modes": 8},
    3: {"layers": 2, "width": 14, "modes": 8},
}
SMOKE = {"layers": 2, "width": 4, "modes": 3}
WAY = {"way": "auto"}  # fft, dft or auto: the same numbers up to rounding, see `ways`
LAYERS_AND_MODES = {1: (4, 12), 2: (4, 8), 3: (2, 4)}  # scales in between; the width follows from them


def hparams(task: TaskInfo, scale: str) -> dict[str, Any]:
    dim, limit = min(task.dim, 3), min(task.grid) // 2  # a grid of n points has n/2 modes per sign
    if scale in AIM:
        layers, modes = LAYERS_AND_MODES[dim][0], min(LAYERS_AND_MODES[dim][1], limit)
        kept = 2 * (2 * modes) ** (task.dim - 1) * modes  # reals for each pair of channels
        width = nearest(lambda w: layers * (kept + 1) * w**2, aim(task, scale))
        return {"layers": layers, "width": width, "modes": modes, "padding": 0, **WAY}
    row = SMOKE if scale == "smoke" else PAPER.get(task.name, PAPER_BY_DIM[dim])
    return {**row, "modes": min(row["modes"], limit), "padding": 0, **WAY}


def search(task: TaskInfo, scale: str) -> dict[str, Any]:
    """Whether to keep the ends of a field that is not periodic apart: it helps on one task and hurts on another."""
    default, points = hparams(task, scale), min(task.grid)
    third: dict[str, Any] = {"padding": OneOf(0, points // 4)}
    if task.periodic:
        third = {"layers": Integer(max(1, default["layers"] // 2), 2 * default["layers"])}
    return {"width": around(default["width"]), "modes": around(default["modes"], high=points // 2), **third}


FNO = ModelSpec(
    name="fno",
    title="FNO",
    build="pdebench_hss_models.fno.model:FNO",
    any_grid=True,
    hparams=hparams,
    size_knob="width",
    recipe=tuned("fno"),
    search=search,
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
