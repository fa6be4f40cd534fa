"""What a dataset is before it exists: its recipe, its place in the cache, the seeds of its samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..base.hashing import digest, seed_from
from ..base.places import cache_dir
from ..base.plain_text import visible
from ..contract.description import describe
from ..contract.identity import generator_of
from ..contract.registry import Registered
from ..contract.task import Scale, TaskInfo, TaskSpec
from . import sources
from .sources import HashProgress, Source


@dataclass(frozen=True)
class Split:
    inputs: np.ndarray
    outputs: np.ndarray

    def __len__(self) -> int:
        return len(self.inputs)

    def __repr__(self) -> str:
        return f"{len(self)} samples: inputs {self.inputs.shape} -> outputs {self.outputs.shape}, {self.inputs.dtype}"

    @property
    def nbytes(self) -> int:
        return self.inputs.nbytes + self.outputs.nbytes


@dataclass(frozen=True, repr=False)
class TaskData:
    """A task's samples in physical units."""

    task: TaskInfo
    train: Split
    test: Split
    sha256: str
    seconds_per_sample: float | None = None

    def __repr__(self) -> str:
        """Five lines: what it is, the equation, where it lives, the samples, how models are trained and scored."""
        task, size = self.task, self.task.size
        domain = " x ".join(f"[{low:g}, {high:g}]" for low, high in task.domain)
        kind = f"rollout of {size.steps} steps" if task.rollout else "steady"
        history = f", {task.history} frames seen" if task.history > 1 else ""
        lines = [
            f"{task.name}: {task.spec.title.replace('--', '–')}, scale {task.scale}",
            task.spec.equation,
            f"grid {' x '.join(map(str, task.grid))} on {domain}, {task.boundary}, "
            f"{'linear' if task.linear else 'nonlinear'}, {kind}{history}",
            f"train {self.train.inputs.shape} -> {self.train.outputs.shape}, "
            f"test {self.test.inputs.shape} -> {self.test.outputs.shape}, {self.train.inputs.dtype}",
            f"trained with {size.recipe.budget}, batch {size.recipe.batch}; scored by {task.spec.metric}",
        ]
        return "\n".join(" ".join(visible(line).split()) for line in lines)


@dataclass(frozen=True)
class Resized:
    """Another size than that of a scale: `TaskSpec.resized`."""

    grid: tuple[int, ...]
    test: int


@dataclass(frozen=True)
class Dataset:
    """What a dataset is, before it exists."""

    task: Registered[TaskSpec]
    scale: str
    params: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    source: Source | None = None
    resized: Resized | None = None

    def with_size(self, wanted: Resized | None) -> Dataset:
        """The same data on another grid, with another number of test samples."""
        if wanted is None:
            return self
        spec = self.spec.resized(self.scale, wanted.grid, wanted.test)
        return replace(self, task=replace(self.task, spec=spec), resized=wanted)

    @property
    def spec(self) -> TaskSpec:
        return self.task.spec

    @property
    def size(self) -> Scale:
        return self.spec.scales[self.scale]

    @cached_property
    def recipe(self) -> dict[str, Any]:
        size = self.size
        return {
            "dataset": self.spec.dataset,
            "version": self.spec.data_version,
            "generator": generator_of(self.task),
            "scale": self.scale,
            "grid": list(size.grid),
            "sizes": {"train": size.train, "test": size.test},
            "steps": size.steps,
            "options": describe(size.options),
            "params": describe({**self.spec.params, **self.params}),
            "cases": self.spec.cases,
            "dtype": self.spec.dtype,
            "seed": self.seed,
            "source": self.source.id if self.source else "generated",
        }

    @cached_property
    def id(self) -> str:
        return digest(self.recipe)

    @property
    def path(self) -> Path:
        return data_dir() / f"{self.spec.dataset}-{self.scale}-v{self.spec.data_version}-s{self.seed}-{self.id[:10]}.h5"

    @property
    def title(self) -> str:
        grid = "x".join(map(str, self.size.grid))
        return f"{self.spec.dataset} {grid}, {self.size.train} train / {self.size.test} test"

    @property
    def sample_bytes(self) -> int:
        channels = self.spec.in_channels + self.spec.out_channels * self.size.steps
        return channels * int(np.prod(self.size.grid)) * np.dtype(self.spec.dtype).itemsize

    def seeds(self, split: str, start: int, stop: int) -> list[int]:
        return sample_seeds(self.spec, split, start, stop, self.seed)


def sample_seeds(spec: TaskSpec, split: str, start: int, stop: int, seed: int = 0) -> list[int]:
    """Per-sample seeds: the same for sample i whatever is made around it; samples of one group share one."""
    groups = (i // spec.cases for i in range(start, stop))
    return [seed_from("data", spec.dataset, split, seed, group) for group in groups]


def data_dir() -> Path:
    return cache_dir() / "data"


def find_source(
    spec: TaskSpec, data_dir: str | Path | None = None, progress: HashProgress = lambda path, done, total: None
) -> Source | None:
    """The files of a task, identified by their content: those that ``--data-dir`` names, or its own; None if its data
    are generated."""
    if not data_dir and spec.generate is not None:
        return None
    return sources.identify(spec, data_dir or spec.files, cache_dir() / "sources", progress)
