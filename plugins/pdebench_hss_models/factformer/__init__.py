"""FactFormer: attention factorised over the axes of a 2D grid."""

from __future__ import annotations

from typing import Any

from pdebench_hss import ModelSpec, TaskInfo, hookimpl

ATTENTION = {"depth": 1, "heads": 1, "head_dim": 8, "kernel_multiplier": 1}
WIDTH = {"paper": 384, "small": 24, "smoke": 8}
# At scale small these have four times the points of the others.
DYNAMICS = ("gray_scott_forward", "gray_scott_inverse", "navier_stokes_forward", "navier_stokes_inverse")


def hparams(task: TaskInfo, scale: str) -> dict[str, Any]:
    width = 16 if scale == "small" and task.name in DYNAMICS else WIDTH[scale]
    return {"width": width, **ATTENTION}


def supports(task: TaskInfo) -> str | None:
    return None if task.dim == 2 else "2D only"


FACTFORMER = ModelSpec(
    name="factformer",
    title="FactFormer",
    build="pdebench_hss_models.factformer.model:FactFormer",
    hparams=hparams,
    supports=supports,
    size_knob="width",
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
