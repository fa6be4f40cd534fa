"""How should Neural-HSS start? The paper does not say, and it matters.

Each candidate trains the model (scale ``small``, the benchmark's own loop) on three quarters of the training samples
and is scored on the last quarter, by the task's own metric in physical units, over whole rollouts where it has them.
Test samples are never looked at. The rate matters as much as the start, and rates are tuned for every model anyway, so
a candidate is judged at its best rate of those tried. docs/models.md has the table and the choice.

    python benchmarks/neural_hss_init.py --out init.csv                  # what is in the file already is not run again
    python benchmarks/neural_hss_init.py --out init.csv --table          # only the table of what is there
    python benchmarks/neural_hss_init.py --tasks poisson_1d --candidates third,half --rates task --budget steps=500

A candidate is how the last map starts (zero, or normal as all others), where slopes start, and for some the size of the
noise. With fan-in scaled normal noise (standard deviation gain / sqrt(fan in)), two thirds of it where nothing is said:

    leaf D = identity * I + leaf * noise      U, V and the inner D = basis * noise
    full-rank lift and projection = ends_identity * I + ends * noise

and an m-dimensional layer of r_out terms divides each factor by r_out^(1 / (2m)), so that the sum keeps its size.

For rollouts in 1D the learned step's spectral radius at held-out states stands in the last columns (median, largest),
and by what factor the largest value grows in rollouts four times as long as the task's.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from pdebench_hss_models.neural_hss.layer import HSSChain, HSSMap
from pdebench_hss_models.neural_hss.lift import DenseMap
from pdebench_hss_models.neural_hss.matrix.parameters import HSSMatrix
from pdebench_hss_models.neural_hss.stability import spectral_radii
from torch import Tensor, nn

from pdebench_hss import load_task
from pdebench_hss.contract.budget import parse_budget
from pdebench_hss.contract.optimizer import Optimizer
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.data.cache import TaskData
from pdebench_hss.data.dataset import Split
from pdebench_hss.training.evaluation import Predictor
from pdebench_hss.training.heldout import HeldOut
from pdebench_hss.training.loop import fit
from pdebench_hss.training.normalization import Normalizer
from pdebench_hss.training.steps import Diverged
from pdebench_hss.training.windows import prepare

LINEAR = ("poisson_1d", "heat_1d", "poisson_2d_grf", "poisson_3d")
NONLINEAR = ("burgers_1d", "darcy_2d", "navier_stokes_forward", "gray_scott_inverse")
CPU = torch.device("cpu")
STATES = 8  # at which a spectral radius is computed
LONGER = 4  # times the length of the task's rollouts
COLUMNS = (
    *("task", "candidate", "lr", "seed", "budget", "scale", "steps", "held_out"),
    *("radius_median", "radius_largest", "growth"),
)
WHAT = list(COLUMNS[:6])  # what a row is about


@dataclass(frozen=True)
class Noise:
    leaf: float
    basis: float
    identity: float = 0.0
    ends: float = 1.0
    ends_identity: float = 0.0


@dataclass(frozen=True)
class Candidate:
    init: str
    slope: float
    noise: Noise | None = None  # None: as the model has it


CANDIDATES = {
    "normal_0.9": Candidate("normal", 0.9),  # version 3
    "zero_0.9": Candidate("zero", 0.9),
    "zero_1": Candidate("zero", 1.0),
    "zero_0.5": Candidate("zero", 0.5),
    "zero_0.2": Candidate("zero", 0.2),
    "normal_1": Candidate("normal", 1.0),
    "normal_0.5": Candidate("normal", 0.5),
    # the size of the noise
    "fan_in": Candidate("normal", 0.9, Noise(leaf=1.0, basis=1.0)),
    "half": Candidate("normal", 0.9, Noise(leaf=0.5, basis=0.5)),
    "third": Candidate("normal", 0.9, Noise(leaf=0.33, basis=0.33)),
    # near the identity: full-rank ends, or everything
    "identity_ends": Candidate("normal", 0.9, Noise(leaf=0.67, basis=0.67, ends=0.1, ends_identity=1.0)),
    "near_identity": Candidate("normal", 0.9, Noise(leaf=0.1, basis=0.5, identity=1.0, ends=0.1, ends_identity=1.0)),
}
FIRST = ("normal_0.9", "zero_0.9", "zero_1", "zero_0.5")


# --- starts ---------------------------------------------------------------------------------------------------------


def normal(shape: torch.Size, fan_in: int, gain: float) -> Tensor:
    return torch.randn(shape) * (gain / math.sqrt(fan_in))


def reset_matrix(matrix: HSSMatrix, noise: Noise, dim: int, added: int) -> None:
    """One axis of ``dim``, of ``added`` terms that are summed."""
    for i, d in enumerate(matrix.D):
        d.copy_(normal(d.shape, d.shape[-1], noise.leaf if i == 0 else noise.basis))
    for u, v in zip(matrix.U, matrix.V, strict=True):
        u.copy_(normal(u.shape, u.shape[-1], noise.basis))
        v.copy_(normal(v.shape, v.shape[-2], noise.basis))
    matrix.D[0].diagonal(dim1=-2, dim2=-1).add_(noise.identity)
    matrix.scale_(added ** (-0.5 / dim))


@torch.no_grad()
def reset(model: nn.Module, noise: Noise) -> None:
    for module in model.modules():
        if isinstance(module, HSSMap):
            for matrix in module.axes:
                reset_matrix(matrix, noise, len(module.axes), matrix.terms)
        elif isinstance(module, DenseMap):
            for weight in module.axes:
                weight.copy_(normal(weight.shape, weight.shape[-1], noise.ends))
                weight.diagonal(dim1=-2, dim2=-1).add_(noise.ends_identity)
        elif isinstance(module, HSSChain):
            reset_matrix(module.matrices, noise, dim=1, added=1)


# --- one trial ------------------------------------------------------------------------------------------------------


@cache
def samples(task: str, scale: str) -> tuple[TaskData, Split]:
    """Three quarters to train on and a quarter to score on, whole trajectories and whole groups of cases."""
    data = load_task(task, scale=scale)
    cases, train = data.task.spec.cases, data.train
    cut = len(train.inputs) * 3 // 4 // cases * cases
    if not 0 < cut < len(train.inputs):
        raise SystemExit(f"{task} has {len(train.inputs)} training samples at scale {scale}, too few to hold some out")
    first, rest = (Split(train.inputs[s], train.outputs[s]) for s in (slice(None, cut), slice(cut, None)))
    return dataclasses.replace(data, train=first, test=Split(rest.inputs[:0], rest.outputs[:0])), rest


def trial(what: dict[str, str]) -> dict[str, object]:
    """The row of one candidate, task, rate and seed."""
    data, held = samples(what["task"], what["scale"])
    task, recipe, seed = data.task, data.task.size.recipe, int(what["seed"])
    candidate, spec = CANDIDATES[what["candidate"]], load_registry().model("neural_hss").spec
    train = prepare(data, torch.float32)
    torch.manual_seed(seed)
    model = spec.make(task, {**spec.hparams_for(task), "init": candidate.init, "slope": candidate.slope})
    if candidate.noise is not None:
        reset(model, candidate.noise)
    rates = {"lr": recipe.lr, "lr_min": recipe.lr_min, "weight_decay": recipe.weight_decay, **spec.recipe_for(task)}
    if what["lr"] != "task":
        rates["lr"] = float(what["lr"])
    optimizer, budget = Optimizer(recipe.batch, **rates), parse_budget(what["budget"])
    try:
        state = fit(model, train, budget, optimizer, seed=seed, device=CPU, flops_step=0.0)
    except Diverged:
        return {**what, "steps": "", "held_out": math.inf}
    error = HeldOut(held, task, train.normalizer, recipe.batch, CPU).error(model)
    found = {"steps": state.spent.steps, "held_out": error}
    return {**what, **found, **rollout_columns(model, data, held, train.normalizer)}


def rollout_columns(model: nn.Module, data: TaskData, held: Split, normalizer: Normalizer) -> dict[str, float]:
    """Spectral radii at first and at middle states, and how far long rollouts grow."""
    task = data.task
    if not task.rollout or task.dim > 1 or task.history > 1:
        return {}
    half = STATES // 2
    states = np.concatenate([held.inputs[:half], held.outputs[:half, task.size.steps // 2]])
    radii = spectral_radii(model, normalizer, states)
    start = held.inputs[:STATES]
    frames = Predictor(model, task, normalizer, STATES, CPU)(start, LONGER * task.size.steps)
    growth = np.abs(frames).max() / np.abs(start).max()
    return {"radius_median": np.median(radii), "radius_largest": radii.max(), "growth": growth}


# --- all of them ----------------------------------------------------------------------------------------------------


def asked(args: argparse.Namespace) -> Iterator[dict[str, str]]:
    """Seed by seed, so that a file that is not complete still compares all candidates."""
    for seed in args.seeds.split(","):
        for lr in args.rates.split(","):
            for task in args.tasks.split(","):
                for candidate in args.candidates.split(","):
                    values = (task, candidate, lr, seed, args.budget, args.scale)
                    yield dict(zip(WHAT, values, strict=True))


def read(path: Path | None) -> pd.DataFrame:
    if path is None or not path.exists():
        return pd.DataFrame(columns=COLUMNS)
    return pd.read_csv(path, dtype=dict.fromkeys(WHAT, str))


def add(path: Path, row: dict[str, object]) -> None:
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if new:
            writer.writeheader()
        writer.writerow(row)


def run(args: argparse.Namespace) -> pd.DataFrame:
    known = read(args.out)
    done = set(known[WHAT].itertuples(index=False, name=None))
    rows = []
    for what in asked(args):
        if tuple(what.values()) in done:
            continue
        row = trial(what)
        rows.append(row)
        if args.out is not None:
            add(args.out, row)
        print(*(f"{value:.3g}" if isinstance(value, float) else value for value in row.values()), flush=True)
    return pd.concat([known, pd.DataFrame(rows, columns=COLUMNS)]) if rows else known


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per candidate and task, at its best rate: geometric mean, least and largest error over seeds."""
    means = rows.assign(log=np.log(rows["held_out"].astype(float)))
    by_rate = means.groupby(["task", "candidate", "lr"], sort=False).agg(
        held_out=("log", lambda logs: np.exp(logs.mean())),
        least=("held_out", "min"),
        largest=("held_out", "max"),
        seeds=("seed", "nunique"),
        steps=("steps", "median"),
        radius_largest=("radius_largest", "max"),
        growth=("growth", "max"),
    )
    best = by_rate.sort_values("held_out", kind="stable").groupby(level=["task", "candidate"], sort=False).head(1)
    return best.reindex([key for key in by_rate.index if key in best.index]).reset_index()


def table(found: pd.DataFrame) -> str:
    """Candidates by tasks, and geometric means over linear and over nonlinear tasks."""
    best = found.pivot_table("held_out", "candidate", "task", sort=False)
    for name, group in (("linear", LINEAR), ("nonlinear", NONLINEAR)):
        there = [task for task in group if task in best]
        best[f"{name}, mean"] = np.exp(np.log(best[there]).mean(axis=1, skipna=False))
    return best.to_markdown(floatfmt=".3g")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default=",".join((*LINEAR, *NONLINEAR)))
    parser.add_argument("--candidates", default=",".join(FIRST), help=f"of {', '.join(CANDIDATES)}")
    parser.add_argument("--rates", default="0.01,0.004", help="learning rates; task: the task's own")
    parser.add_argument("--seeds", default="10,11,12")
    parser.add_argument("--budget", default="core_seconds=5")
    parser.add_argument("--scale", default="small")
    parser.add_argument("--out", type=Path, help="CSV file that rows are added to")
    parser.add_argument("--summary", type=Path, help="CSV file for each candidate at its best rate, on each task")
    parser.add_argument("--table", action="store_true", help="train nothing")
    args = parser.parse_args()
    for name in args.candidates.split(","):
        if name not in CANDIDATES:
            parser.error(f"no candidate {name!r}; there are {', '.join(CANDIDATES)}")
    torch.set_num_threads(1)
    found = summary(read(args.out) if args.table else run(args))
    print(table(found))
    if args.summary is not None:
        found.to_csv(args.summary, index=False)


if __name__ == "__main__":
    main()
