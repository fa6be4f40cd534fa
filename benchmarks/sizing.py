"""How large the paper's tables are, and a leaderboard of 100 models on 50 tasks: trials, FLOPs, storage.

Nothing is trained. The FLOPs of a training step are counted on torch's meta device at the task's own sizes; datasets
are sized from shapes; records are as large as those of a board on disk, if one is named. Hours follow from an assumed
sustained rate: they are arithmetic, not a measurement of any device.

    python benchmarks/sizing.py [--rate 10e12] [--seeds 3] [--scale paper] [--board DIR]
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from pdebench_hss_studies.published import published_tables
from tabulate import tabulate

from pdebench_hss.base.files import human_bytes
from pdebench_hss.contract.registry import Registry, load_registry
from pdebench_hss.data.cache import Dataset, _sample_bytes
from pdebench_hss.runs.config import RunConfig
from pdebench_hss.runs.estimates import step_flops
from pdebench_hss.runs.plan import Action, Cell, make_plan
from pdebench_hss.trials.store import Store

MODELS = "deeponet,factformer,fno,green_learning,neural_hss,resnet"
OTHERS = {"poisson_1d", "poisson_3d"}  # in its figures and not in its tables


def cells_of_the_paper(registry: Registry, scale: str) -> list[Cell]:
    tasks = sorted(({row.task for table in published_tables() for row in table.rows} | OTHERS) & set(registry.tasks))
    with tempfile.TemporaryDirectory() as folder:
        config = RunConfig(models=MODELS, tasks=tasks, scale=scale, device="cpu", out=folder)
        return make_plan(config, registry, Store(folder)).cells


def flops_of(cell: Cell, registry: Registry) -> tuple[float, int]:
    """FLOPs of one step, and the number of steps."""
    trial = cell.trial
    info = registry.task(trial.task).spec.info(trial.scale, trial.task_params)
    batch, pairs = trial.optimizer.batch, trial.n_train * cell.dataset.size.steps
    flops = step_flops(registry.model(trial.model).spec, info, trial.hparams, min(batch, pairs))
    return flops, trial.budget.steps(pairs, min(batch, pairs), flops) or 0


def dataset_bytes(datasets: Iterable[Dataset]) -> float:
    each = {d.id: _sample_bytes(d) * (d.size.train + d.size.test) for d in datasets}
    return float(sum(each.values()))


def record_bytes(board: Path) -> float:
    """The mean over a board's trials, JSON and arrays together."""
    files = list((board / "records").iterdir())
    return sum(file.stat().st_size for file in files) / max(1, len({file.stem for file in files}))


def main() -> None:
    parser = argparse.ArgumentParser(description="The size of large plans.")
    parser.add_argument("--rate", type=float, default=10e12, help="sustained FLOP/s that hours are computed with")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--scale", default="paper")
    parser.add_argument("--board", type=Path, help="a board whose records say how large one is")
    options = parser.parse_args()
    registry = load_registry()
    rows: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
    cells = [cell for cell in cells_of_the_paper(registry, options.scale) if cell.action is not Action.SKIP]
    for cell in cells:
        flops, steps = flops_of(cell, registry)
        row = rows[cell.trial.task]
        row[0], row[1], row[2] = row[0] + 1, row[1] + steps, row[2] + flops * steps
    table = [
        [task, int(count), f"{steps:,.0f}", f"{flops:.2e}", f"{flops / options.rate / 3600:.2f}"]
        for task, (count, steps, flops) in rows.items()
    ]
    total = sum(row[2] for row in rows.values())
    steps = sum(row[1] for row in rows.values())
    hours = total / options.rate / 3600
    table.append(["all", len(cells), f"{steps:,.0f}", f"{total:.2e}", f"{hours:.2f}"])
    headers = ["task", "models", "steps", "FLOPs", f"hours at {options.rate:.0e} FLOP/s"]
    print(f"scale {options.scale}, one seed")
    print(tabulate(table, headers=headers, tablefmt="github", colalign=("left", *["right"] * 4), disable_numparse=True))
    trials, many = len(cells) * options.seeds, 100 * 50 * options.seeds
    print(f"{options.seeds} seeds: {trials} trials, {hours * options.seeds:.1f} hours")
    print(f"data: {human_bytes(dataset_bytes(cell.dataset for cell in cells))}")
    print(f"100 models x 50 tasks x {options.seeds} seeds: {many} trials")
    if options.board:
        each = record_bytes(options.board)
        print(
            f"a record on {options.board}: {human_bytes(each)}; {trials} of them {human_bytes(each * trials)}, ", end=""
        )
        print(f"{many} of them {human_bytes(each * many)}")


if __name__ == "__main__":
    main()
