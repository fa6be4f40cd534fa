"""What it costs to keep models, and to use them.

Keeping: the same trials with and without `--keep-models`, in turns, on part of the board that `run` makes by default
(scale small, one seed). CPU seconds of the run and all its processes, so that other load hardly matters. Promise:
at most 3 % more.

Using: a loaded model on 64 samples, checks and change of units included, against the bare network's forward pass on the
same 64 normalised samples; and `load_model` with a prediction of one sample against the same forward pass. Promise:
each at most 1.2 times, in the median over tasks and models. Single models break it: loading takes 3 to 5 ms whatever
the network (files are read and hashed, the module is built), so for a network whose forward pass takes less than that
it is several times as much. The table shows each, and the last line names them. CPU seconds of this thread, one thread,
the median of a few rounds in turns.

    python benchmarks/keeping_models.py                        both; fails if a promise is broken
    python benchmarks/keeping_models.py --board BOARD          using alone, with the models of this board
    python benchmarks/keeping_models.py --rounds 2 --models resnet,linear --tasks poisson_1d
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from tabulate import tabulate

from pdebench_hss import load_model
from pdebench_hss.contract.registry import load_registry
from pdebench_hss.use.loaded import LoadedModel

MOST_KEEPING, MOST_USING, BATCH = 1.03, 1.2, 64


def run_seconds(folder: Path, models: str, tasks: str, *flags: str) -> float:
    """CPU seconds of one run with all its processes."""
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "pdebench_hss", "run", "--models", models, "--tasks", tasks]
    command += ["--seeds", "1", "--jobs", str(os.cpu_count())]  # one thread each: one that waits would be counted, too
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*command, "--out", str(folder), *flags], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def keeping(folder: Path, models: str, tasks: str, rounds: int) -> float:
    """The median over rounds of the run that keeps models, by the one that does not."""
    kept, bare = folder / "kept", folder / "bare"
    run_seconds(bare, models, tasks, "--no-keep-models")  # makes the data
    rows = []
    for number in range(rounds):
        turns = [(kept, "--keep-models"), (bare, "--no-keep-models")]
        seconds = {out.name: run_seconds(out, models, tasks, flag) for out, flag in turns[:: 1 - 2 * (number % 2)]}
        rows.append([number, seconds["kept"], seconds["bare"], seconds["kept"] / seconds["bare"]])
    print(tabulate(rows, ["round", "kept, CPU s", "not kept, CPU s", "ratio"], floatfmt=".3f"))
    return statistics.median(row[-1] for row in rows)


def seconds_in_turns(functions: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """CPU seconds of this thread, the median of rounds."""
    found: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds + 1):
        for name, call in functions.items():
            start = time.thread_time()
            call()
            found[name].append(time.thread_time() - start)
    return {name: statistics.median(times[1:]) for name, times in found.items()}


def bare_forward(model: LoadedModel) -> Callable[[], object]:
    x = torch.randn(BATCH, *model.input_shape, dtype=model.predictor.dtype)
    return torch.no_grad()(lambda: model.module(x))


def using(board: Path, models: list[str], tasks: list[str], rounds: int) -> tuple[float, float, list[str]]:
    """Medians, by the bare forward pass: a loaded model on a batch, and loading with one sample; and the models for
    which the latter is more than it should be."""
    registry = load_registry()
    rows = []
    for task in tasks:
        for name in models:
            model = load_model(board, name, task, registry=registry)
            fields = np.random.default_rng(0).standard_normal((BATCH, *model.input_shape))
            steps = {"steps": 1} if model.task.rollout else {}
            took = seconds_in_turns(
                {
                    "bare": bare_forward(model),
                    "used": lambda m=model, x=fields, s=steps: m(x, batch=BATCH, **s),
                    "loaded": lambda n=name, t=task, x=fields[0], s=steps: load_model(board, n, t, registry=registry)(
                        x, **s
                    ),
                },
                rounds,
            )
            milliseconds = [1e3 * took[what] for what in ("bare", "used", "loaded")]
            rows.append([task, name, *milliseconds, took["used"] / took["bare"], took["loaded"] / took["bare"]])
    headers = ["task", "model", "forward, ms", "used, ms", "load and one, ms", "used / forward", "load / forward"]
    print(tabulate(rows, headers, floatfmt=".3f"))
    over = [f"{name} on {task} ({ratio:.1f})" for task, name, *_, ratio in rows if ratio > MOST_USING]
    return statistics.median(row[-2] for row in rows), statistics.median(row[-1] for row in rows), over


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="resnet,fno,neural_hss,linear")
    parser.add_argument("--tasks", default="poisson_1d,burgers_1d,poisson_2d")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--board", type=Path)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        ratio = 1.0 if chosen.board else keeping(Path(folder), chosen.models, chosen.tasks, chosen.rounds)
        networks = [name for name in chosen.models.split(",") if name != "linear"]
        board = chosen.board or Path(folder) / "kept"
        used, loaded, over = using(board, networks, chosen.tasks.split(","), max(5, chosen.rounds))
    if not chosen.board:
        print(f"keeping models: {100 * (ratio - 1):+.1f} % (at most {100 * (MOST_KEEPING - 1):.0f} %)")
    print(f"a loaded model on {BATCH} samples: {used:.2f} times the bare forward pass (at most {MOST_USING})")
    print(f"loading it and one sample: {loaded:.2f} times that forward pass (at most {MOST_USING})")
    print(f"    more for {', '.join(over) or 'none'}")
    sys.exit(ratio > MOST_KEEPING or max(used, loaded) > MOST_USING)


if __name__ == "__main__":
    main()
