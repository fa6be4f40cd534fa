"""Error against time of every task's classical solver, level by level, beside the networks' time per prediction.

    python benchmarks/coarse_levels.py                        # all tasks with a coarse solver, scale small
    python benchmarks/coarse_levels.py --tasks heat_1d,poisson_3d --scale smoke

The level that `coarse_solver` takes by default (`LEVELS` in plugins/pdebench_hss_models/baselines) is the most accurate
one that costs no more than the median network: the answer to "what would a few lines of numerics do in that time?".
Level 0 made the data, so its error says nothing: it is shown, not chosen. Where every other level is dearer than
the networks, it is the cheapest. The networks are untrained: weights don't change their time.
Solvers and networks predict the same test samples on one thread, in turn; seconds are the median of the rounds.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
from pdebench_hss_models.baselines import coarse_hparams

from pdebench_hss.api import load_task
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.data.cache import TaskData
from pdebench_hss.training.evaluation import Predictor
from pdebench_hss.training.metrics import sample_errors
from pdebench_hss.training.windows import prepare

NETWORKS = ("resnet", "fno", "deeponet", "green_learning", "factformer", "neural_hss")
ROUNDS = 5


def predictors(samples: TaskData) -> dict[str, Predictor]:
    """A prediction of the test inputs by each network that supports the task and by each level."""
    registry, task = load_registry(), samples.task
    normalizer = prepare(samples, torch.float32).normalizer
    batch = task.size.recipe.batch
    found = {}
    for name in NETWORKS:
        spec = registry.model(name).spec
        if spec.unsupported(task) is None:
            model = spec.make(task, spec.hparams_for(task))
            found[name] = Predictor(model, task, normalizer, batch, torch.device("cpu"))
    solver = registry.model("coarse_solver").spec
    for level in range(task.coarse_levels + 1):
        found[f"level {level}"] = Predictor(
            solver.make(task, {"level": level}), task, normalizer, batch, torch.device("cpu")
        )
    return found


def measure(samples: TaskData) -> tuple[dict[str, float], dict[str, float]]:
    """Milliseconds per sample of each, and the errors of the levels."""
    found, inputs = predictors(samples), samples.test.inputs
    errors = {}
    for name, predict in found.items():  # this is the warm-up as well
        outputs = predict(inputs)
        if name.startswith("level"):
            errors[name] = float(
                sample_errors(outputs, samples.test.outputs, samples.task.spec.metric, samples.task.mask)[
                    "test_err"
                ].mean()
            )
    seconds: dict[str, list[float]] = {name: [] for name in found}
    for _ in range(ROUNDS):
        for name, predict in found.items():
            start = time.perf_counter()
            predict(inputs)
            seconds[name].append(time.perf_counter() - start)
    return {name: 1e3 * statistics.median(values) / len(inputs) for name, values in seconds.items()}, errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="")
    parser.add_argument("--scale", default="small")
    args = parser.parse_args()
    torch.set_num_threads(1)
    registry = load_registry()
    names = args.tasks.split(",") if args.tasks else [n for n, e in registry.tasks.items() if e.spec.coarse_levels]
    print("| task | median network | level 0 | level 1 | level 2 | level 3 | fits |\n|---|---|---|---|---|---|---|")
    for name in names:
        samples = load_task(name, scale=args.scale)
        ms, errors = measure(samples)
        network = statistics.median(value for key, value in ms.items() if not key.startswith("level"))
        levels = sorted(errors)[:4]
        affordable = [level for level in levels[1:] if ms[level] <= network]
        chosen = int((affordable[0] if affordable else min(levels[1:], key=ms.__getitem__)).split()[1])
        cells = [f"{errors[level]:.2g} in {ms[level]:.2g} ms" for level in levels] + ["–"] * (4 - len(levels))
        default = coarse_hparams(samples.task, args.scale)["level"]
        mark = "" if default == chosen else f" (the default is {default})"
        print(f"| {name} | {network:.2g} ms | {' | '.join(cells)} | {chosen}{mark} |", flush=True)


if __name__ == "__main__":
    main()
