"""HSS layers beside what else one could use: the ratios that the layer must reach, measured in one run.

    python benchmarks/hss_layers.py [--threads 2] [--only PART] [--repeats 9] [--out FILE.csv]

Forward and backward pass, median of measurements that take turns.

    poisson_2d, navier_stokes_forward, poisson_3d
            a training step of Neural-HSS at the paper's sizes beside neuraloperator's FNO, our ResNet (2D Poisson), and
            the time of the same FLOPs at the speed of a large matrix product
    lines   one matrix beside `nn.Linear`, a dense einsum, and the paper's Algorithm 1 block by block in Python
    sizes   `auto` against every forced way
    huge    2^16 to 2^20 points

Ends with 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import csv
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from pdebench_hss_models.neural_hss.bench import CASES, ROWS, measure, step_of
from pdebench_hss_models.neural_hss.layer import HSSMap
from pdebench_hss_models.neural_hss.matrix.factors import Factors
from pdebench_hss_models.neural_hss.matrix.parameters import HSSMatrix
from tabulate import tabulate
from torch import Tensor, nn

from pdebench_hss.base import machine
from pdebench_hss.bench.models import Subject
from pdebench_hss.bench.timing import BenchRequest, memory_of, time_in_turns
from pdebench_hss.contract.registry import Registry, load_registry
from pdebench_hss.training import flops


class Size(NamedTuple):
    """Batch; modes (of both signs), width and layers of neuraloperator's FNO; times that Neural-HSS must be faster."""

    batch: int
    modes: int
    width: int
    layers: int
    goal: float


SIZES = {
    "poisson_2d": Size(128, 16, 16, 4, goal=8),
    "navier_stokes_forward": Size(16, 32, 32, 4, goal=15),
    "poisson_3d": Size(1, 16, 14, 2, goal=40),
}
GEMM = 2048  # side of the matrices whose product sets the peak
HUGE_ROWS = 16


@dataclass
class Report:
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, what: str, value: float, goal: float | None = None, at_most: bool = False, unit: str = "x") -> None:
        kept = None if goal is None else value <= goal if at_most else value >= goal
        sign = "" if goal is None else f"{'<=' if at_most else '>='} {goal:g}"
        verdict = {None: "", True: "reached", False: "MISSED"}[kept]
        row = {"what": what, "value": value, "unit": unit, "goal": sign, "verdict": verdict}
        self.rows.append(row)
        print(f"{what}: {value:.4g} {unit} {sign} {verdict}".rstrip(), flush=True)


def peak() -> Callable[[], Tensor]:
    a, b = torch.randn(GEMM, GEMM), torch.randn(GEMM, GEMM)
    return lambda: a @ b


def training_step(report: Report, registry: Registry, repeats: int, name: str) -> None:
    from neuralop.models import FNO

    size = SIZES[name]
    task = registry.task(name).spec.info("paper")
    x, y = torch.randn(size.batch, 1, *task.grid), torch.randn(size.batch, 1, *task.grid)

    def ours(model: str) -> Subject:
        spec = registry.model(model).spec
        return Subject(spec.make(task, spec.hparams_for(task)), x, y)

    theirs = FNO(
        (size.modes,) * task.dim, in_channels=1, out_channels=1, hidden_channels=size.width, n_layers=size.layers
    )
    subjects = {"neural_hss": ours("neural_hss"), "neuraloperator FNO": Subject(theirs, x, y)}
    if name == "poisson_2d":
        subjects["resnet"] = ours("resnet")
    steps = {key: subject.step for key, subject in subjects.items()}
    found = time_in_turns({**steps, "gemm": peak()}, repeats, seconds=20)
    for key, timing in found.items():
        report.add(f"{name}, batch {size.batch}: {key}", timing.median, unit="ms")
    hss = found["neural_hss"].median
    report.add(f"{name}: faster than neuraloperator's FNO", found["neuraloperator FNO"].median / hss, size.goal)
    if "resnet" in found:
        report.add(f"{name}: faster than ResNet", found["resnet"].median / hss, 30)
    best_possible = flops.count(subjects["neural_hss"].step) * found["gemm"].median / (2 * GEMM**3)
    limit = 2.5 if name == "poisson_2d" else None
    report.add(f"{name}: time over that of its FLOPs at the GEMM peak", hss / best_possible, limit, at_most=True)


def block_by_block(x: Tensor, a: Factors, level: int = 0) -> Tensor:
    """Algorithm 1 as the paper prints it, on rows: a Python loop over the blocks of every level."""
    if level == a.levels:
        return x @ a.D[level][0, 0].T
    d, u, v = a.D[level][0], a.U[level][0], a.V[level][0]
    parts = x.chunk(len(d), dim=-1)
    z = torch.cat([part @ v[i] for i, part in enumerate(parts)], dim=-1)
    y = block_by_block(z, a, level + 1).chunk(len(d), dim=-1)
    return torch.cat([y[i] @ u[i].T + part @ d[i].T for i, part in enumerate(parts)], dim=-1)


def gradients(function: Callable[[Tensor], Tensor], parameters: Any, points: int, rows: int) -> Callable[[], Any]:
    x, g = torch.randn(rows, points, requires_grad=True), torch.randn(rows, points)
    wanted = [x, *parameters]
    return lambda: torch.autograd.grad(function(x), wanted, g)


def lines(report: Report, repeats: int) -> None:
    shapes = ((1024, 3, 32), (1024, 4, 8))  # the paper's, and leaves of 64 points
    for points, levels, rank, rows in (*((*shape, rows) for shape in shapes for rows in (1, 256)), (4096, 6, 8, 256)):
        matrix = HSSMatrix(points, points, levels, rank)
        linear = nn.Linear(points, points, bias=False)
        weight = nn.Parameter(torch.randn(1, points, points))
        found = time_in_turns(
            {
                "auto": step_of(HSSMap((points,), (points,), levels, rank), rows),
                "tree": step_of(HSSMap((points,), (points,), levels, rank, way="tree"), rows),
                "nn.Linear": gradients(linear, [linear.weight], points, rows),
                "einsum": gradients(lambda x, w=weight: torch.einsum("kij,bj->bi", w, x), [weight], points, rows),
                "block by block": gradients(
                    lambda x, m=matrix: block_by_block(x, m.factors()), matrix.parameters(), points, rows
                ),
            },
            repeats,
            seconds=20,
        )
        where = f"{points} points, L = {levels}, r = {rank}, {rows} rows"
        for key, timing in found.items():
            report.add(f"{where}: {key}", timing.median, unit="ms")
        loop = found["block by block"].median / found["tree"].median
        report.add(f"{where}: tree faster than block by block", loop, 5 if points == 1024 else None)
        linear_time = found["nn.Linear"].median / found["auto"].median
        report.add(f"{where}: auto faster than nn.Linear", linear_time, 15 if points == 4096 else None)


def sizes(report: Report, registry: Registry, threads: int, repeats: int) -> None:
    request = BenchRequest(registry, threads=threads, repeats=repeats, seconds=20)
    for case in CASES:
        for rows in ROWS:
            found = {row["way"]: row for row in measure(request, *case, rows)}
            forced = {way: row["step_ms"] for way, row in found.items() if way != "auto" and "step_ms" in row}
            best = min(forced, key=forced.__getitem__)
            ratio = found["auto"]["step_ms"] / forced[best]
            report.add(f"{case[0]} points, {rows} rows: auto over the best way ({best})", ratio, 1.1, at_most=True)


def huge(report: Report) -> None:
    times = {}
    for exponent, levels in ((16, 10), (20, 14)):
        step = step_of(HSSMap((2**exponent,), (2**exponent,), levels, rank=8), HUGE_ROWS)
        times[exponent] = time_in_turns({"huge": step}, repeats=5, seconds=60)["huge"].median
        report.add(f"2^{exponent} points, {HUGE_ROWS} rows", times[exponent], unit="ms")
        if exponent == 20:
            report.add("2^20 points: memory of a step", memory_of(step) / 2**30, unit="GB")
            report.add("2^20 points: memory of the process", machine.peak_memory() / 2**30, 6, at_most=True, unit="GB")
    report.add("2^16 to 2^20 points: growth of time", times[20] / times[16], 20, at_most=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="The ratios that the HSS layer must reach.")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--only", choices=("huge", *SIZES, "lines", "sizes"))
    parser.add_argument("--out", help="write the table as CSV")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    machine.use_large_pages()  # as the runner does, for everybody here
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    registry, report = load_registry(), Report()
    print(f"{machine.hardware_line()}, {options.threads} threads, torch {torch.__version__}")
    parts: dict[str, Callable[[], None]] = {
        "huge": partial(huge, report),  # first: the memory of the process is then its own
        **{name: partial(training_step, report, registry, options.repeats, name) for name in SIZES},
        "lines": partial(lines, report, options.repeats),
        "sizes": partial(sizes, report, registry, options.threads, options.repeats),
    }
    for name, part in parts.items():
        if options.only in (None, name):
            part()
    goals = [row for row in report.rows if row["goal"]]
    print()
    print(tabulate([list(row.values()) for row in goals], headers=list(goals[0]), floatfmt=".4g"))
    if options.out:
        with Path(options.out).open("w", newline="") as file:
            writer = csv.DictWriter(file, list(report.rows[0]))
            writer.writeheader()
            writer.writerows(report.rows)
    missed = sum(row["verdict"] == "MISSED" for row in goals)
    print(f"{len(goals) - missed} of {len(goals)} goals reached")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
