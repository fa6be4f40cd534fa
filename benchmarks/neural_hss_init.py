"""Which initialisation should Neural-HSS have? The paper does not say and it matters.

Each candidate trains the model of the named tasks (scale ``small``, the task's own recipe, the benchmark's own
training loop) on three quarters of the training samples and is scored on the last quarter. Test samples are
never looked at. One initialisation is chosen for all tasks; docs/models.md has the table and the choice.

    python benchmarks/neural_hss_init.py                        # all candidates and tasks, seed 0
    python benchmarks/neural_hss_init.py --tasks poisson_1d --seeds 3 --candidates half,near_identity

A candidate is six numbers. With fan-in scaled normal noise (standard deviation gain / sqrt(fan in)):

    leaf D = identity * I + leaf * noise      U, V and the inner D = basis * noise
    full-rank lift and projection = ends_identity * I + ends * noise
    slope of every LeakyReLU at the start

and an m-dimensional layer of r_out terms divides each factor by r_out^(1 / (2m)), so that the sum keeps its size.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import time
from dataclasses import dataclass

import numpy as np
import torch
from pdebench_hss_models.neural_hss.layer import HSSChain, HSSLayer, HSSMap
from pdebench_hss_models.neural_hss.lift import DenseMap
from pdebench_hss_models.neural_hss.matrix.parameters import HSSMatrix
from torch import Tensor, nn

from pdebench_hss import load_task
from pdebench_hss.contract.optimizer import Optimizer
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.data.cache import TaskData
from pdebench_hss.training.loop import fit
from pdebench_hss.training.windows import TrainSet, prepare

TASKS = (
    "poisson_1d",
    "heat_1d",
    "burgers_1d",
    "poisson_2d",
    "navier_stokes_forward",
    "gray_scott_inverse",
)


@dataclass(frozen=True)
class Candidate:
    leaf: float
    basis: float
    identity: float = 0.0
    ends: float = 1.0
    ends_identity: float = 0.0
    slope: float = 1.0


CANDIDATES = {
    # the size of the noise
    "fan_in": Candidate(leaf=1.0, basis=1.0, slope=0.9),
    "two_thirds": Candidate(leaf=0.67, basis=0.67, slope=0.9),
    "half": Candidate(leaf=0.5, basis=0.5, slope=0.9),
    "third": Candidate(leaf=0.33, basis=0.33, slope=0.9),
    # the slope
    "two_thirds_slope_1": Candidate(leaf=0.67, basis=0.67, slope=1.0),
    "two_thirds_slope_0.5": Candidate(leaf=0.67, basis=0.67, slope=0.5),
    # near the identity: full-rank ends, or everything
    "identity_ends": Candidate(leaf=0.67, basis=0.67, ends=0.1, ends_identity=1.0, slope=0.9),
    "near_identity": Candidate(leaf=0.1, basis=0.5, identity=1.0, ends=0.1, ends_identity=1.0, slope=0.9),
}


def noise(shape: torch.Size, fan_in: int, gain: float) -> Tensor:
    return torch.randn(shape) * (gain / math.sqrt(fan_in))


def reset_matrix(matrix: HSSMatrix, candidate: Candidate, dim: int, added: int) -> None:
    """One axis of ``dim``, of ``added`` terms that are summed."""
    for i, d in enumerate(matrix.D):
        d.copy_(noise(d.shape, d.shape[-1], candidate.leaf if i == 0 else candidate.basis))
    for u, v in zip(matrix.U, matrix.V):
        u.copy_(noise(u.shape, u.shape[-1], candidate.basis))
        v.copy_(noise(v.shape, v.shape[-2], candidate.basis))
    matrix.D[0].diagonal(dim1=-2, dim2=-1).add_(candidate.identity)
    for outermost in (matrix.D[0], *matrix.U[:1]):
        outermost.mul_(added ** (-0.5 / dim))


@torch.no_grad()
def reset(model: nn.Module, candidate: Candidate) -> None:
    for module in model.modules():
        if isinstance(module, HSSMap):
            for matrix in module.axes:
                reset_matrix(matrix, candidate, len(module.axes), matrix.terms)
        elif isinstance(module, DenseMap):
            for weight in module.axes:
                weight.copy_(noise(weight.shape, weight.shape[-1], candidate.ends))
                weight.diagonal(dim1=-2, dim2=-1).add_(candidate.ends_identity)
        elif isinstance(module, HSSLayer):
            module.slope.fill_(candidate.slope)
        elif isinstance(module, HSSChain):
            reset_matrix(module.matrices, candidate, dim=1, added=1)
            module.slopes.fill_(candidate.slope)


def split_train(data: TaskData) -> tuple[TrainSet, TrainSet]:
    """Three quarters to train on and a quarter to score on, whole trajectories and whole groups of cases."""
    pairs = prepare(data, torch.float32)
    cases, per_sample = data.task.spec.cases, len(pairs) // len(data.train.inputs)
    cut = len(data.train.inputs) * 3 // 4 // cases * cases * per_sample
    parts = (slice(None, cut), slice(cut, None))
    return tuple(dataclasses.replace(pairs, inputs=pairs.inputs[s], outputs=pairs.outputs[s]) for s in parts)


@torch.no_grad()
def relative_error(model: nn.Module, pairs: TrainSet) -> float:
    model.eval()
    count = min(len(pairs), 200)
    prediction = torch.cat([model(x) for x in pairs.inputs[:count].split(8)])
    target = pairs.outputs[:count]
    inside = 1.0 if pairs.task.mask is None else torch.as_tensor(pairs.task.mask, dtype=target.dtype)
    return float(((prediction - target) * inside).norm() / (target * inside).norm())


def score(data: TaskData, candidate: Candidate, seed: int) -> tuple[float, float]:
    """Errors on the training part and on the held-out part after the task's recipe."""
    task, recipe = data.task, data.task.size.recipe
    spec = load_registry().model("neural_hss").spec
    train, held = split_train(data)
    torch.manual_seed(seed)
    model = spec.make(task, spec.hparams_for(task))
    reset(model, candidate)
    numbers = {"lr": recipe.lr, "lr_min": recipe.lr_min, "weight_decay": recipe.weight_decay}
    optimizer = Optimizer(recipe.batch, **{**numbers, **spec.recipe_for(task)})
    budget = recipe.budget
    fit(model, train, budget, optimizer, seed=seed, device=torch.device("cpu"), flops_step=0.0)
    return relative_error(model, train), relative_error(model, held)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--candidates", default=",".join(CANDIDATES))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--scale", default="small")
    args = parser.parse_args()
    torch.set_num_threads(1)
    tasks, candidates = args.tasks.split(","), args.candidates.split(",")
    held_out = np.empty((len(candidates), len(tasks)))
    for j, task in enumerate(tasks):
        data = load_task(task, scale=args.scale)
        for i, name in enumerate(candidates):
            start = time.perf_counter()
            errors = [score(data, CANDIDATES[name], seed) for seed in range(args.seeds)]
            train, held_out[i, j] = np.exp(np.log(errors).mean(0))
            seconds = time.perf_counter() - start
            print(f"{task:24}{name:24} train {train:.2e}   held out {held_out[i, j]:.2e}   {seconds:.0f} s", flush=True)
    print("\n| held-out error |", " | ".join(tasks), "| geometric mean |\n" + "|---" * (len(tasks) + 2) + "|")
    for name, row in zip(candidates, held_out):
        print(f"| {name} |", " | ".join(f"{x:.3g}" for x in row), f"| {np.exp(np.log(row).mean()):.3g} |")


if __name__ == "__main__":
    main()
