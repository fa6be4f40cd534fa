"""FactFormer: attention factorised over the axes of a 2D grid."""

from __future__ import annotations

import math
from typing import Any

from pdebench_hss import Integer, ModelSpec, OneOf, TaskInfo, around, hookimpl

from ..rates import tuned
from ..sizes import AIM, aim, nearest

ATTENTION = {"depth": 1, "heads": 1, "head_dim": 8, "kernel_multiplier": 1}
WIDTH = {"paper": 384, "smoke": 8}
# Scales in between: the widths that a step can afford, up to this many points and beyond.
MANY_POINTS = 2048
WIDEST = {"small": (40, 32), "medium": (64, 56)}


def hparams(task: TaskInfo, scale: str) -> dict[str, Any]:
    if scale not in AIM:
        return {"width": WIDTH[scale], **ATTENTION}
    largest = WIDEST[scale][math.prod(task.grid) > MANY_POINTS]
    return {"width": nearest(lambda w: 27 * w**2, aim(task, scale), step=8, largest=largest), **ATTENTION}


def search(task: TaskInfo, scale: str) -> dict[str, Any]:
    return {"width": around(hparams(task, scale)["width"]), "depth": Integer(1, 3), "head_dim": OneOf(4, 8, 16)}


def supports(task: TaskInfo) -> str | None:
    return None if task.dim == 2 else "2D only"


FACTFORMER = ModelSpec(
    name="factformer",
    title="FactFormer",
    build="pdebench_hss_models.factformer.model:FactFormer",
    any_grid=True,
    hparams=hparams,
    supports=supports,
    size_knob="width",
    recipe=tuned("factformer"),
    search=search,
    citation="""@inproceedings{li2023scalable,
  title     = {Scalable Transformer for {PDE} Surrogate Modeling},
  author    = {Li, Zijie and Shu, Dule and Barati Farimani, Amir},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {36},
  year      = {2023}
}""",
    description="Axis-wise attention kernels from pooled features, with a convolutional tail.",
)


@hookimpl
def pdebench_hss_models() -> list[ModelSpec]:
    return [FACTFORMER]
