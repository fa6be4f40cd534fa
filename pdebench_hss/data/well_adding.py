"""A data set of The Well in the list of tasks: its description goes into the cache, its files stay where they are.

cache/arrays/NAME/task.yaml     what ``data add-well`` was told and what was found (`WellTaskFile`)
"""

from __future__ import annotations

import dataclasses

import yaml

from ..base.errors import UsageError
from ..base.files import write_text
from ..base.places import arrays_dir
from ..contract.well_task_file import WellTaskFile, well_spec
from .well_finding import find, sentence


def add(task: WellTaskFile) -> str:
    """Register the task; returns what was found, in words."""
    place = arrays_dir() / task.name / "task.yaml"
    if place.exists():
        raise UsageError(f"{task.name!r} was added before; to replace it:  pdebench-hss data remove {task.name}")
    found = find(task)
    complete = dataclasses.replace(task, well=task.directory, found=found)
    well_spec(complete)  # raises for what no task can be
    write_text(place, yaml.safe_dump(complete.plain(), sort_keys=False, allow_unicode=True))
    return sentence(task, found)
