"""A training step of FNO in products, in FFTs, and of neuraloperator's FNO, each at its best batch, in one run.

    python benchmarks/fno_layers.py [--threads 1 2] [--only TASK] [--repeats 21] [--out FILE.csv]

    fft                  our FNO with way=fft: whole fields through torch.fft, the form that it had at first
    auto                 our FNO as it is by default
    neuraloperator       its FNO with the same layers, width and modes, everything else as that library sets it
    neuraloperator bare  the same without its channel MLPs and with a linear lift: the nearest that it has to ours

Forward and backward pass of the mean squared error at the paper's sizes, ms per sample. First every batch, all
contenders in turn; who is best at the largest one gets larger ones. Then each at its own best batch, again in turn: the
ratios come from there. Medians with the quarter and three-quarter marks. The load of the machine stands in each row;
without other work it is at most the number of threads. Ends with 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import torch
from neuralop.models import FNO as TheirFNO
from pdebench_hss_models.fno import FNO
from tabulate import tabulate
from torch import nn

from pdebench_hss import TaskInfo
from pdebench_hss.base import machine
from pdebench_hss.bench.models import subject
from pdebench_hss.bench.timing import alternate, memory_of
from pdebench_hss.contract.registry import load_registry

LARGEST_BATCH = 1024
ROOM = 0.6  # of the free memory, for a step


class Size(NamedTuple):
    """Batches, and how many times faster `auto` must be than `fft` and than neuraloperator's."""

    batches: tuple[int, ...]
    than_fft: float | None
    than_theirs: float | None


SIZES = {
    "heat_1d": Size((4, 16, 64, 128), None, None),  # 256 points, 6 layers, width 32, 12 modes
    "poisson_2d": Size((4, 16, 64, 128), 2.5, 4),  # 64^2, 4 layers, width 16, 8 modes
    "navier_stokes_forward": Size((1, 4, 16, 64, 128), 1.8, 3),  # 128^2, 4 layers, width 32, 16 modes
    "poisson_3d": Size((1, 2, 4), 1.5, None),  # 128^3, 2 layers, width 14, 8 modes
}


class Measured(NamedTuple):
    """Milliseconds per sample."""

    batch: int
    median: float
    low: float
    high: float


def contenders(task: TaskInfo) -> dict[str, nn.Module]:
    hparams = FNO.hparams_for(task)
    theirs: dict[str, Any] = {
        "n_modes": (2 * hparams["modes"],) * task.dim,  # they count both signs
        "in_channels": task.in_channels,
        "out_channels": task.out_channels,
        "hidden_channels": hparams["width"],
        "n_layers": hparams["layers"],
    }
    return {
        "fft": FNO.make(task, {**hparams, "way": "fft"}),
        "auto": FNO.make(task, hparams),
        "neuraloperator": TheirFNO(**theirs),
        "neuraloperator bare": TheirFNO(**theirs, use_channel_mlp=False, lifting_channel_ratio=0),
    }


class Comparison:
    """All contenders on one task with one number of threads."""

    def __init__(self, task: TaskInfo, options: argparse.Namespace, threads: int) -> None:
        self.task, self.options, self.threads = task, options, threads
        self.models = contenders(task)
        self.memory = {name: memory_of(subject(model, task, 1).step) for name, model in self.models.items()}
        self.found: dict[str, list[Measured]] = {name: [] for name in self.models}
        self.rows: list[dict[str, Any]] = []

    def measure(self, batches: dict[str, int], what: str) -> dict[str, Measured]:
        """Contenders in turn, each at its batch."""
        steps = {name: subject(self.models[name], self.task, batch).step for name, batch in batches.items()}
        timings = alternate(steps, self.options.repeats, self.options.seconds)
        measured = {}
        for name, timing in timings.items():
            per_sample = (value / batches[name] for value in (timing.median, timing.low, timing.high))
            measured[name] = Measured(batches[name], *per_sample)
            row = {"task": self.task.name, "threads": self.threads, "what": what, "model": name}
            row |= measured[name]._asdict() | {"repeats": timing.repeats, "load": round(os.getloadavg()[0], 2)}
            self.rows.append(row)
            print("  ".join(f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values()), flush=True)
        return measured

    def at_batch(self, batch: int, names: list[str]) -> None:
        able = [name for name in names if self.reason_against(name, batch) is None]
        for name, measured in self.measure(dict.fromkeys(able, batch), "every batch").items():
            self.found[name].append(measured)

    def reason_against(self, name: str, batch: int) -> str | None:
        if self.memory[name] * batch > ROOM * machine.free_memory():
            return "memory"
        known = self.found[name]
        return "time" if known and batch * known[-1].median > 1e3 * self.options.limit else None

    def best(self, name: str) -> int:
        return min(self.found[name], key=lambda measured: measured.median).batch

    def run(self, size: Size) -> dict[str, Measured]:
        """Each contender at its best batch."""
        for batch in size.batches:
            self.at_batch(batch, list(self.models))
        batch = size.batches[-1]
        while gaining := [name for name in self.models if self.best(name) == batch]:
            batch *= 2
            if batch > LARGEST_BATCH:
                break
            self.at_batch(batch, gaining)
        return self.measure({name: self.best(name) for name in self.models}, "best batch")


def goals(task: str, threads: int, size: Size, best: dict[str, Measured]) -> list[dict[str, Any]]:
    rows = []
    for other, goal in (
        ("fft", size.than_fft),
        ("neuraloperator", size.than_theirs),
        ("neuraloperator bare", None),
    ):
        value = best[other].median / best["auto"].median
        verdict = "" if goal is None else "reached" if value >= goal else "MISSED"
        what = f"auto faster than {other}"
        rows.append({"task": task, "threads": threads, "what": what, "value": value, "goal": goal, "verdict": verdict})
    return rows


def write(path: str, rows: list[dict[str, Any]]) -> None:
    with Path(path).open("w", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(key for row in rows for key in row)))
        writer.writeheader()
        writer.writerows(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description="The ratios that FNO must reach.")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=21)
    parser.add_argument("--seconds", type=float, default=60, help="for the repeats of one contender at one batch")
    parser.add_argument("--limit", type=float, default=20, help="seconds: no batch that would take longer than this")
    parser.add_argument("--only", choices=SIZES)
    parser.add_argument("--out", help="write all measurements as CSV")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    registry = load_registry()
    print(f"{machine.hardware_line()}, torch {torch.__version__}, load {os.getloadavg()[0]:.2f} before")
    rows, ratios = [], []
    for threads in options.threads:
        torch.set_num_threads(threads)
        for name, size in SIZES.items():
            if options.only in (None, name):
                torch.manual_seed(0)
                comparison = Comparison(registry.task(name).spec.info("paper"), options, threads)
                ratios += goals(name, threads, size, comparison.run(size))
                rows += comparison.rows
    best = [row for row in rows if row["what"] == "best batch"]
    print("\nms per sample, each at its best batch")
    print(tabulate(best, headers="keys", floatfmt=".4g"))
    print()
    print(tabulate(ratios, headers="keys", floatfmt=".3g"))
    if options.out:
        write(options.out, rows + ratios)
    missed = sum(row["verdict"] == "MISSED" for row in ratios)
    print(f"{sum(row['goal'] is not None for row in ratios) - missed} goals reached, {missed} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    if any(name not in os.environ for name in machine.LARGE_PAGES):
        machine.use_large_pages()  # as processes of trials have it; glibc reads it when a process starts
        os.execv(sys.executable, [sys.executable, *sys.argv])
    sys.exit(main())
