"""What a task plugin provides (`TaskSpec`) and what a model is told about a task (`TaskInfo`).

Shapes, everywhere in the project:

* steady task     inputs ``(n, in_channels, *grid)``,  outputs ``(n, out_channels, *grid)``
* rollout task    inputs ``(n, channels, *grid)`` = u(0),  outputs ``(n, steps, channels, *grid)`` = u(dt), u(2 dt), ...
                  A model learns the residual u(t + dt) - u(t) of one step and is scored on whole trajectories
                  that it rolls out from u(0) by itself.
* with history k  a model sees the k newest frames, newest first: inputs ``(n, k * channels, *grid)``. It is given
                  u(0), ..., u((k - 1) dt) and scored on the ``steps - k + 1`` frames after them. The data are the same.

This module imports neither torch nor scipy, and numpy only when an array is asked for.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..base.errors import UsageError
from ..base.hashing import digest
from ..base.references import call_target, check_reference
from .budget import Budget
from .description import describe, without_module
from .optimizer import Optimizer
from .selection import check_options

if TYPE_CHECKING:
    import numpy as np

NAME = re.compile(r"[a-z][a-z0-9_]*")
SCALES = ("smoke", "small", "medium", "paper")
NORMALIZATIONS = ("max", "std", "zscore", "none")
METRICS = ("relative_l2", "trajectory_l2")
BOUNDARIES = ("dirichlet", "neumann", "periodic", "mixed")
DECISIVE = (
    *("normalization", "metric", "periodic", "boundary", "linear", "rollout", "domain"),
    *("view", "mask", "coords"),
)
EMPTY: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Recipe:
    """How models are trained on a task at one scale: batch, length (epochs or steps) and AdamW's numbers.

    Rollout tasks may train on ``unroll`` steps at a time, through all of which gradients flow unless ``detach`` is set.
    """

    batch: int
    epochs: int | None = None
    steps: int | None = None
    lr: float = 1e-3
    lr_min: float = 1e-5
    weight_decay: float = 0.0
    unroll: int = 1
    detach: bool = False

    def __post_init__(self) -> None:
        if (self.epochs is None) == (self.steps is None):
            raise ValueError("Recipe needs either epochs or steps")
        for name in ("batch", "epochs", "steps", "lr", "lr_min", "unroll"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"Recipe: {name} must be positive, not {value!r}")

    @property
    def budget(self) -> Budget:
        return Budget("epochs", self.epochs) if self.epochs is not None else Budget("steps", self.steps or 0)

    @property
    def optimizer(self) -> Optimizer:
        return Optimizer(self.batch, self.lr, self.lr_min, self.weight_decay)


@dataclass(frozen=True)
class Scale:
    """The size of a task: the grid models see, how many samples, how models are trained.

    ``options`` are the generator's own numbers at this scale (resolution of the solve, time step, ...): they
    are part of the dataset's identity. ``steps`` is the length of a rollout task's trajectories. ``resources`` is what
    any trial at this scale needs on a cluster, ``{"memory": "8G"}`` say (see `pdebench_hss.contract.resources`).
    """

    grid: tuple[int, ...]
    train: int
    test: int
    recipe: Recipe
    steps: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)
    resources: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "grid", tuple(int(n) for n in self.grid))
        for name in ("train", "test", "steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"Scale: {name} must be at least 1, not {getattr(self, name)}")
        if not self.grid or min(self.grid) < 2:
            raise ValueError(f"Scale: grid {self.grid} needs at least 2 points along each axis")


@dataclass(frozen=True, eq=False)  # a spec is itself: it holds mappings, and can still be a key
class TaskSpec:
    """One PDE learning problem. Light: everything heavy is a ``"package.module:function"`` reference. It has a
    generator of its data, or a reader of files, or both.

    generate    ``(seeds, size, **params) -> (inputs, outputs)``; ``seeds`` are integers, one per sample, and
                sample i depends on ``seeds[i]`` alone; ``size`` is the `Scale`. With ``cases > 1`` samples come
                in groups of ``cases`` that share one seed (one start, several parameters) and the function gets
                a further keyword ``cases``: the case number of each sample. Groups are never split between
                train and test.
    params      keyword arguments of ``generate`` (and ``coarse``) with defaults; ``task[name=value]`` sets them.
    dataset     tasks that name the same dataset share one file (forward and inverse problems); default: the
                task's own name. ``view`` then turns the stored ``(inputs, outputs)`` into this task's,
                each sample by itself.
    family      variants of one equation (other forcings, boundaries, dimensions, directions) name the same family:
                ranks over tasks count it as one task, because what wins on one variant is likely to win on the next.
                Default: the dataset.
    coarse      ``(inputs, level, size, **params) -> outputs``: the classical solver in physical units; level 0 is
                the dataset's own accuracy, each further level (up to ``coarse_levels``) is cheaper and worse.
                Returns arrays shaped like the task's outputs.
    residual    ``(inputs, outputs, size, **params) -> (residual, scale)``, each ``(n, ...)`` in physical units: what is
                left of the equation where it is evaluated, and what that is compared with. The scale follows from the
                inputs alone, so that no prediction can shrink its residual by it.
    mask        ``(grid) -> bool array``: the points inside the domain; only those are trained on and scored.
    coords      ``(grid) -> array (dim, *grid)``; default: equispaced on ``domain``, without the right end
                where periodic.
    history     how many frames a model of a rollout task sees; ``task[history=4]`` sets it for any of them.
    evolves     the first ``out_channels`` input channels are the same fields as the outputs at another time, so
                that "nothing changes" is a meaningful guess. Always true of rollout tasks.
    read        ``(directory, size, **params) -> {"train": (inputs, outputs), "test": (...)}`` from public files. A
                split too large for the memory may be an iterator of such pairs instead, one per block of samples.
    files       of a task without ``generate``: the directory that is read where ``--data-dir`` names none.
    reads       what of that directory is read: names or globs relative to it; empty: all of it. Only these files make
                up the identity of the data.
    options_at  ``(options, grid) -> options``: what the generator's numbers of a scale become on another grid, for
                ``pdebench-hss evaluate --grid``; without it they stay as they are.
    dtype       of the stored arrays.
    in_all      whether ``--tasks all`` includes it; a task that serves one study only has to be named.
    citation    BibTeX entries; ``pdebench-hss cite`` prints them to those who used the task.
    """

    name: str
    title: str
    equation: str
    dim: int
    in_channels: int
    out_channels: int
    scales: Mapping[str, Scale]
    linear: bool
    generate: str | Callable[..., Any] | None = None
    normalization: str = "max"
    metric: str = "relative_l2"
    periodic: bool = False
    boundary: str = ""
    rollout: bool = False
    history: int = 1
    evolves: bool = False
    domain: tuple[tuple[float, float], ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    cases: int = 1
    dataset: str = ""
    family: str = ""
    view: str | Callable[..., Any] | None = None
    coarse: str | Callable[..., Any] | None = None
    coarse_levels: int = 0
    residual: str | Callable[..., Any] | None = None
    mask: str | Callable[..., Any] | None = None
    coords: str | Callable[..., Any] | None = None
    read: str | Callable[..., Any] | None = None
    files: str = ""
    reads: tuple[str, ...] = ()
    options_at: str | Callable[..., Any] | None = None
    dtype: str = "float64"
    chunk: int = 0
    data_version: str = "1"
    in_all: bool = True
    citation: str = ""
    description: str = ""

    def __post_init__(self) -> None:
        who = f"task {self.name!r}"
        if not NAME.fullmatch(self.name):
            raise ValueError(f"{who}: a name is lower-case letters, digits and _, starting with a letter")
        _choose(who, "normalization", self.normalization, NORMALIZATIONS)
        _choose(who, "metric", self.metric, METRICS)
        _choose(who, "dtype", self.dtype, ("float32", "float64"))
        if not self.boundary:
            object.__setattr__(self, "boundary", "periodic" if self.periodic else "dirichlet")
        _choose(who, "boundary", self.boundary, BOUNDARIES)
        if not self.domain:
            object.__setattr__(self, "domain", ((0.0, 1.0),) * self.dim)
        if not self.dataset:
            object.__setattr__(self, "dataset", self.name)
        if not self.family:
            object.__setattr__(self, "family", self.dataset)
        if self.rollout:
            object.__setattr__(self, "evolves", True)
        for reference in ("generate", "view", "coarse", "residual", "mask", "coords", "read", "options_at"):
            value = getattr(self, reference)
            if value is not None:
                check_reference(value, who, reference)
        if self.generate is None and self.read is None:
            raise ValueError(f"{who}: needs generate or read, or it has no data")
        if self.files and (self.generate is not None or self.read is None):
            raise ValueError(f"{who}: files={self.files!r} belongs to a task with read and without generate")
        if self.dim < 1 or self.in_channels < 1 or self.out_channels < 1:
            raise ValueError(f"{who}: dim, in_channels and out_channels must be at least 1")
        if self.rollout and self.in_channels != self.out_channels:
            raise ValueError(f"{who}: a rollout task feeds its output back, so channels must agree")
        if self.history < 1 or (self.history > 1 and not self.rollout):
            raise ValueError(f"{who}: history={self.history}: at least 1, and more for rollout tasks only")
        if len(self.domain) != self.dim:
            raise ValueError(f"{who}: domain has {len(self.domain)} axes, dim is {self.dim}")
        if not self.scales:
            raise ValueError(f"{who}: needs at least one scale")
        for name, scale in self.scales.items():
            if name not in SCALES:
                raise ValueError(f"{who}: unknown scale {name!r}; scales are {', '.join(SCALES)}")
            if len(scale.grid) != self.dim:
                raise ValueError(f"{who}: scale {name} has a {len(scale.grid)}-d grid, dim is {self.dim}")
            if scale.train % self.cases or scale.test % self.cases:
                raise ValueError(f"{who}: scale {name}: train and test must be multiples of cases={self.cases}")
            if not self.rollout and scale.steps != 1:
                raise ValueError(f"{who}: scale {name}: steps belong to rollout tasks")

    @property
    def finds_its_data(self) -> bool:
        """Whether its data can be made or read without a ``--data-dir``."""
        return self.generate is not None or bool(self.files)

    def digest(self) -> str:
        """A hash of what, besides the data, can change a result: how fields are scaled, padded and scored."""
        later = {"history": self.history} if self.history > 1 else {}  # came later: tasks without it keep their hash
        decisive = {name: describe(without_module(getattr(self, name))) for name in DECISIVE}
        return digest({**decisive, **later})[:12]

    def with_options(self, options: Mapping[str, Any]) -> tuple[TaskSpec, dict[str, Any]]:
        """This task with what was set in brackets: with that history, and the parameters of its data that were set."""
        known = {"history": self.history, **self.params} if self.rollout else self.params
        chosen = check_options(options, known, f"task {self.name!r}")
        history = self.history if "history" in self.params else chosen.pop("history", self.history)
        if history < 1:
            raise UsageError(f"task {self.name!r}: history must be at least 1, not {history}")
        return (self if history == self.history else dataclasses.replace(self, history=history)), chosen

    def resized(self, scale: str, grid: tuple[int, ...], test: int) -> TaskSpec:
        """This task with another grid and number of test samples at a scale; of train it has one group of samples."""
        if len(grid) != self.dim:
            raise UsageError(f"task {self.name!r} has {self.dim} axes, and the grid {grid} has {len(grid)}")
        size = self.scales[scale]
        options = call_target(self.options_at)(size.options, grid) if self.options_at else size.options
        whole = -(-test // self.cases) * self.cases  # groups of samples are not split
        size = dataclasses.replace(size, grid=grid, train=self.cases, test=whole, options=options)
        return dataclasses.replace(self, scales={**self.scales, scale: size})

    def info(self, scale: str, params: Mapping[str, Any] = EMPTY) -> TaskInfo:
        """What a model is told when it is built for this task at this scale."""
        if self.history > (longest := self.scales[scale].steps):
            raise UsageError(
                f"task {self.name!r}: history={self.history}, but a trajectory at scale {scale} has {longest + 1} "
                f"frames, and one is left to predict: at most history={longest}"
            )
        return TaskInfo(spec=self, scale=scale, params={**self.params, **params})


@dataclass(frozen=True)
class TaskInfo:
    """A task at one scale, as models see it."""

    spec: TaskSpec
    scale: str
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def dim(self) -> int:
        return self.spec.dim

    @cached_property
    def size(self) -> Scale:
        """With history, trajectories are as long as what is left to predict."""
        size = self.spec.scales[self.scale]
        return size if self.history == 1 else dataclasses.replace(size, steps=size.steps - self.history + 1)

    @property
    def history(self) -> int:
        """Frames that a model sees, newest first; 1 for steady tasks."""
        return self.spec.history

    @property
    def grid(self) -> tuple[int, ...]:
        return self.size.grid

    @property
    def in_channels(self) -> int:
        return self.spec.in_channels * self.history

    @property
    def out_channels(self) -> int:
        return self.spec.out_channels

    @property
    def periodic(self) -> bool:
        return self.spec.periodic

    @property
    def boundary(self) -> str:
        return self.spec.boundary

    @property
    def linear(self) -> bool:
        return self.spec.linear

    @property
    def rollout(self) -> bool:
        return self.spec.rollout

    @property
    def evolves(self) -> bool:
        return self.spec.evolves

    @property
    def domain(self) -> tuple[tuple[float, float], ...]:
        return self.spec.domain

    def start_of(self, count: int) -> np.ndarray | None:
        """Which start each of the first ``count`` samples of a split belongs to; None where each has its own."""
        import numpy as np

        return np.arange(count) // self.spec.cases if self.spec.cases > 1 else None

    @cached_property
    def coords(self) -> np.ndarray:
        """Coordinates of the grid points, ``(dim, *grid)``."""
        import numpy as np

        if self.spec.coords is not None:
            return np.asarray(call_target(self.spec.coords)(self.grid), dtype=np.float64)
        axes = [
            np.linspace(low, high, n, endpoint=not self.periodic)
            for (low, high), n in zip(self.domain, self.grid, strict=True)
        ]
        return np.stack(np.meshgrid(*axes, indexing="ij"))

    @cached_property
    def mask(self) -> np.ndarray | None:
        """True inside the domain, shape ``grid``; None where every point is inside."""
        import numpy as np

        if self.spec.mask is None:
            return None
        return np.asarray(call_target(self.spec.mask)(self.grid), dtype=bool)

    @property
    def coarse_levels(self) -> int:
        return self.spec.coarse_levels if self.spec.coarse is not None else 0

    def coarse(self, inputs: np.ndarray, level: int) -> np.ndarray:
        """Solve by the task's classical solver at a coarser level; physical units in and out. Of several frames it
        starts from the newest."""
        if self.spec.coarse is None:
            raise ValueError(f"task {self.name!r} has no coarse solver")
        if not 0 <= level <= self.spec.coarse_levels:
            raise ValueError(f"task {self.name!r}: level {level} is outside 0..{self.spec.coarse_levels}")
        return call_target(self.spec.coarse)(self._newest(inputs), level, self.size, **self.params)

    def residual(self, inputs: np.ndarray, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What fields leave over in the task's equation, and what to compare it with (`TaskSpec.residual`)."""
        if self.spec.residual is None:
            raise ValueError(f"task {self.name!r} gives no residual of its equation")
        return call_target(self.spec.residual)(self._newest(inputs), outputs, self.size, **self.params)

    def _newest(self, inputs: np.ndarray) -> np.ndarray:
        return inputs if self.history == 1 else inputs[:, : self.out_channels]


def check_unroll(unroll: int, task: TaskInfo, who: str) -> None:
    """Whether windows of so many steps fit in a task's trajectories."""
    if unroll < 1:
        raise UsageError(f"{who}: unroll must be at least 1, not {unroll}")
    if unroll > 1 and not task.rollout:
        raise UsageError(f"{who}: unroll={unroll} is for rollout tasks, and {task.name!r} is steady")
    if unroll > task.size.steps:
        seen = f" after the {task.history} frames that a model sees" if task.history > 1 else ""
        raise UsageError(f"{who}: unroll={unroll}, but a trajectory of {task.name!r} has {task.size.steps} steps{seen}")


def _choose(who: str, name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{who}: {name} {value!r} is not one of {', '.join(allowed)}")
