"""Models of the library neuraloperator (https://github.com/neuraloperator/neuraloperator), 2.x: what they are.

The networks are the library's own; `networks.py` tells them the task and nothing else.
"""

from __future__ import annotations

from typing import Any

from pdebench_hss import Integer, ModelSpec, OneOf, TaskInfo, around, hookimpl, needs_library

needs_library("neuraloperator", "2.0", "3")

HERE = "pdebench_hss_neuralop.networks"
LIBRARY = """@article{kossaifi2024library,
  title   = {A Library for Learning Neural Operators},
  author  = {Kossaifi, Jean and Kovachki, Nikola and Li, Zongyi and Pitt, David and Liu-Schiaffini, Miguel and
             George, Robert Joseph and Bonev, Boris and Azizzadenesheli, Kamyar and Berner, Julius and
             Anandkumar, Anima},
  journal = {arXiv preprint arXiv:2412.10354},
  year    = {2024}
}"""

# By dimension, three for all higher ones: channels, and modes in all (the library counts both signs).
WIDTH = {
    "smoke": {1: 6, 2: 6, 3: 4},
    "small": {1: 24, 2: 16, 3: 8},
    "medium": {1: 28, 2: 20, 3: 12},
    "paper": {1: 32, 2: 32, 3: 16},
}
MODES = {
    "smoke": {1: 6, 2: 6, 3: 4},
    "small": {1: 24, 2: 16, 3: 8},
    "medium": {1: 24, 2: 16, 3: 8},
    "paper": {1: 24, 2: 32, 3: 16},
}
LAYERS = {"smoke": 2, "small": 4, "medium": 4, "paper": 4}


def spectral(task: TaskInfo, scale: str) -> dict[str, Any]:
    """Of FNO: as many modes as the grid has at most."""
    return {
        "layers": LAYERS.get(scale, LAYERS["small"]),
        "width": at(WIDTH, task, scale),
        "modes": min(at(MODES, task, scale), min(task.grid)),
        "padding": 0.0,
    }


def at(table: dict[str, dict[int, int]], task: TaskInfo, scale: str) -> int:
    return table.get(scale, table["small"])[min(task.dim, 3)]


def factorized(task: TaskInfo, scale: str) -> dict[str, Any]:
    """Of TFNO: Tucker factors of the weights with a tenth of their entries, the library's default."""
    return {**spectral(task, scale), "width": 2 * at(WIDTH, task, scale), "rank": 0.1}


def u_shaped(task: TaskInfo, scale: str) -> dict[str, Any]:
    """Of UNO: the grid is halved `depth` times and doubled again."""
    default = spectral(task, scale)
    depth = next(n for n in (2, 1, 0) if n == 0 or min(task.grid) >> n >= 8)
    return {"width": default["width"], "modes": default["modes"], "depth": depth}


def space(task: TaskInfo, scale: str) -> dict[str, Any]:
    default = spectral(task, scale)
    third: dict[str, Any] = {"padding": OneOf(0.0, 0.25)}
    if task.periodic:
        third = {"layers": Integer(max(1, default["layers"] // 2), 2 * default["layers"])}
    return {"width": around(default["width"]), "modes": around(default["modes"], high=min(task.grid)), **third}


def u_shaped_space(task: TaskInfo, scale: str) -> dict[str, Any]:
    default = u_shaped(task, scale)
    return {"width": around(default["width"]), "modes": around(default["modes"], high=min(task.grid))}


def up_to_three_dimensions(task: TaskInfo) -> str | None:
    return None if task.dim <= 3 else "1D to 3D only"


MODELS = [
    ModelSpec(
        name="neuralop_fno",
        title="FNO (neuraloperator)",
        build=f"{HERE}:fno",
        hparams=spectral,
        supports=up_to_three_dimensions,
        size_knob="width",
        search=space,
        citation=LIBRARY,
        description="The library's FNO: spectral convolutions with channel MLPs and soft-gated skips.",
    ),
    ModelSpec(
        name="neuralop_tfno",
        title="TFNO (neuraloperator)",
        build=f"{HERE}:tfno",
        hparams=factorized,
        supports=up_to_three_dimensions,
        size_knob="width",
        search=space,
        citation=LIBRARY,
        description="The same with the weights of each layer as a Tucker decomposition.",
    ),
    ModelSpec(
        name="neuralop_uno",
        title="UNO (neuraloperator)",
        build=f"{HERE}:uno",
        hparams=u_shaped,
        supports=up_to_three_dimensions,
        size_knob="width",
        search=u_shaped_space,
        citation=LIBRARY,
        description="Spectral convolutions on a grid that is halved and doubled again, with skips.",
    ),
]


@hookimpl
def pdebench_hss_models() -> list[ModelSpec]:
    return MODELS
