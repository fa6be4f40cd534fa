"""One network, two trainings: the core's, and its own of two stages, Adam and then L-BFGS. Both are in `model.py`."""

from __future__ import annotations

from typing import Any

from pdebench_hss import ModelSpec, TaskInfo, hookimpl

WIDTH = {"smoke": 6, "small": 16, "medium": 24, "paper": 48}


def supports(task: TaskInfo) -> str | None:
    return None if task.dim <= 3 else "1D to 3D only"


def network(task: TaskInfo, scale: str) -> dict[str, Any]:
    return {"width": WIDTH[scale], "layers": 4}


def two_stages(task: TaskInfo, scale: str) -> dict[str, Any]:
    return {**network(task, scale), "rate": 3e-3, "adam_share": 0.5}


@hookimpl
def pdebench_hss_models() -> list[ModelSpec]:
    common: dict[str, Any] = {"supports": supports, "size_knob": "width"}
    return [
        ModelSpec(
            name="cnn",
            title="CNN",
            build="pdebench_two_stage.model:CNN",
            hparams=network,
            description="Convolutions with tanh between them, trained by the core.",
            **common,
        ),
        ModelSpec(
            name="cnn_two_stage",
            title="CNN, two stages",
            build="pdebench_two_stage.model:TwoStage",
            hparams=two_stages,
            description="The same network, trained by Adam on batches and then by L-BFGS on all samples.",
            **common,
        ),
    ]
