"""A task without code from a data set of The Well: a YAML file that names its directory and what is taken from it.

    name: shear_flow
    well: shear_flow               # a directory with data/train/*.hdf5 and data/test/*.hdf5
    fields: [velocity, tracer]     # what is predicted; default: all fields that vary in time
    given: [Reynolds]              # constant fields and scalars that a model sees and does not predict; default: none
    history: 1                     # frames that a model sees
    stride: 1                      # frames of the files per step
    steps: 20                      # of a rollout; default: as many as there are frames for, at most 20
    title, equation, description, citation, normalization, metric: as of `TaskSpec`

Fields alone make a rollout task: a model learns one step and is scored on trajectories that it rolls out. With
something given it is a task of pairs: the newest frames and what is given -> the next frame. ``found`` is what ``data
add`` found in the files, so that none of them is opened to list the task.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..base.errors import UsageError
from ..base.references import resolve
from .array_scales import Extent, scales_of
from .file_keys import FileKeys
from .task import TaskSpec

READER = "pdebench_hss.data.well_reading:read"
FINDER = "pdebench_hss.data.well_finding:find"
CITATION = """@inproceedings{ohana2024well,
  title     = {The {Well}: a Large-Scale Collection of Diverse Physics Simulations for Machine Learning},
  author    = {Ohana, Ruben and McCabe, Michael and Meyer, Lucas and Morel, Rudy and Agocs, Fruzsina J. and others},
  booktitle = {Advances in Neural Information Processing Systems, Datasets and Benchmarks Track},
  volume    = {37},
  year      = {2024}
}"""


@dataclass(frozen=True)
class WellTaskFile(FileKeys):
    """Its keys. The directory is relative to ``folder``."""

    name: str
    well: str
    fields: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    history: int = 1
    stride: int = 1
    steps: int = 0
    title: str = ""
    equation: str = ""
    description: str = ""
    citation: str = CITATION
    normalization: str = "zscore"
    metric: str = "relative_l2"
    found: Mapping[str, Any] = field(default_factory=dict)
    folder: str = "."

    def __post_init__(self) -> None:
        self.check_values()
        for name in ("fields", "given"):
            value = getattr(self, name)
            listed = (value,) if isinstance(value, str) else value
            if not isinstance(listed, (list, tuple)) or not all(isinstance(entry, str) for entry in listed):
                raise UsageError(f"{name} must be a name or a list of names, not {value!r}")
            object.__setattr__(self, name, tuple(listed))
        if self.given and self.steps:
            raise UsageError(
                "steps are of rollouts, and a task with something given predicts one: leave one of them out"
            )

    @property
    def directory(self) -> str:
        return os.path.abspath(os.path.join(self.folder, self.well))

    @property
    def rollout(self) -> bool:
        return not self.given


def well_spec(task: WellTaskFile) -> TaskSpec:
    """The task that a file describes; The Well's files are opened only if it does not say what is in them."""
    found = task.found or resolve(FINDER)(task)
    fields, given = found["fields"], found["given"]  # channels of each, by name
    channels, frames = sum(fields.values()), 1 if task.rollout else task.history
    seen = channels if task.rollout else channels * frames + sum(given.values())
    steps, periodic = int(found["steps"]), bool(found["periodic"])
    extent = Extent(
        found["train"], found["test"], tuple(found["grid"]), seen + channels, steps, task.history if task.rollout else 1
    )
    options = {"fields": list(fields), "given": list(given), "stride": task.stride, "frames": frames}
    return TaskSpec(
        name=task.name,
        title=task.title or f"{found['name']} (The Well)",
        equation=task.equation or f"{found['name']} of The Well",
        dim=len(extent.grid),
        in_channels=seen,
        out_channels=channels,
        linear=False,
        read=READER,
        files=task.directory,
        reads=tuple(found["files"]),
        scales=scales_of(extent, periodic, options),
        normalization=task.normalization,
        metric=task.metric,
        periodic=periodic,
        boundary="periodic" if periodic else "mixed",  # what kind of wall is not in the files
        rollout=task.rollout,
        history=task.history if task.rollout else 1,
        evolves=True,
        domain=tuple((float(low), float(high)) for low, high in found["domain"]),
        dtype="float32",
        in_all=False,  # what `--tasks all` means does not depend on whose machine it is
        citation=task.citation,
        description=task.description or str(found["described"]),
    )
