"""A U-Net (Ronneberger, Fischer, Brox 2015) as a model of pdebench-hss: what it is. The network is in `model.py`."""

from __future__ import annotations

from pdebench_hss import ModelSpec, TaskInfo, hookimpl

WIDTH = {"smoke": 4, "small": 12, "medium": 16, "paper": 32}
MOST_LEVELS = 4
COARSEST = 4  # points that the deepest level keeps along the shortest axis, at least


def hparams(task: TaskInfo, scale: str) -> dict[str, int]:
    """As many halvings as the grid allows."""
    levels = next(n for n in range(MOST_LEVELS, -1, -1) if n == 0 or min(task.grid) >> n >= COARSEST)
    return {"width": WIDTH[scale], "levels": levels}


def supports(task: TaskInfo) -> str | None:
    return None if task.dim <= 3 else "1D to 3D only"


UNET = ModelSpec(
    name="unet",
    title="U-Net",
    build="pdebench_unet.model:UNet",
    hparams=hparams,
    supports=supports,
    size_knob="width",
    citation="""@inproceedings{ronneberger2015unet,
  title     = {{U-Net}: Convolutional Networks for Biomedical Image Segmentation},
  author    = {Ronneberger, Olaf and Fischer, Philipp and Brox, Thomas},
  booktitle = {Medical Image Computing and Computer-Assisted Intervention},
  pages     = {234--241},
  year      = {2015}
}""",
    description="Convolutions on a pyramid of halved grids, with skips between equal levels.",
)


@hookimpl
def pdebench_hss_models() -> list[ModelSpec]:
    return [UNET]
