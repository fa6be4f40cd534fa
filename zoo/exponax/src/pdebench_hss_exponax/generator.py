"""The one generator of all tasks: random starts here, exponax in a process of its own (`solver`).

A scale's options say which of exponax's steppers, on a box of what extent, how far apart frames are (``frame``), how
many steps of the solver make one (``substeps``) and how many frames pass before the first that is seen (``warm_up``).
The task's parameters are the stepper's own arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdebench_hss import Scale

from . import solver
from .starts import start


def generate(seeds: Sequence[int], size: Scale, **settings: Any) -> tuple[np.ndarray, np.ndarray]:
    """First frames (n, channels, *grid) and the ones after them (n, steps, channels, *grid)."""
    starts = np.stack([start(seed, _points(size), len(size.grid), size.options) for seed in seeds])
    warm_up = size.options["warm_up"]
    frames = solver.march(request(size, 0, warm_up + size.steps, settings), starts)
    if not warm_up:
        return starts, frames
    return frames[:, warm_up - 1], frames[:, warm_up:]


def coarse(inputs: np.ndarray, level: int, size: Scale, **settings: Any) -> np.ndarray:
    """The frames after the inputs, on a grid of half the points and with half the steps for each level."""
    return solver.march(request(size, level, size.steps, settings), np.asarray(inputs, dtype=np.float64))


def request(size: Scale, level: int, frames: int, settings: dict[str, Any]) -> dict[str, Any]:
    """What the solver is asked, in plain values."""
    options, substeps = size.options, max(1, size.options["substeps"] >> level)
    return {
        "stepper": options["stepper"],
        "order": options.get("order"),  # of the time stepping; linear steppers are exact and have none
        "dim": len(size.grid),
        "extent": options["extent"],
        "points": _points(size) >> level,
        "dt": options["frame"] / substeps,
        "substeps": substeps,
        "frames": frames,
        "settings": settings,
    }


def _points(size: Scale) -> int:
    if len(set(size.grid)) > 1:
        raise ValueError(f"exponax has the same number of points along each axis, and the grid is {size.grid}")
    return size.grid[0]
