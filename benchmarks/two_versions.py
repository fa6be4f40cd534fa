"""A training step of every model in two versions of the source, beside its limit, and whether both compute the same.

    python benchmarks/two_versions.py [--before REVISION] [--threads 2] [--rounds 5] [--tasks NAME ..] [--out FILE.csv]

The tree of an older commit is unpacked into a temporary directory. Both versions take turns, each turn a process of its
own with the same packages. A step is forward pass, mean squared error and backward pass on noise, at the batch and the
sizes that the *older* version has at scale paper, so both do the same work; the newer one computes the batch in the
pieces that training would. Time is the shortest of a turn, and the median over turns; the limit of the step is that of
`bench models`, with peak and bandwidth measured in the newer version's turns. Where both versions name and
shape their parameters alike, the newer one gets the older one's and the relative difference of its output and of the
gradient of its input stands beside the times.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tabulate import tabulate
from torch.nn import functional as F

ROOT = Path(__file__).resolve().parents[1]
FIRST_VERSION = "53fd003"
BATCHES = {"heat_1d": 256, "burgers_1d": 256, "poisson_2d": 128, "navier_stokes_forward": 64, "poisson_3d": 2}
CASES = [
    *(("heat_1d", model) for model in ("neural_hss", "fno", "resnet", "deeponet")),
    *(("burgers_1d", model) for model in ("neural_hss", "fno", "deeponet")),
    *(("poisson_2d", model) for model in ("neural_hss", "fno", "deeponet", "resnet", "factformer")),
    *(("navier_stokes_forward", model) for model in ("neural_hss", "fno", "deeponet")),
    *(("poisson_3d", model) for model in ("neural_hss", "fno")),
]
SLOW = {"resnet": 16, "factformer": 16}  # by how many times fewer samples: a step of all takes half a minute
SECONDS = 4.0  # of one turn, after three steps


def registry() -> Any:
    try:
        from pdebench_hss.contract.registry import load_registry
    except ModuleNotFoundError:  # before the core had rooms
        from pdebench_hss.plugins import load_registry
    return load_registry()


def pieces(model: Any, task: Any, x: torch.Tensor, y: torch.Tensor) -> int:
    """How many samples the version computes at a time; all of them where it knows no pieces."""
    try:
        from pdebench_hss.training import pieces as rule
    except ImportError:
        return len(x)
    from pdebench_hss.training.normalization import Affine, Normalizer
    from pdebench_hss.training.objective import Objective
    from pdebench_hss.training.windows import TrainSet

    units = Normalizer(*(Affine(np.zeros(c), np.ones(c)) for c in (task.in_channels, task.out_channels)))
    objective = Objective(model, TrainSet(x, y, units, task), torch.device("cpu"))
    return rule.choose(objective, len(x), torch.device("cpu")).samples or len(x)


def turn(task_name: str, model_name: str, hparams: dict[str, Any] | None, state: Path, threads: int) -> dict[str, Any]:
    """In a process of its own: the time of a step, and what it computes from the parameters that lie in ``state``."""
    torch.set_num_threads(threads)
    known = registry()
    task_spec, spec = known.task(task_name).spec, known.model(model_name).spec
    task = task_spec.info("paper")
    if hparams is None:
        hparams = spec.hparams_for(task)
    torch.manual_seed(0)
    model = spec.make(task, hparams)
    batch = BATCHES[task_name] // SLOW.get(model_name, 1)
    x = torch.randn(batch, task.in_channels, *task.grid, generator=torch.Generator().manual_seed(1))
    y = torch.randn(batch, task.out_channels, *task.grid, generator=torch.Generator().manual_seed(2))
    same = agree(model, x[:4], state)
    size = pieces(model, task, x, y)

    def step() -> None:
        model.zero_grad(set_to_none=True)
        for part, wanted in zip(x.split(size), y.split(size), strict=True):
            (F.mse_loss(model(part), wanted) * (len(part) / batch)).backward()

    taken, begun = [], time.perf_counter()
    while len(taken) < 3 or (len(taken) < 40 and time.perf_counter() - begun < SECONDS):
        start = time.perf_counter()
        step()
        taken.append(1e3 * (time.perf_counter() - start))
    found = {"ms": min(taken), "batch": batch, "piece": size, "hparams": hparams, "same": same}
    return {**found, "limit": limit(model, step, task, batch)}


def limit(model: Any, step: Callable[[], None], task: Any, batch: int) -> float | None:
    """The least milliseconds that a step takes; None in a version that does not know limits."""
    try:
        from pdebench_hss.base import machine
        from pdebench_hss.bench.limits import Work, least_bytes, limit_ms, probes, speeds
        from pdebench_hss.bench.models import noise
        from pdebench_hss.bench.timing import time_in_turns
        from pdebench_hss.training import flops
    except ImportError:
        return None
    moved = least_bytes(model, lambda count: noise(task, count), batch, machine.cache_bytes())
    return limit_ms(Work(flops.count(step), moved), speeds(time_in_turns(probes(), seconds=1.0)))


def agree(model: Any, x: torch.Tensor, state: Path) -> float | None:
    """Relative difference from the other version, which left parameters, output and gradient; or leave them."""
    parameters = dict(model.named_parameters())
    if state.exists():
        other = torch.load(state, weights_only=True)
        theirs = other["parameters"]
        if {name: value.shape for name, value in theirs.items()} != {n: p.shape for n, p in parameters.items()}:
            return None
        with torch.no_grad():
            for name, value in theirs.items():
                parameters[name].copy_(value)
    else:
        # a network that starts as the zero map would agree with anything
        with torch.no_grad():
            for value in parameters.values():
                if not value.any():
                    value.normal_(std=0.1)
    x = x.clone().requires_grad_()
    out = model(x)
    out.square().mean().backward()
    if not state.exists():
        torch.save({"parameters": parameters, "out": out.detach(), "grad": x.grad}, state)
        return None
    pairs = ((out.detach(), other["out"]), (x.grad, other["grad"]))
    return max(float((ours - wanted).norm() / wanted.norm()) for ours, wanted in pairs)


def unpack(revision: str, folder: Path) -> Path:
    """The tree of a commit."""
    folder.mkdir()
    archive = subprocess.run(["git", "archive", revision], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder


def in_version(tree: Path, script: str, arguments: list[str]) -> dict[str, Any]:
    """What ``script --turn ...`` prints as its last line, with the packages of a tree."""
    paths = os.pathsep.join(str(tree / part) for part in ("", "plugins", "tasks", "studies"))
    command = [sys.executable, str(Path(script).resolve()), "--turn", *arguments]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, cwd=tree)
    if done.returncode:
        raise SystemExit(f"{tree}: {' '.join(arguments)} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def compare(task: str, model: str, before: Path, rounds: int, threads: int, scratch: Path) -> dict[str, Any]:
    state, hparams, old, new = scratch / f"{task}-{model}.pt", None, [], []
    for _ in range(rounds):
        old.append(in_version(before, __file__, [task, model, json.dumps(hparams), str(state), str(threads)]))
        hparams = old[0]["hparams"]
        new.append(in_version(ROOT, __file__, [task, model, json.dumps(hparams), str(state), str(threads)]))
    times = [statistics.median(one["ms"] for one in turns) for turns in (old, new)]
    limit = statistics.median(one["limit"] for one in new)
    return {
        **{"task": task, "model": model, "batch": old[0]["batch"], "piece": new[0]["piece"], "threads": threads},
        **{"before_ms": times[0], "after_ms": times[1], "faster": times[0] / times[1]},
        **{"limit_ms": limit, "before_times": times[0] / limit, "after_times": times[1] / limit},
        **{"difference": new[0]["same"], "rounds": rounds, "load": round(os.getloadavg()[0], 2)},
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--before", default=FIRST_VERSION, help="a commit of this repository")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tasks", nargs="+", default=list(BATCHES), choices=BATCHES)
    parser.add_argument("--out", help="write the table as CSV")
    parser.add_argument("--turn", nargs=5, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.turn:
        task, model, hparams, state, threads = chosen.turn
        print(json.dumps(turn(task, model, json.loads(hparams), Path(state), int(threads))))
        return
    with tempfile.TemporaryDirectory() as name:
        before = unpack(chosen.before, Path(name) / "before")
        rows = []
        for task, model in (case for case in CASES if case[0] in chosen.tasks):
            rows.append(compare(task, model, before, chosen.rounds, chosen.threads, Path(name)))
            print(rows[-1], flush=True)
    print(tabulate(rows, headers="keys", floatfmt=".3g"))
    if chosen.out:
        with Path(chosen.out).open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
