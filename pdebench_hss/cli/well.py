"""``data add-well``: a data set of The Well as a task."""

from __future__ import annotations

from typing import Annotated

import typer

from ..base.errors import UsageError
from ..contract.registry import ARRAYS, load_registry
from ..contract.well_task_file import WellTaskFile


def add_well(
    name: Annotated[str, typer.Argument(help="What the task is called.")],
    directory: Annotated[str, typer.Argument(help="A data set of The Well: data/train/*.hdf5, data/test/*.hdf5.")],
    fields: Annotated[str, typer.Option(help="What is predicted, e.g. velocity,density.  [default: all]")] = "",
    given: Annotated[str, typer.Option(help="Constant fields and scalars that a model sees, e.g. Reynolds.")] = "",
    history: Annotated[int, typer.Option(min=1, help="How many frames a model sees.")] = 1,
    stride: Annotated[int, typer.Option(min=1, help="Frames of the files per step.")] = 1,
    steps: Annotated[int, typer.Option(min=0, help="Of a rollout.  [default: all there are, at most 20]")] = 0,
    title: Annotated[str, typer.Option(help="How tables call it.  [default: the data set's name]")] = "",
) -> None:
    """Make a task of a Cartesian data set of The Well. The files stay where they are; what a scale needs is read.

    Fields alone make a rollout task. With something given it is a task of pairs: frames and what is given -> the next.

    \b
    pdebench-hss data add-well shear_flow datasets/shear_flow
    pdebench-hss data add-well shear_flow datasets/shear_flow \\
        --fields velocity,tracer --history 4 --steps 10
    pdebench-hss data add-well shear_step datasets/shear_flow \\
        --given Reynolds,Schmidt --history 4
    """
    if name in (registry := load_registry()).tasks and registry.task(name).origin.distribution != ARRAYS:
        raise UsageError(f"there is a task {name!r} already ({registry.task(name).origin}); choose another name")
    task = WellTaskFile(
        name=name,
        well=directory,
        fields=_names(fields),
        given=_names(given),
        history=history,
        stride=stride,
        steps=steps,
        title=title,
    )
    from ..data import well_adding

    print(well_adding.add(task))
    print(f"run it:  pdebench-hss run --models all --tasks {name}")


def _names(text: str) -> tuple[str, ...]:
    return tuple(entry.strip() for entry in text.split(",") if entry.strip())
