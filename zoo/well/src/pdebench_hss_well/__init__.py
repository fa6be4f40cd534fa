"""The networks of The Well's benchmark (https://github.com/PolymathicAI/the_well) as models: what they are.

The networks are the library's own; `networks.py` tells them the task and nothing else. Its FNO and TFNO are those of
neuraloperator, which `pdebench-hss-neuralop` brings.
"""

from __future__ import annotations

import math
from typing import Any

from pdebench_hss import Integer, ModelSpec, TaskInfo, around, hookimpl, needs_library

needs_library("the_well", "1.1", "2")

HERE = "pdebench_hss_well.networks"
THE_WELL = """@inproceedings{ohana2024well,
  title     = {The Well: a Large-Scale Collection of Diverse Physics Simulations for Machine Learning},
  author    = {Ohana, Ruben and McCabe, Michael and Meyer, Lucas and Morel, Rudy and Agocs, Fruzsina J. and
               Beneitez, Miguel and Berger, Marsha and Burkhart, Blakesley and others},
  booktitle = {Advances in Neural Information Processing Systems, Datasets and Benchmarks Track},
  volume    = {37},
  year      = {2024}
}"""

# Channels (of AViT: heads of 48 channels) by scale and dimension. At `small` about as many parameters as the built-in
# models have; at `paper` the U-Nets of Ohana et al. 2024 and the library's defaults of the others.
CLASSIC = {"smoke": {1: 2, 2: 2, 3: 2}, "small": {1: 4, 2: 3, 3: 2}, "paper": {1: 48, 2: 48, 3: 48}}
CONVNEXT = {"smoke": {2: 2, 3: 2}, "small": {2: 3, 3: 2}, "paper": {2: 42, 3: 42}}
DILATED = {"smoke": {1: 4, 2: 4, 3: 4}, "small": {1: 24, 2: 16, 3: 8}, "paper": {1: 32, 2: 32, 3: 32}}
HEADS = {"smoke": {2: 1, 3: 1}, "small": {2: 1, 3: 1}, "paper": {2: 16, 3: 16}}
POOLINGS = 4  # of U-Net classic: the number is fixed in the library
PATCH = 16  # of AViT


def at(table: dict[str, dict[int, int]], task: TaskInfo, scale: str) -> int:
    return table.get(scale, table["small"])[task.dim]


def halvings(task: TaskInfo) -> int:
    """How often every axis of the grid can be halved, at most four times and down to two points."""
    return next(n for n in range(POOLINGS, -1, -1) if all(size % 2**n == 0 and size >> n >= 2 for size in task.grid))


def unet_classic(task: TaskInfo, scale: str) -> dict[str, Any]:
    return {"width": at(CLASSIC, task, scale)}


def unet_convnext(task: TaskInfo, scale: str) -> dict[str, Any]:
    blocks = 2 if scale == "paper" else 1
    return {"width": at(CONVNEXT, task, scale), "stages": max(1, halvings(task)), "blocks": blocks}


def dilated_resnet(task: TaskInfo, scale: str) -> dict[str, Any]:
    return {"width": at(DILATED, task, scale), "blocks": 2 if scale == "smoke" else 4, "levels": 4}


def avit(task: TaskInfo, scale: str) -> dict[str, Any]:
    return {"heads": at(HEADS, task, scale), "blocks": 8 if scale == "paper" else 2}


def classic_space(task: TaskInfo, scale: str) -> dict[str, Any]:
    return {"width": around(unet_classic(task, scale)["width"])}


def convnext_space(task: TaskInfo, scale: str) -> dict[str, Any]:
    default = unet_convnext(task, scale)
    return {"width": around(default["width"]), "blocks": Integer(1, 2 * default["blocks"])}


def dilated_space(task: TaskInfo, scale: str) -> dict[str, Any]:
    default = dilated_resnet(task, scale)
    return {"width": around(default["width"]), "blocks": Integer(default["blocks"] // 2, 2 * default["blocks"])}


def avit_space(task: TaskInfo, scale: str) -> dict[str, Any]:
    default = avit(task, scale)
    return {"heads": Integer(1, 4 * default["heads"]), "blocks": Integer(1, 2 * default["blocks"])}


def up_to_three_dimensions(task: TaskInfo) -> str | None:
    return None if task.dim <= 3 else "1D to 3D only"


def pools_four_times(task: TaskInfo) -> str | None:
    """Four poolings, and batch norm, which needs two values per channel to normalise by in every batch."""
    if task.dim > 3:
        return "1D to 3D only"
    if any(n % 2**POOLINGS for n in task.grid):
        return f"four poolings need a grid of multiples of {2**POOLINGS}, not {_by(task.grid)}"
    recipe, train = task.size.recipe, task.size.train
    smallest = train if train < recipe.batch else train % recipe.batch or recipe.batch
    if smallest == 1 and math.prod(n >> POOLINGS for n in task.grid) == 1:
        return f"batch norm needs more than one value: a batch of 1 on a grid of {_by(task.grid)} leaves one"
    return None


def two_or_three_dimensions(task: TaskInfo) -> str | None:
    if task.dim not in (2, 3):
        return "2D and 3D only"
    if not halvings(task):
        return f"its stages halve the grid, which {_by(task.grid)} can't be"
    return None


def whole_patches(task: TaskInfo) -> str | None:
    if task.dim not in (2, 3):
        return "2D and 3D only"
    if any(n % PATCH or n < 2 * PATCH for n in task.grid):
        return f"needs two or more patches of {PATCH} points along each axis, not a grid of {_by(task.grid)}"
    return None


def _by(grid: tuple[int, ...]) -> str:
    return " x ".join(map(str, grid))


PADS = " Pads with zeros, also where fields wrap around."
MODELS = [
    ModelSpec(
        name="well_unet_classic",
        title="U-Net classic (The Well)",
        build=f"{HERE}:unet_classic",
        hparams=unet_classic,
        supports=pools_four_times,
        size_knob="width",
        search=classic_space,
        any_grid=True,
        citation=THE_WELL,
        description="Four poolings and back, convolutions with batch norm and tanh." + PADS,
    ),
    ModelSpec(
        name="well_unet_convnext",
        title="U-Net ConvNext (The Well)",
        build=f"{HERE}:unet_convnext",
        hparams=unet_convnext,
        supports=two_or_three_dimensions,
        size_knob="width",
        search=convnext_space,
        any_grid=True,
        citation=THE_WELL,
        description="A U-Net of ConvNeXt blocks: depthwise convolutions of 7 points, layer norm." + PADS,
    ),
    ModelSpec(
        name="well_dilated_resnet",
        title="Dilated ResNet (The Well)",
        build=f"{HERE}:dilated_resnet",
        hparams=dilated_resnet,
        supports=up_to_three_dimensions,
        size_knob="width",
        search=dilated_space,
        any_grid=True,
        citation=THE_WELL,
        description="Residual blocks of convolutions with dilations 1, 2, 4, 8, 4, 2, 1." + PADS,
    ),
    ModelSpec(
        name="well_avit",
        title="AViT (The Well)",
        build=f"{HERE}:avit",
        hparams=avit,
        supports=whole_patches,
        size_knob="heads",
        search=avit_space,
        citation=THE_WELL,
        description="Patches of 16 points along each axis, attention along one axis after the other.",
    ),
]


@hookimpl
def pdebench_hss_models() -> list[ModelSpec]:
    return MODELS
