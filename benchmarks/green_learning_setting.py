"""Which network and learning rate should Green Learning have in 2D at scale small, at about the same cost a step?

Pairs of points times layers times width is the arithmetic of a step; candidates keep it near that of the first. Each is
trained with the core's loop on three quarters of the training samples and scored on the last quarter; test samples are
never looked at. docs/models.md has the table and the choice.

    python benchmarks/green_learning_setting.py                     # all candidates on poisson_2d
    python benchmarks/green_learning_setting.py --tasks poisson_2d,poisson_2d_grf --candidates wide,chosen
"""

from __future__ import annotations

import argparse
import time

import torch
from neural_hss_init import relative_error, split_train

from pdebench_hss import load_task
from pdebench_hss.contract.optimizer import Optimizer
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.data.cache import TaskData
from pdebench_hss.training.loop import fit

# layers, width, targets a step, learning rate
CANDIDATES = {
    "wide": (4, 64, 8, 8e-4),  # the network of the 1D tasks with the task's own rate
    "wide_3e-3": (4, 64, 8, 3e-3),
    "wide_1e-2": (4, 64, 8, 1e-2),
    "two_layers": (2, 32, 32, 1e-2),
    "chosen": (3, 24, 32, 1e-2),
    "chosen_2e-2": (3, 24, 32, 2e-2),
    "narrow": (4, 16, 32, 1e-2),
}


def score(data: TaskData, candidate: str, seed: int) -> tuple[float, float]:
    """Held-out error after the task's recipe and seconds of one core."""
    layers, width, targets, lr = CANDIDATES[candidate]
    recipe = data.task.size.recipe
    train, held = split_train(data)
    torch.manual_seed(seed)
    spec = load_registry().model("green_learning").spec
    model = spec.make(data.task, {"layers": layers, "width": width, "targets_per_step": targets})
    optimizer = Optimizer(recipe.batch, lr, recipe.lr_min, recipe.weight_decay)
    start = time.process_time()
    budget = recipe.budget
    fit(model, train, budget, optimizer, seed=seed, device=torch.device("cpu"), flops_step=0.0)
    return relative_error(model, held), time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", default="poisson_2d")
    parser.add_argument("--candidates", default=",".join(CANDIDATES))
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    print("| task | candidate | layers, width, targets, rate | held-out error | seconds |\n|---|---|---|---|---|")
    for task in args.tasks.split(","):
        data = load_task(task, scale="small")
        for name in args.candidates.split(","):
            error, seconds = score(data, name, args.seed)
            print(f"| {task} | {name} | {CANDIDATES[name]} | {error:.3f} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
