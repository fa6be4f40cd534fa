"""DeepONet: a branch network reads the input at sensors, a trunk network makes the basis of the output."""

from __future__ import annotations

import math
from typing import Any

from pdebench_hss import Integer, ModelSpec, TaskInfo, around, hookimpl

from ..rates import tuned
from ..sizes import AIM, aim, nearest

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
PAPER_BY_DIM = {
    1: {"width": 192, "depth": 4, "basis": 128},
    2: {"width": 64, "depth": 4, "basis": 100},
    3: {"width": 128, "depth": 4, "basis": 128},
}
SMOKE = {"width": 16, "depth": 4, "basis": 8}
BASIS = {1: 128, 2: 100, 3: 64}  # scales in between; the width follows
MANY_SENSORS = {"small": 1024, "medium": 2048}  # with more, the branch's first layer would have most parameters
MANY_SENSORS_ELSEWHERE = 32_768


def hparams(task: TaskInfo, scale: str) -> dict[str, Any]:
    dim, stride = min(task.dim, 3), default_stride(task, MANY_SENSORS.get(scale, MANY_SENSORS_ELSEWHERE))
    if scale not in AIM:
        return {"sensor_stride": stride, **(SMOKE if scale == "smoke" else PAPER.get(task.name, PAPER_BY_DIM[dim]))}
    sensors, outputs = sensor_count(task, stride), BASIS[dim] * task.out_channels
    width = nearest(lambda w: (sensors + task.dim + 2 * outputs) * w + 4 * w**2, aim(task, scale), step=4)
    return {"sensor_stride": stride, "width": width, "depth": 4, "basis": BASIS[dim]}


def default_stride(task: TaskInfo, many: int) -> int:
    """The smallest stride that leaves few enough sensors for the branch's first layer."""
    stride = 1
    while sensor_count(task, stride) > many:
        stride += 1
    return stride


def sensor_count(task: TaskInfo, stride: int) -> int:
    return task.in_channels * math.prod(-(-n // stride) for n in task.grid)


def search(task: TaskInfo, scale: str) -> dict[str, Any]:
    default = hparams(task, scale)
    return {"width": around(default["width"]), "basis": around(default["basis"]), "depth": Integer(3, 6)}


def recipe(task: TaskInfo, scale: str) -> dict[str, float]:
    """The paper trains the 3D DeepONet at its own learning rates."""
    return {"lr": 1e-3, "lr_min": 1e-5} if task.name == "poisson_3d" and scale == "paper" else {}


DEEPONET = ModelSpec(
    name="deeponet",
    title="DeepONet",
    build="pdebench_hss_models.deeponet.model:DeepONet",
    any_grid="pdebench_hss_models.deeponet.model:on_another_grid",
    hparams=hparams,
    size_knob="width",
    recipe=tuned("deeponet", recipe),
    search=search,
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
