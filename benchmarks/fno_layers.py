"""A step of FNO and of Neural-HSS beside neuraloperator's FNO: at equal batches, and each at its best, in one run.

    python benchmarks/fno_layers.py [--threads 1 2] [--only TASK ..] [--repeats 5] [--out FILE.csv] [--cpu-time]

    fft                  our FNO with way=fft: whole fields through torch.fft, the form that it had at first
    auto                 our FNO as it is by default
    neural_hss           Neural-HSS of the same task
    neuraloperator       its FNO with the same layers, width and modes, everything else as that library sets it
    neuraloperator bare  the same without its channel MLPs and with a linear lift: the nearest that it has to ours

Forward and backward pass of the mean squared error at the paper's sizes, ms per sample. First every batch, all
contenders in turn; who is best at the largest one gets larger ones. Then each at its own best batch, again in turn: the
ratios that count come from there, and the goals are for them; those at equal batches stand beside them. Medians with
the quarter and three-quarter marks. The load of the machine stands in each row; without other work it is at most the
number of threads. With other work, ``--threads 1 --cpu-time``. Ends with 1 if a goal is missed.

``python docs/kernel_tables.py`` writes the tables of docs/kernels.md from the CSV.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
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
from pdebench_hss.bench.timing import memory_of, time_in_turns
from pdebench_hss.contract.registry import load_registry

LARGEST_BATCH = 1024
ROOM = 0.6  # of the free memory, for a step


class Size(NamedTuple):
    """Batches, and how many times faster `auto` must be than `fft` and than neuraloperator's."""

    batches: tuple[int, ...]
    than_fft: float | None
    than_theirs: float | None


SIZES = {
    "heat_1d": Size((16, 64, 256), None, None),  # 256 points, 6 layers, width 32, 12 modes
    "poisson_2d": Size((4, 16, 32, 64, 128), 2.5, 4),  # 64^2, 4 layers, width 16, 8 modes
    "navier_stokes_forward": Size((1, 4, 8, 16, 32), 1.8, 3),  # 128^2, 4 layers, width 32, 16 modes
    "poisson_3d": Size((1, 2, 4), 1.5, None),  # 128^3, 2 layers, width 14, 8 modes
}


OTHERS = {
    "auto": ("fft", "neuraloperator", "neuraloperator bare"),
    "neural_hss": ("auto", "neuraloperator", "neuraloperator bare"),
}


class Measured(NamedTuple):
    """Milliseconds per sample."""

    batch: int
    median: float
    low: float
    high: float


def contenders(task: TaskInfo) -> dict[str, nn.Module]:
    hparams, hss = FNO.hparams_for(task), load_registry().model("neural_hss").spec
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
        "neural_hss": hss.make(task, hss.hparams_for(task)),
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
        clock = time.thread_time if self.options.cpu_time else time.perf_counter
        timings = time_in_turns(steps, self.options.repeats, self.options.seconds, clock)
        measured = {}
        for name, timing in timings.items():
            per_sample = (value / batches[name] for value in (timing.median, timing.low, timing.high))
            measured[name] = Measured(batches[name], *per_sample)
            row = {"task": self.task.name, "threads": self.threads, "at": what, "model": name}
            row |= {"batch": batches[name], "sample_ms": measured[name].median}
            row |= {"sample_ms_low": measured[name].low, "sample_ms_high": measured[name].high}
            row |= {"repeats": timing.repeats, "load": round(os.getloadavg()[0], 2)}
            self.rows.append(row)
            print("  ".join(f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values()), flush=True)
        return measured

    def at_batch(self, batch: int, names: list[str]) -> None:
        able = [name for name in names if self.reason_against(name, batch) is None]
        for name, measured in self.measure(dict.fromkeys(able, batch), f"batch {batch}").items():
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
        return self.measure({name: self.best(name) for name in self.models}, "best")


def ratios(rows: list[dict[str, Any]], size: Size) -> list[dict[str, Any]]:
    """How many times faster per sample our models are than the others, at each batch and at each one's best."""
    goals = {"fft": size.than_fft, "neuraloperator": size.than_theirs}
    found = []
    for at in dict.fromkeys(row["at"] for row in rows):
        times = {row["model"]: row["sample_ms"] for row in rows if row["at"] == at}
        for model, others in OTHERS.items():
            for than in (other for other in others if model in times and other in times):
                ratio = {"task": rows[0]["task"], "threads": rows[0]["threads"], "at": at, "model": model, "than": than}
                ratio |= {"faster": times[than] / times[model], "goal": None, "verdict": ""}
                if at == "best" and model == "auto" and goals.get(than):
                    ratio |= {"goal": goals[than], "verdict": "reached" if ratio["faster"] >= goals[than] else "MISSED"}
                found.append(ratio)
    return found


def write(path: str, rows: list[dict[str, Any]]) -> None:
    with Path(path).open("w", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(key for row in rows for key in row)))
        writer.writeheader()
        writer.writerows(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description="The ratios that FNO must reach.")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20, help="for the repeats of one contender at one batch")
    parser.add_argument("--limit", type=float, default=6, help="seconds: no batch that would take longer than this")
    parser.add_argument("--only", choices=SIZES, nargs="+", default=list(SIZES))
    parser.add_argument("--cpu-time", action="store_true", help="of one thread, beside other work")
    parser.add_argument("--out", help="write all measurements as CSV")
    options = parser.parse_args()
    if options.cpu_time and options.threads != [1]:
        parser.error("--cpu-time counts one thread: add --threads 1")
    warnings.filterwarnings("ignore")
    registry = load_registry()
    print(f"{machine.hardware_line()}, torch {torch.__version__}, load {os.getloadavg()[0]:.2f} before")
    rows, compared = [], []
    for threads in options.threads:
        torch.set_num_threads(threads)
        for name in options.only:
            torch.manual_seed(0)
            comparison = Comparison(registry.task(name).spec.info("paper"), options, threads)
            comparison.run(SIZES[name])
            rows += comparison.rows
            compared += ratios(comparison.rows, SIZES[name])
    for row in rows:
        row["clock"] = "cpu" if options.cpu_time else "wall"
    print("\nms per sample, each at its best batch")
    print(tabulate([row for row in rows if row["at"] == "best"], headers="keys", floatfmt=".4g"))
    print()
    print(tabulate(compared, headers="keys", floatfmt=".3g"))
    if options.out:
        write(options.out, rows + compared)
    missed = sum(row["verdict"] == "MISSED" for row in compared)
    print(f"{sum(row['goal'] is not None for row in compared) - missed} goals reached, {missed} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    if any(name not in os.environ for name in machine.LARGE_PAGES):
        machine.use_large_pages()  # as processes of trials have it; glibc reads it when a process starts
        os.execv(sys.executable, [sys.executable, *sys.argv])
    sys.exit(main())
