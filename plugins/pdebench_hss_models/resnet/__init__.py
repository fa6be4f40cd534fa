"""ResNet: residual blocks of 3-tap convolutions, padded by the task's boundary condition."""

from __future__ import annotations

import math
from typing import Any

from pdebench_hss import Integer, ModelSpec, TaskInfo, around, hookimpl

from ..rates import tuned
from ..sizes import AIM, WEIGHT_DECAY, aim, nearest

# Blocks and width of the paper's tables. Its 2D rows print "depth 4, embedding 64", which has neither 165K nor
# 1.99M parameters; 4 blocks of width 48 and 12 blocks of width 96 have them (docs/models.md).
DYNAMICS = ("gray_scott_forward", "gray_scott_inverse", "navier_stokes_forward", "navier_stokes_inverse")
PAPER = {"burgers_1d": {"blocks": 12, "width": 150}, **{name: {"blocks": 12, "width": 96} for name in DYNAMICS}}
PAPER_BY_DIM = {1: {"blocks": 12, "width": 48}, 2: {"blocks": 4, "width": 48}, 3: {"blocks": 2, "width": 48}}
SMOKE = {"blocks": 2, "width": 8}
# Scales in between: blocks by dimension, and the widths that a step can afford. On a CPU a convolution of 24 channels
# costs as much as one of 32, so widths are multiples of 16.
BLOCKS = {1: 8, 2: 3, 3: 2}
MANY_POINTS = 2048  # beyond them, in 2D, one block fewer
WIDEST = {"small": {1: 32, 2: 32, 3: 16}, "medium": {1: 32, 2: 48, 3: 32}}


def hparams(task: TaskInfo, scale: str) -> dict[str, Any]:
    if scale in AIM:
        return affordable(task, scale)
    return SMOKE if scale == "smoke" else PAPER.get(task.name, PAPER_BY_DIM[task.dim])


def affordable(task: TaskInfo, scale: str) -> dict[str, int]:
    blocks = BLOCKS[task.dim] - (task.dim == 2 and math.prod(task.grid) > MANY_POINTS)
    per_square = 2 * 3**task.dim * blocks
    width = nearest(lambda w: per_square * w**2, aim(task, scale), step=16, largest=WIDEST[scale][task.dim])
    return {"blocks": blocks, "width": width}


def search(task: TaskInfo, scale: str) -> dict[str, Any]:
    default = hparams(task, scale)
    return {
        "width": around(default["width"]),
        "blocks": Integer(max(1, default["blocks"] // 2), 2 * default["blocks"]),
        "weight_decay": WEIGHT_DECAY,
    }


def recipe(task: TaskInfo, scale: str) -> dict[str, float]:
    """The paper trains the 3D ResNet at its own learning rates."""
    return {"lr": 1e-4, "lr_min": 1e-5} if task.name == "poisson_3d" and scale == "paper" else {}


def supports(task: TaskInfo) -> str | None:
    return None if task.dim <= 3 else "1D to 3D only"


RESNET = ModelSpec(
    name="resnet",
    title="ResNet",
    build="pdebench_hss_models.resnet.model:ResNet",
    any_grid=True,
    hparams=hparams,
    supports=supports,
    size_knob="width",
    recipe=tuned("resnet", recipe),
    search=search,
    citation="""@inproceedings{he2016deep,
  title     = {Deep Residual Learning for Image Recognition},
  author    = {He, Kaiming and Zhang, Xiangyu and Ren, Shaoqing and Sun, Jian},
  booktitle = {IEEE Conference on Computer Vision and Pattern Recognition},
  pages     = {770--778},
  year      = {2016}
}""",
    description="Residual blocks of two 3-tap convolutions; padding follows the boundary condition.",
)


@hookimpl
def pdebench_hss_models() -> list[ModelSpec]:
    return [RESNET]
