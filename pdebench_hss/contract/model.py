"""What a model plugin provides: `ModelSpec`. Light: the network is named by a reference.

The network itself is anything that ``build(task, **hparams)`` returns:

* an ``nn.Module`` with ``forward(x)``, ``(batch, in_channels, *grid) -> (batch, out_channels, *grid)`` on
  normalised fields in float32. The core trains it.
  It may have methods ``loss(prediction, target, batch) -> scalar`` (``batch`` is a `pdebench_hss.Batch`), and
  ``configure_optimizer(parameters, recipe)`` that returns any torch optimiser (`pdebench_hss.training.optimizers`).
  Its batches may be computed in pieces whose gradients are added, the same step to rounding, where a whole one is too
  large for the cache or for ``--max-memory``. Whether that may be done is tried: random numbers, batch statistics and
  samples that see each other keep a batch whole. A class attribute ``pieces`` says more: with ``pieces = False`` a
  batch is never split; a model with its own ``loss`` needs ``pieces = True``, which promises a mean over samples
  (tried as well). See `pdebench_hss.training.pieces`.
* the same with a method ``fit(train, budget)``: it trains itself, on the device and in float32, and asks ``budget`` (a
  `pdebench_hss.training.allowance.Allowance`) how much of it is gone. The core watches; who overspends is not ranked.
* the same with a method ``fit(train)``: it fits itself (closed form). ``train`` has ``inputs``, ``outputs`` (normalised
  float64 tensors shaped like ``forward``'s), ``normalizer`` and ``task``. It is counted after the fit: its parameters,
  or its buffers if it has none, or what its method ``coefficient_count()`` returns. What it learns it registers as
  buffers, whose shape may follow from the data: a trial keeps its ``state_dict()``, and a copy must answer the same.
* the same with a method ``solve(inputs)``: it answers in physical units, numpy in and out, whole trajectories for
  rollout tasks, and is not trained (classical solvers).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..base.references import call_target, check_reference
from . import traits
from .search import Range, Space, check_space
from .task import NAME, TaskInfo

RATES = ("lr", "lr_min", "weight_decay")
WINDOW = ("unroll", "detach")  # of rollout tasks
RECIPE_KEYS = (*RATES, *WINDOW)
ROLES = ("", "solver", "guess")


@dataclass(frozen=True, eq=False)
class ModelSpec:
    """A model: how to build it, what it may be asked to do, and what turns its size.

    build           ``"package.module:Class"``, called as ``Class(task, **hparams)`` with a `TaskInfo`.
    hparams         a dict, or ``(task, scale) -> dict``: every hyper-parameter with its value for that task.
    supports        ``(task) -> reason | None``: why it can't do a task, in a few words; None if it can.
    size_knob       the integer hyper-parameter that ``--match-params`` turns.
    recipe          ``(task, scale) -> dict`` (or a dict): overrides of lr, lr_min, weight_decay, and of unroll and
                    detach on rollout tasks, where the model has its own. Budget and batch belong to the task and are
                    the same for everybody.
    training_free   true of baselines that the others' skill is measured against.
    deterministic   true of closed forms and solvers that use no random numbers: no seed changes their result, so they
                    are run once where others are run once a seed. ``check`` tries two seeds.
    role            ``"solver"``: a classical solver, which a model repays its training against; ``"guess"``: it knows
                    nothing of the problem, and a model that is no better repays nothing. Usually neither.
    version         raise it whenever a change can change a result: it is part of every trial's key.
    citation        BibTeX entries; ``pdebench-hss cite`` prints them to those who used the model.
    resources       what a trial needs on a cluster, ``{"cpus": 4, "gpus": 0.5, "memory": "8G"}``, or
                    ``(task, scale) -> dict``; see `pdebench_hss.contract.resources`.
    any_grid        whether trained weights can be used on another grid. True: what ``build`` makes for the task on that
                    grid takes the same state. A ``"module:function"``: ``(task, trained, **hparams)`` builds such a
                    model, ``trained`` being the task that the weights are of. False: they belong to one grid.
    search          what ``pdebench-hss tune`` may choose: options and their ranges, or ``(task, scale) -> dict``; see
                    `pdebench_hss.contract.search`. The learning rate is always among them.
    """

    name: str
    title: str
    build: str | Callable[..., Any]
    hparams: Mapping[str, Any] | Callable[[TaskInfo, str], Mapping[str, Any]] = field(default_factory=dict)
    supports: Callable[[TaskInfo], str | None] | None = None
    size_knob: str | None = None
    recipe: Mapping[str, float] | Callable[[TaskInfo, str], Mapping[str, float]] = field(default_factory=dict)
    training_free: bool = False
    deterministic: bool = False
    role: str = ""
    version: str = "1"
    citation: str = ""
    description: str = ""
    resources: Mapping[str, Any] | Callable[[TaskInfo, str], Mapping[str, Any]] = field(default_factory=dict)
    search: Space | Callable[[TaskInfo, str], Space] = field(default_factory=dict)
    any_grid: bool | str | Callable[..., Any] = False

    def __post_init__(self) -> None:
        who = f"model {self.name!r}"
        if not NAME.fullmatch(self.name):
            raise ValueError(f"{who}: a name is lower-case letters, digits and _, starting with a letter")
        if self.role not in ROLES:
            raise ValueError(f"{who}: unknown role {self.role!r}; roles are 'solver' and 'guess', or none")
        check_reference(self.build, who, "build")
        if not isinstance(self.any_grid, bool):
            check_reference(self.any_grid, who, "any_grid")
        if isinstance(self.hparams, Mapping) and self.size_knob and self.size_knob not in self.hparams:
            raise ValueError(f"{who}: size_knob {self.size_knob!r} is not among its hparams")
        if not callable(self.search):
            known = (*self.hparams, *RECIPE_KEYS) if isinstance(self.hparams, Mapping) else None
            check_space(self.search, known, who)

    def unsupported(self, task: TaskInfo) -> str | None:
        """Why this model can't do the task, or None."""
        return self.supports(task) if self.supports else None

    def hparams_for(self, task: TaskInfo) -> dict[str, Any]:
        return dict(self.hparams(task, task.scale) if callable(self.hparams) else self.hparams)

    def recipe_for(self, task: TaskInfo) -> dict[str, float]:
        overrides = dict(self.recipe(task, task.scale) if callable(self.recipe) else self.recipe)
        for key in overrides:
            if key not in RECIPE_KEYS:
                raise ValueError(f"model {self.name!r}: recipe may set {', '.join(RECIPE_KEYS)}, not {key!r}")
        return overrides

    def resources_for(self, task: TaskInfo) -> dict[str, Any]:
        return dict(self.resources(task, task.scale) if callable(self.resources) else self.resources)

    def search_for(self, task: TaskInfo) -> dict[str, Range]:
        """What may be tuned on this task, the learning rate first."""
        space = self.search(task, task.scale) if callable(self.search) else self.search
        return check_space(space, (*self.hparams_for(task), *RECIPE_KEYS), f"model {self.name!r}")

    def is_trained(self) -> bool:
        """Whether it is trained, as far as can be told without building it. Closed forms stay on the CPU."""
        model = self.model_class()
        return not self.training_free if model is None else not traits.is_closed_form(model)

    def model_class(self) -> type | None:
        """What ``build`` names, imported now; None if it is a function, or can't be imported (its trial says why)."""
        try:
            target = call_target(self.build)
        except Exception:
            return None
        return target if isinstance(target, type) else None

    def make(self, task: TaskInfo, hparams: Mapping[str, Any]) -> Any:
        """Build the network."""
        return call_target(self.build)(task, **hparams)

    def make_elsewhere(self, task: TaskInfo, trained: TaskInfo, hparams: Mapping[str, Any]) -> Any:
        """Build the network for a grid that is not that of its weights; only if ``any_grid`` says that it can."""
        if isinstance(self.any_grid, bool):
            return self.make(task, hparams)
        return call_target(self.any_grid)(task, trained, **hparams)
