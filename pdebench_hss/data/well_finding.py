"""What a task takes from a data set of The Well (`WellTaskFile`), found in its files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base.errors import UsageError
from ..contract.well_task_file import WellTaskFile
from .well_layout import WellLayout, look
from .well_reading import windows_of

LONGEST = 20  # steps of a rollout, unless more are asked for


def find(task: WellTaskFile) -> dict[str, Any]:
    """Plain values: channels by field, sizes, grid; raises a `PdebenchError` of one line if it can't be had."""
    layout = look(task.directory)
    predicted = layout.choose(task.fields, varying=True)
    if not predicted:
        raise UsageError(f"{task.directory}: none of its fields varies in time, so there is nothing to predict")
    given = layout.choose(task.given, varying=False) if task.given else ()
    steps = _steps(layout, task)
    windows = {
        split: windows_of(files, stride=task.stride, steps=steps, rollout=task.rollout)
        for split, files in layout.files.items()
    }
    return {
        "name": layout.name,
        "described": describe(layout),
        "fields": {field.name: field.components for field in predicted},
        "given": {field.name: field.components for field in given},
        "steps": steps if task.rollout else 1,
        "grid": list(layout.grid),
        "domain": [list(ends) for ends in _domain(layout)],
        "periodic": layout.periodic,
        "files": [_relative(file.path, layout.folder) for files in layout.files.values() for file in files],
        **{split: len(found) for split, found in windows.items()},
    }


def _relative(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix()


def _steps(layout: WellLayout, task: WellTaskFile) -> int:
    """Of a window: a rollout's, those of its history included, or from the oldest frame of a pair to its output."""
    longest = (layout.frames() - 1) // task.stride
    wanted = (task.steps or min(longest, LONGEST)) if task.rollout else task.history
    needed = max(wanted, task.history)
    if needed > longest:
        raise UsageError(
            f"{task.directory}: trajectories of {layout.frames()} frames have {longest} steps with a stride of "
            f"{task.stride}, and {needed} {'is' if needed == 1 else 'are'} needed with a history of {task.history}"
        )
    if wanted < task.history:
        most = f"steps must be {task.history} to {longest}"
        raise UsageError(f"{task.directory}: {most}, its history included; not {wanted}")
    return wanted


def _domain(layout: WellLayout) -> tuple[tuple[float, float], ...]:
    """With the spacing after the last point where all axes are periodic, as grids have it there."""
    if not layout.periodic:
        return layout.domain
    ends = zip(layout.domain, layout.grid, strict=True)
    return tuple((low, high + (high - low) / (n - 1)) for (low, high), n in ends)


def describe(layout: WellLayout) -> str:
    kinds = [f"{axis} {kind.lower()}" for axis, kind in zip(layout.axes, layout.boundaries, strict=True)]
    return f"{layout.name} of The Well on {' x '.join(map(str, layout.grid))} points ({', '.join(kinds)})"


def sentence(task: WellTaskFile, found: Mapping[str, Any]) -> str:
    """What was found, in words."""
    names = {what: ", ".join(found[what]) for what in ("fields", "given")}
    every = f" of {task.stride} frames" if task.stride > 1 else ""
    frames = f"{task.history} frames" if task.history > 1 else "the last one"
    if task.rollout:
        said = f"{names['fields']} over {found['steps']} steps{every}, from {frames}"
    else:
        said = f"the next {names['fields']}{every} from {frames}, given {names['given']}"
    return f"{task.name}: {found['described']}; {said}; {found['train']} train / {found['test']} test"
