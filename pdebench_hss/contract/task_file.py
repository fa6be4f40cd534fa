"""A task without code: a YAML file that says which arrays it is made of.

    name: my_flow                  # the task
    inputs: x.npy                  # beside this file; data.npz:x, data.h5:group/x, data.zarr:x and data.pt:x name one
    outputs: y.npy                 #   of several arrays; a rollout is one array (n, time, ...) and has no outputs
    channels: last                 # first (default), last, or none where fields have no axis for channels
    rollout: false
    history: 1                     # frames that a model of a rollout sees
    split: 80/20                   # shares or counts: the first samples are train, the last are test
    split_by: data.npz:run         # a label per sample: samples of one label stay together; or the words train and test
    periodic: false
    linear: false
    evolves: false                 # inputs are the outputs' fields at an earlier time
    domain: [[0, 1], [0, 2]]       # default: 0 to 1 along every axis
    title, equation, description, citation, normalization, metric, boundary: as of `TaskSpec`

With the key ``well`` it is a data set of The Well (`well_task_file`). ``data add`` writes such a file beside its
copies, with what was found in the arrays (``found``), so that nothing heavy is imported and no array is opened to list
it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ..base.errors import UsageError
from ..base.references import resolve
from .array_scales import Extent, scales_of
from .file_keys import FileKeys
from .task import TaskSpec
from .well_task_file import WellTaskFile, well_spec

SUFFIXES = (".yaml", ".yml")
FORMATS = ("npy", "npz", "h5", "hdf5", "zarr", "pt", "pth", "csv")
_PLACE = re.compile(rf"(?P<file>.*?\.(?P<format>{'|'.join(FORMATS)}))/?(:(?P<name>.+))?", re.IGNORECASE)
CHANNELS = ("first", "last", "none")
READER = "pdebench_hss.data.arrays:read"
FINDER = "pdebench_hss.data.arrays:find"  # what is in the arrays of a file that does not say it itself


@dataclass(frozen=True)
class TaskFile(FileKeys):
    """Its keys. Places of arrays are relative to ``folder``."""

    name: str
    inputs: str
    outputs: str = ""
    channels: str = ""
    rollout: bool = False
    history: int = 1
    split: str = "80/20"
    split_by: str = ""
    periodic: bool = False
    linear: bool = False
    evolves: bool = False
    domain: Any = ()
    title: str = ""
    equation: str = ""
    description: str = ""
    citation: str = ""
    normalization: str = ""
    metric: str = "relative_l2"
    boundary: str = ""
    found: Mapping[str, Any] = field(default_factory=dict)
    folder: str = "."

    def __post_init__(self) -> None:
        self.check_values()
        if self.channels not in ("", *CHANNELS):
            raise UsageError(f"channels {self.channels!r}: one of {', '.join(CHANNELS)}")
        if self.rollout and self.outputs:
            raise UsageError("a rollout is one array (n, time, ...): leave out outputs")
        if not self.rollout and not self.outputs:
            raise UsageError("outputs are missing; only a rollout has none")

    @property
    def places(self) -> dict[str, str]:
        """The arrays by role, as they were written."""
        roles = {"inputs": self.inputs, "outputs": self.outputs}
        return {role: place for role, place in roles.items() if place}


def is_task_file(path: str | Path) -> bool:
    return str(path).lower().endswith(SUFFIXES)


def read_task_file(path: Path) -> TaskFile | WellTaskFile:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"task file {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise UsageError(f"task file {path}{line}: not valid YAML ({getattr(error, 'problem', 'not text')})") from None
    if not isinstance(content, dict):
        raise UsageError(f"task file {path}: expected keys and values, found a {type(content).__name__}")
    if "well" in content:
        return WellTaskFile.from_content(content, path)
    return TaskFile.from_content(content, path)


def spec_of(task: TaskFile | WellTaskFile) -> TaskSpec:
    """The task that a file describes; its arrays are opened only if it does not say what is in them."""
    if isinstance(task, WellTaskFile):
        return well_spec(task)
    found = task.found or resolve(FINDER)(task)
    inputs, outputs = found["inputs"], found["outputs"]  # channels and grid of each
    grid, steps = tuple(inputs[1:]), int(found["steps"])
    extent = Extent(found["train"], found["test"], grid, inputs[0] + outputs[0], steps, task.history)
    base, names = files_of(task)
    given = {"places": names, "axes": dict(found["axes"]), "rollout": task.rollout, "split": task.split}
    try:
        return TaskSpec(
            name=task.name,
            title=task.title or task.name.replace("_", " ").capitalize(),
            equation=task.equation or ("u(t + dt) = F(u(t))" if task.rollout else "y = F(x)"),
            dim=len(grid),
            in_channels=inputs[0],
            out_channels=outputs[0],
            linear=task.linear,
            read=READER,
            files=base,
            reads=tuple(sorted({_escaped(split_place(place, role)[0]) for role, place in names.items()})),
            scales=scales_of(extent, task.periodic, given),
            normalization=task.normalization or ("std" if task.linear else "zscore"),  # a shift is not linear
            metric=task.metric,
            periodic=task.periodic,
            boundary=task.boundary or ("periodic" if task.periodic else "mixed"),  # not known
            rollout=task.rollout,
            history=task.history,
            evolves=task.evolves,
            domain=_domain(task.domain, len(grid)),
            dtype=found["dtype"],
            in_all=False,  # what `--tasks all` means does not depend on whose machine it is
            citation=task.citation,
            description=task.description,
        )
    except ValueError as error:
        raise UsageError(str(error)) from None  # it names the task


def files_of(task: TaskFile) -> tuple[str, dict[str, str]]:
    """The folder that all files lie in, and the places relative to it, ``file:name``, by role."""
    split = {role: split_place(place, role) for role, place in task.places.items()}
    if task.split_by:  # a name alone is that of an array beside the inputs
        beside = not _PLACE.fullmatch(task.split_by)
        split["split_by"] = (split["inputs"][0], task.split_by) if beside else split_place(task.split_by, "split_by")
    paths = {role: os.path.abspath(os.path.join(task.folder, file)) for role, (file, _) in split.items()}
    base = os.path.commonpath([os.path.dirname(path) for path in paths.values()])
    files = {role: Path(path).relative_to(base).as_posix() for role, path in paths.items()}
    return base, {role: ":".join(filter(None, (files[role], split[role][1]))) for role in files}


def split_place(place: str, what: str) -> tuple[str, str]:
    """``data.h5:group/x`` -> its file, and the name of an array in it."""
    match = _PLACE.fullmatch(place)
    if not match:
        raise UsageError(f"{what} {place}: write a file that ends in .{', .'.join(FORMATS)}, or FILE:NAME")
    if match["name"] and match["format"].lower() == "npy":
        raise UsageError(f"{what} {place}: a .npy file holds one array and no names")
    return match["file"], match["name"] or ""


def _escaped(name: str) -> str:
    """As a glob that matches nothing else."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in name)


def _domain(domain: Any, dim: int) -> tuple[tuple[float, float], ...]:
    if not domain:
        return ()
    try:
        axes = tuple((float(low), float(high)) for low, high in domain)
    except (TypeError, ValueError):
        raise UsageError(f"domain {domain!r}: write a low and a high end per axis, [[0, 1], [0, 2]]") from None
    if len(axes) != dim or any(low >= high for low, high in axes):
        raise UsageError(f"domain {domain!r}: {dim} axes are needed, each with its low end first")
    return axes
