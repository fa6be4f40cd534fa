"""What a metric plugin hands over (`MetricSpec`) and what its function is told about a task (`Setting`).

A metric is a function of plain arrays with one value per sample, in physical units:

    def compute(prediction, target, setting):     # (n, channels, *grid); rollouts (n, steps, channels, *grid)
        return ...                                # (n,), float64

It is called in the process that holds the answers and no code of a model, with arrays in double precision that can't be
written to, for some samples at a time. What it returns for a sample must depend on that sample alone. NaN says that
the formula has no value there: the record then has no mean, and the trial is not worse for it.

Metrics that share work may name one function, which returns a mapping of their names; it is called once.
A metric is no part of a trial's key: it changes no result, and an older record merely lacks it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..base.references import check_reference
from .task import NAME, TaskSpec

if TYPE_CHECKING:
    import numpy as np

LOWER, HIGHER = "lower", "higher"
# What a task must be for a metric to make sense on it, and how that is said of a task that is not.
NEEDS: dict[str, tuple[Callable[[TaskSpec], bool], str]] = {
    "rollout": (lambda task: task.rollout, "is steady"),
    "steady": (lambda task: not task.rollout, "is a rollout task"),
    "periodic": (lambda task: task.periodic, "is not periodic"),
    "whole_grid": (lambda task: task.mask is None, "has points outside its domain"),
    "residual": (lambda task: task.residual is not None, "gives no residual of its equation"),
}
# Names that mean something else in a record or in results.csv.
RESERVED = frozenset(
    (
        *("key", "task", "equation", "model", "scale", "budget", "n_train", "seed", "metric", "params_real"),
        *("params_numel", "test_err", "val_err", "steps", "fit_seconds", "predict_ms", "peak_memory_mb", "flops_step"),
        *("status", "reason", "data_hash", "hardware", "params_target", "data_id", "device", "training_free"),
        *("fit_flops", "data_seconds", "training", "tuned_tries", "tuned_seconds", "tuned_options"),
        *("trust", "trust_machine", "trust_when"),
    )
)


@dataclass(frozen=True, eq=False)
class MetricSpec:
    """One way to look at a prediction. Light: ``compute`` is a ``"package.module:function"`` reference.

    formula     as people read it, in one line
    direction   ``"lower"`` or ``"higher"`` is better
    unit        ``"1"`` for a ratio, ``"field"`` for the units of the field, or what it counts
    needs       what a task must be (see `NEEDS`); on others the metric is not recorded
    undefined   what stands in a record where the formula has no value
    source      who defined it
    """

    name: str
    title: str
    formula: str
    compute: str | Callable[..., Any]
    direction: str = LOWER
    unit: str = "1"
    needs: tuple[str, ...] = ()
    undefined: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        who = f"metric {self.name!r}"
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            raise ValueError(f"{who}: a name is lower-case letters, digits and _, starting with a letter")
        if self.name in RESERVED:
            raise ValueError(f"{who}: the name is a column of results.csv; choose another")
        if self.direction not in (LOWER, HIGHER):
            raise ValueError(f"{who}: direction {self.direction!r} is not one of {LOWER}, {HIGHER}")
        if not self.formula:
            raise ValueError(f"{who}: needs a formula")
        for need in self.needs:
            if need not in NEEDS:
                raise ValueError(f"{who}: needs {need!r} is not one of {', '.join(NEEDS)}")
        check_reference(self.compute, who, "compute")

    @property
    def higher_is_better(self) -> bool:
        return self.direction == HIGHER

    def unsupported(self, task: TaskSpec) -> str:
        """Why it is not recorded on a task; empty if it is."""
        return next((NEEDS[need][1] for need in self.needs if not NEEDS[need][0](task)), "")


@dataclass(frozen=True)
class Setting:
    """What a metric is told of a task and of the samples it is given. Plain values and arrays.

    inputs     ``(n, in_channels, *grid)`` in physical units
    coords     ``(dim, *grid)``; ``spacing`` is the distance of neighbours along each axis
    mask       True inside the domain, shape ``grid``; None where every point is inside
    residual   ``fields -> (residual, scale)`` where the task has one (`TaskSpec.residual`), for these inputs
    """

    task: str
    dim: int
    grid: tuple[int, ...]
    inputs: np.ndarray
    coords: np.ndarray
    spacing: tuple[float, ...]
    mask: np.ndarray | None = None
    periodic: bool = False
    boundary: str = "dirichlet"
    rollout: bool = False
    params: Mapping[str, Any] = field(default_factory=dict)
    residual: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]] | None = None
