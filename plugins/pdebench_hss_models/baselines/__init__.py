"""Baselines that need no gradient: what a trained model has to beat before its error means anything.

mean              the average training output
persistence       nothing changes (tasks that evolve a field)
linear            the best linear map, in closed form
linear_symmetric  the best symmetric linear map, in closed form (one-channel linear tasks)
coarse_solver     the task's own classical solver at lower resolution
"""

from __future__ import annotations

from typing import Any

from pdebench_hss import ModelSpec, TaskInfo, hookimpl


def needs_evolution(task: TaskInfo) -> str | None:
    return None if task.evolves else "inputs and outputs are different fields"


def needs_square_operator(task: TaskInfo) -> str | None:
    if not task.linear:
        return "needs a linear PDE"
    return None if (task.in_channels, task.out_channels) == (1, 1) else "needs one input and one output channel"


def needs_coarse_levels(task: TaskInfo) -> str | None:
    return None if task.coarse_levels > 0 else "the task has no coarse solver"


# The most accurate level that costs no more than the median network, measured by benchmarks/coarse_levels.py. It is
# written down, not measured in each trial: a level that depended on the moment's load would make another result.
LEVELS = {
    "heat_1d": 1,
    "burgers_1d": 3,
    "gray_scott_forward": 3,
    "navier_stokes_forward": 1,
    "navier_stokes_inverse": 1,
}


def coarse_hparams(task: TaskInfo, scale: str) -> dict[str, Any]:
    """Tasks not in the list get one coarsening of a single solve, or two of a march in time."""
    default = 2 if task.evolves else 1
    return {"level": min(LEVELS.get(task.name, default), task.coarse_levels)}


MEAN = ModelSpec(
    name="mean",
    title="Mean",
    build="pdebench_hss_models.baselines.constant:Mean",
    training_free=True,
    deterministic=True,
    role="guess",
    description="Predicts the mean of the training outputs, whatever the input.",
)

PERSISTENCE = ModelSpec(
    name="persistence",
    title="Persistence",
    build="pdebench_hss_models.baselines.constant:Persistence",
    any_grid=True,
    supports=needs_evolution,
    training_free=True,
    deterministic=True,
    role="guess",
    description="Predicts that the field does not change.",
)

LINEAR = ModelSpec(
    name="linear",
    title="Linear",
    build="pdebench_hss_models.baselines.linear:Linear",
    training_free=True,
    deterministic=True,
    description="Minimum-norm least squares by truncated SVD; ridge by leave-one-out error on train.",
)

LINEAR_SYMMETRIC = ModelSpec(
    name="linear_symmetric",
    title="Linear, symmetric",
    build="pdebench_hss_models.baselines.symmetric:LinearSymmetric",
    supports=needs_square_operator,
    training_free=True,
    deterministic=True,
    description="Minimum-norm least squares over symmetric matrices: assumes a self-adjoint operator and no structure.",
)

COARSE_SOLVER = ModelSpec(
    name="coarse_solver",
    title="Coarse solver",
    build="pdebench_hss_models.baselines.coarse:CoarseSolver",
    any_grid=True,
    hparams=coarse_hparams,
    supports=needs_coarse_levels,
    training_free=True,
    deterministic=True,
    role="solver",
    description="The task's own classical solver on a coarser grid or with fewer steps.",
)


@hookimpl
def pdebench_hss_models() -> list[ModelSpec]:
    return [MEAN, PERSISTENCE, LINEAR, LINEAR_SYMMETRIC, COARSE_SOLVER]
