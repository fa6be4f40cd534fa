"""DeepONet: a branch network reads the input at sensors, a trunk network makes the basis of the output."""

from __future__ import annotations

import math
from typing import Any

from pdebench_hss import ModelSpec, TaskInfo, hookimpl

# Width, depth and basis functions per output channel. The paper prints width and depth; the size of the basis follows
# from its parameter counts, except in 2D Poisson, where the count's 8 could not reach the error (docs/models.md).
# Gray-Scott has the 2.3M of Navier-Stokes if its four channels are read at every second point.
GRAY_SCOTT = {"width": 128, "depth": 4, "basis": 256, "sensor_stride": 2}
NAVIER_STOKES = {"width": 128, "depth": 4, "basis": 512}
PAPER = {
    "burgers_1d": {"width": 512, "depth": 4, "basis": 512},
    "gray_scott_forward": GRAY_SCOTT,
    "gray_scott_inverse": GRAY_SCOTT,
    "navier_stokes_forward": NAVIER_STOKES,
    "navier_stokes_inverse": NAVIER_STOKES,
    "poisson_3d": {"width": 128, "depth": 4, "basis": 128, "sensor_stride": 1},
}
# By dimension; three stands for all higher ones.
BY_DIM = {
    "paper": {
        1: {"width": 192, "depth": 4, "basis": 128},
        2: {"width": 64, "depth": 4, "basis": 100},
        3: {"width": 128, "depth": 4, "basis": 128},
    },
    "small": {
        1: {"width": 192, "depth": 4, "basis": 128},
        2: {"width": 64, "depth": 4, "basis": 100},
        3: {"width": 64, "depth": 4, "basis": 64},
    },
    "smoke": {dim: {"width": 16, "depth": 4, "basis": 8} for dim in (1, 2, 3)},
}
MANY_SENSORS = 32_768


def hparams(task: TaskInfo, scale: str) -> dict[str, Any]:
    row = PAPER.get(task.name) if scale == "paper" else None
    return {"sensor_stride": default_stride(task), **(row or BY_DIM[scale][min(task.dim, 3)])}


def default_stride(task: TaskInfo) -> int:
    """The smallest stride that leaves few enough sensors for the branch's first layer."""
    stride = 1
    while task.in_channels * math.prod(-(-n // stride) for n in task.grid) > MANY_SENSORS:
        stride += 1
    return stride


def recipe(task: TaskInfo, scale: str) -> dict[str, float]:
    """The paper trains the 3D DeepONet at its own learning rates."""
    return {"lr": 1e-3, "lr_min": 1e-5} if task.name == "poisson_3d" and scale == "paper" else {}


DEEPONET = ModelSpec(
    name="deeponet",
    title="DeepONet",
    build="pdebench_hss_models.deeponet.model:DeepONet",
    hparams=hparams,
    size_knob="width",
    recipe=recipe,
    citation="""@article{lu2021learning,
  title   = {Learning nonlinear operators via {DeepONet} based on the universal approximation theorem of operators},
  author  = {Lu, Lu and Jin, Pengzhan and Pang, Guofei and Zhang, Zhongqiang and Karniadakis, George Em},
  journal = {Nature Machine Intelligence},
  volume  = {3},
  pages   = {218--229},
  year    = {2021}
}""",
    description="Coefficients from a branch network times basis functions from a trunk network.",
)


@hookimpl
def pdebench_hss_models() -> list[ModelSpec]:
    return [DEEPONET]
