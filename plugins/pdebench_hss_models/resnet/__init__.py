"""ResNet: residual blocks of 3-tap convolutions, padded by the task's boundary condition."""

from __future__ import annotations

from typing import Any

from pdebench_hss import ModelSpec, TaskInfo, hookimpl

# Blocks and width of the paper's tables. Its 2D rows print "depth 4, embedding 64", which has neither 165K nor
# 1.99M parameters; 4 blocks of width 48 and 12 blocks of width 96 have them (docs/models.md).
DYNAMICS = ("gray_scott_forward", "gray_scott_inverse", "navier_stokes_forward", "navier_stokes_inverse")
BY_NAME = {
    "paper": {
        "burgers_1d": {"blocks": 12, "width": 150},
        **{name: {"blocks": 12, "width": 96} for name in DYNAMICS},
    },
    "small": {name: {"blocks": 3, "width": 16} for name in DYNAMICS},
    "smoke": {},
}
BY_DIM = {
    "paper": {1: {"blocks": 12, "width": 48}, 2: {"blocks": 4, "width": 48}, 3: {"blocks": 2, "width": 48}},
    "small": {1: {"blocks": 6, "width": 24}, 2: {"blocks": 4, "width": 16}, 3: {"blocks": 2, "width": 8}},
    "smoke": {dim: {"blocks": 2, "width": 8} for dim in (1, 2, 3)},
}


def hparams(task: TaskInfo, scale: str) -> dict[str, Any]:
    return BY_NAME[scale].get(task.name, BY_DIM[scale][min(task.dim, 3)])


def recipe(task: TaskInfo, scale: str) -> dict[str, float]:
    """The paper trains the 3D ResNet at its own learning rates."""
    return {"lr": 1e-4, "lr_min": 1e-5} if task.name == "poisson_3d" and scale == "paper" else {}


def supports(task: TaskInfo) -> str | None:
    return None if task.dim <= 3 else "1D to 3D only"


RESNET = ModelSpec(
    name="resnet",
    title="ResNet",
    build="pdebench_hss_models.resnet.model:ResNet",
    hparams=hparams,
    supports=supports,
    size_knob="width",
    recipe=recipe,
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
