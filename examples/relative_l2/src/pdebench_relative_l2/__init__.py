"""One network, two losses: mean squared error (the core's) and relative L2 (its own). The network is in `model.py`."""

from __future__ import annotations

from pdebench_hss import ModelSpec, TaskInfo, hookimpl

WIDTH = {"smoke": 6, "small": 16, "medium": 24, "paper": 48}


def hparams(task: TaskInfo, scale: str) -> dict[str, int]:
    return {"width": WIDTH[scale], "blocks": 2}


def supports(task: TaskInfo) -> str | None:
    return None if task.dim <= 3 else "1D to 3D only"


def dilated(name: str, title: str, build: str, description: str) -> ModelSpec:
    return ModelSpec(
        name=name,
        title=title,
        build=f"pdebench_relative_l2.model:{build}",
        hparams=hparams,
        supports=supports,
        size_knob="width",
        description=description,
    )


@hookimpl
def pdebench_hss_models() -> list[ModelSpec]:
    return [
        dilated("dilated", "Dilated", "Dilated", "Residual blocks of dilated convolutions, on the core's loss."),
        dilated("dilated_l2", "Dilated, relative L2", "DilatedRelativeL2", "The same network on relative L2."),
    ]
