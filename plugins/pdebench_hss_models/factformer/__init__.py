"""FactFormer: attention factorised over the axes of a 2D grid."""

from __future__ import annotations

from typing import Any

from pdebench_hss import ModelSpec, TaskInfo, hookimpl

HPARAMS = {
    "paper": {"width": 384, "depth": 1, "heads": 1, "head_dim": 8, "kernel_multiplier": 1},
    "small": {"width": 32, "depth": 1, "heads": 1, "head_dim": 8, "kernel_multiplier": 1},
    "smoke": {"width": 8, "depth": 1, "heads": 1, "head_dim": 4, "kernel_multiplier": 1},
}


def hparams(task: TaskInfo, scale: str) -> dict[str, Any]:
    return HPARAMS[scale]


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
