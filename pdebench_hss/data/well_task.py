"""A task from a directory of The Well's files: what is predicted, what is given, and how many samples there are.

Fields alone make a rollout task: a model learns one step and is scored on whole trajectories. With constant fields or
scalars given, which no model predicts, it is a task of pairs: the newest frames and what is given -> the next frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..base.errors import UsageError
from ..contract.task import Recipe, Scale, TaskSpec
from .well_layout import WellLayout, look
from .well_reading import windows_of

READER = "pdebench_hss.data.well_reading:read"
LONGEST = 20  # steps of a rollout, unless more are asked for
SMALL_VALUES = 4_000_000  # of the outputs that scale small trains on: minutes on two cores
SMALL_SAMPLES = {"train": 256, "test": 32}
SMOKE_SAMPLES = {"train": 8, "test": 4}
CITATION = """@inproceedings{ohana2024well,
  title     = {The {Well}: a Large-Scale Collection of Diverse Physics Simulations for Machine Learning},
  author    = {Ohana, Ruben and McCabe, Michael and Meyer, Lucas and Morel, Rudy and Agocs, Fruzsina J. and others},
  booktitle = {Advances in Neural Information Processing Systems, Datasets and Benchmarks Track},
  volume    = {37},
  year      = {2024}
}"""


@dataclass(frozen=True)
class WellChoice:
    """What a task takes from a data set of The Well; empty ``fields`` means all that vary in time."""

    folder: str
    fields: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    history: int = 1
    stride: int = 1
    steps: int = 0  # of a rollout; 0: as many as there are frames for, at most `LONGEST`


def well_task(name: str, choice: WellChoice, title: str = "") -> tuple[TaskSpec, str]:
    """The task, and a sentence that says what was found; raises a `PdebenchError` of one line."""
    layout = look(choice.folder)
    predicted = layout.choose(choice.fields, varying=True)
    if not predicted:
        raise UsageError(f"{choice.folder}: none of its fields varies in time, so there is nothing to predict")
    extra = layout.choose(choice.given, varying=False) if choice.given else ()
    rollout = not extra
    steps = _steps(layout, choice, rollout)
    channels = sum(field.components for field in predicted)
    frames = 1 if rollout else choice.history
    shape = {"stride": choice.stride, "steps": steps, "frames": frames, "rollout": rollout}
    counts = {split: len(windows_of(layout.files[split], **shape)) for split in ("train", "test")}
    if not all(counts.values()):
        raise UsageError(f"{choice.folder}: no trajectory is as long as {steps} steps of {choice.stride} frames")
    spec = TaskSpec(
        name=name,
        title=title or f"{layout.name} (The Well)",
        equation=f"{layout.name} of The Well",
        dim=layout.dim,
        in_channels=channels if rollout else channels * frames + sum(field.components for field in extra),
        out_channels=channels,
        linear=False,
        periodic=layout.periodic,
        boundary="periodic" if layout.periodic else "mixed",
        rollout=rollout,
        history=choice.history if rollout else 1,
        evolves=True,
        domain=_domain(layout),
        params={
            "fields": [field.name for field in predicted],
            "given": [field.name for field in extra],
            "stride": choice.stride,
            "frames": frames,
            "rollout": rollout,
        },
        read=READER,
        files=str(Path(choice.folder).absolute()),
        reads=tuple(f"data/{split}/{file.path.name}" for split in counts for file in layout.files[split]),
        normalization="zscore",
        dtype="float32",
        scales=_scales(layout, counts, steps, channels),
        citation=CITATION,
        description=_sentence(layout),
    )
    said = f"{name}: {_sentence(layout)}; {_what(predicted, extra, steps, choice, rollout)}; {_sizes(counts)}"
    return spec, said


def _steps(layout: WellLayout, choice: WellChoice, rollout: bool) -> int:
    """Of a rollout's trajectories, those that make up its first history included; 1 for pairs."""
    for what, value in (("history", choice.history), ("stride", choice.stride)):
        if value < 1:
            raise UsageError(f"--{what} must be at least 1, not {value}")
    longest = (layout.frames() - 1) // choice.stride
    wanted = (choice.steps or min(longest, LONGEST)) if rollout else choice.history
    if not rollout and choice.steps:
        raise UsageError("--steps is for rollouts, and a task with --given predicts one step; leave one of them out")
    if not choice.history <= wanted <= longest:
        raise UsageError(
            f"{wanted} steps of {choice.stride} frames with a history of {choice.history} were asked for; the files "
            f"have {layout.frames()} frames: at most {longest} steps, and a history of at most as many"
        )
    return wanted if rollout else 1


def _domain(layout: WellLayout) -> tuple[tuple[float, float], ...]:
    """With the spacing after the last point where all axes are periodic, as grids have it there."""
    if not layout.periodic:
        return layout.domain
    ends = zip(layout.domain, layout.grid, strict=True)
    return tuple((low, high + (high - low) / (n - 1)) for (low, high), n in ends)


def _scales(layout: WellLayout, counts: dict[str, int], steps: int, channels: int) -> dict[str, Scale]:
    """``paper`` has all windows; ``small`` a subset that trains in minutes."""
    values = int(np.prod(layout.grid)) * channels * steps  # of one sample's outputs
    affordable = max(SMOKE_SAMPLES["train"], SMALL_VALUES // values)
    small = {split: min(counts[split], most, affordable) for split, most in SMALL_SAMPLES.items()}
    smoke = {split: min(counts[split], most) for split, most in SMOKE_SAMPLES.items()}

    def scale(sizes: dict[str, int], recipe: Recipe) -> Scale:
        return Scale(layout.grid, train=sizes["train"], test=sizes["test"], steps=steps, recipe=recipe)

    return {
        "smoke": scale(smoke, Recipe(steps=4, batch=4)),
        "small": scale(small, Recipe(steps=300, batch=8)),
        "paper": scale(counts, Recipe(epochs=100, batch=16)),
    }


def _sentence(layout: WellLayout) -> str:
    kinds = [f"{axis} {kind.lower()}" for axis, kind in zip(layout.axes, layout.boundaries, strict=True)]
    return f"{layout.name} of The Well on {' x '.join(map(str, layout.grid))} points ({', '.join(kinds)})"


def _what(predicted: Sequence[object], extra: Sequence[object], steps: int, choice: WellChoice, rollout: bool) -> str:
    names = [", ".join(getattr(field, "name", "") for field in fields) for fields in (predicted, extra)]
    every = f" of {choice.stride} frames" if choice.stride > 1 else ""
    if rollout:
        return f"{names[0]} over {steps} steps{every}, history {choice.history}"
    return f"the next {names[0]} from {choice.history} frames{every} and {names[1]}"


def _sizes(counts: dict[str, int]) -> str:
    return f"{counts['train']} train / {counts['test']} test"
