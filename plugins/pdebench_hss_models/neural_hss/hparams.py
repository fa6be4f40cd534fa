"""Hyper-parameters by task: the paper's tables at scale ``paper``, rules by dimension everywhere else. No torch.

Where the tables and the published counts allow two readings, the row below is the one whose count comes nearest. The
other can be set by options (docs/models.md lists both), for instance the literal three layers of the 2D Poisson family:
``neural_hss[layers=3,lift=none,projection=none]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pdebench_hss import Integer, around

from ..sizes import AIM, aim, nearest
from .matrix.tree import count_parameters, deepest, levels_for

if TYPE_CHECKING:
    from pdebench_hss import TaskInfo

COMMON = {"scalars": 0, "cp_rank": 64, "way": "auto", "init": "zero"}

# 1D: HSS rank 2 on 256 points (data efficiency, heat, Neumann); Burgers' is wider, deeper, with full-rank ends.
POISSON_1D = {"levels": 3, "rank": 2, "outer_rank": 1, "layers": 3, "embed": 256, "lift": "none", "projection": "none"}
NEUMANN = {**POISSON_1D, "projection": "hss"}  # four HSS maps: 37K
HEAT = {**POISSON_1D, "lift": "hss", "projection": "hss"}  # five HSS maps: 45K
BURGERS = {**POISSON_1D, "rank": 32, "layers": 4, "embed": 1024, "lift": "dense", "projection": "dense"}

# 2D: "depth 3" read as full-rank lift, one HSS layer (Poisson, 37K) or two (NS, 329K), full-rank projection.
POISSON_2D = {"levels": 2, "rank": 2, "outer_rank": 8, "layers": 1, "embed": 64, "lift": "dense", "projection": "dense"}
NAVIER_STOKES = {**POISSON_2D, "rank": 8, "layers": 2, "embed": 128}
GRAY_SCOTT = {**NAVIER_STOKES, "scalars": 2}  # the last two input channels are f and k

# 3D: "depth 1" taken literally, a single layer on the grid itself.
POISSON_3D = {"levels": 2, "rank": 4, "outer_rank": 2, "layers": 1, "embed": 128, "lift": "none", "projection": "none"}

PAPER = {
    "poisson_1d": POISSON_1D,
    "poisson_1d_grf": POISSON_1D,
    "advection_diffusion_1d": POISSON_1D,
    "poisson_1d_neumann": NEUMANN,
    "heat_1d": HEAT,
    "burgers_1d": BURGERS,
    "poisson_2d": POISSON_2D,
    "poisson_2d_grf": POISSON_2D,
    "poisson_2d_mixed": POISSON_2D,
    "poisson_2d_lshape": POISSON_2D,
    "helmholtz_2d": POISSON_2D,
    "gray_scott_forward": GRAY_SCOTT,
    "gray_scott_inverse": GRAY_SCOTT,
    "navier_stokes_forward": NAVIER_STOKES,
    "navier_stokes_inverse": NAVIER_STOKES,
    "poisson_3d": POISSON_3D,
}


def hparams(task: TaskInfo, scale: str) -> dict[str, Any]:
    """The paper's row for this task at scale ``paper``, else what suits its dimension, size and linearity."""
    row = PAPER.get(task.name)
    if scale == "paper" and row is not None:
        return {**COMMON, **start(task), **row}
    known = {"scalars": row["scalars"]} if row and "scalars" in row else {}
    found = {**COMMON, **start(task), **defaults(task), **known}
    return {**found, "outer_rank": matched_terms(task, scale, found)} if scale in AIM and task.dim > 1 else found


def start(task: TaskInfo) -> dict[str, Any]:
    """Where slopes start: a network for a linear task starts linear. By benchmarks/neural_hss_init.py."""
    return {"slope": 1.0 if task.linear else 0.5}


def matched_terms(task: TaskInfo, scale: str, found: dict[str, Any]) -> int:
    """The number of terms with which layers and full-rank ends have the size that all models have at this scale."""
    maps = task.in_channels - found["scalars"] + task.out_channels  # of the two ends together
    ends = maps * sum(n**2 for n in task.grid) if found["lift"] == "dense" else 0
    term = found["layers"] * sum(count_parameters(n, found["levels"], found["rank"]) for n in task.grid)
    return nearest(lambda terms: ends + terms * term, aim(task, scale))


def search(task: TaskInfo, scale: str) -> dict[str, Any]:
    """Rank and depth of the tree, and how many maps there are: layers in 1D, terms of a layer elsewhere."""
    default = hparams(task, scale)
    points = default["embed"] or min(task.grid)
    third: dict[str, Any] = {"outer_rank": around(default["outer_rank"])}
    if task.dim == 1:
        third = {"layers": Integer(1, 2 * default["layers"])}
    deeper = max(2, min(default["levels"] + 1, deepest(points)))  # a tree of depth 0 is a dense matrix
    return {"rank": around(default["rank"]), "levels": Integer(max(1, deeper - 2), deeper), **third}


def defaults(task: TaskInfo) -> dict[str, Any]:
    """Values for a task of any dimension, grid and channels that no table mentions.

    Chosen on held-out training samples of the built-in tasks at scale small, see docs/models.md: linear tasks do
    best with little around the HSS structure, nonlinear ones with full-rank ends, as the paper says of Burgers'.
    """
    points = max(task.grid)
    single = task.in_channels == task.out_channels == 1
    tree = {"levels": levels_for(min(task.grid), leaf={1: 32, 2: 16}.get(task.dim, 8)), "outer_rank": 1, "embed": 0}
    if task.dim == 1 and task.linear:
        return {**tree, "rank": 4, "layers": 3, "lift": "hss", "projection": "hss"}
    if task.dim == 1:  # like the paper's Burgers row, as long as full-rank ends are affordable
        ends = "dense" if points <= 512 else "hss"
        return {**tree, "rank": min(16, max(2, points // 8)), "layers": 4, "lift": ends, "projection": ends}
    if task.linear and single:
        terms = 32 if task.dim == 2 else 16 if points <= 64 else 4  # all terms are held in memory
        return {**tree, "rank": 8, "outer_rank": terms, "layers": 1, "lift": "none", "projection": "none"}
    return {**tree, "rank": 8, "outer_rank": 8, "layers": 2, "lift": "dense", "projection": "dense"}


def recipe(task: TaskInfo, scale: str) -> dict[str, float]:
    """The paper gives its own rates for the 3D experiment; elsewhere all models share the task's."""
    if scale == "paper" and task.name == "poisson_3d":
        return {"lr": 5e-3, "lr_min": 1e-3, "weight_decay": 0.0}
    return {}


def fit_hparams(task: TaskInfo, scale: str) -> dict[str, Any]:
    if task.dim == 1:
        return {"levels": levels_for(task.grid[0], 8), "rank": 4, "sweeps": 5, "symmetric": "auto"}
    return {"levels": levels_for(min(task.grid), 16), "rank": 6, "outer_rank": 8, "sweeps": 20}


def fit_supports(task: TaskInfo) -> str | None:
    if not task.linear:
        return "needs a linear PDE"
    if (task.in_channels, task.out_channels) != (1, 1):
        return "needs one input and one output channel"
    return None
