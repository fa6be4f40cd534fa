"""``pdebench-hss bench layers``: one HSS matrix in every form, forward and backward, and the cost model's prediction.

``--explain`` prints the cost model's terms for every cut of the tree and measures nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pdebench_hss import BenchRequest, BenchResult, hardware_line, memory_of, time_in_turns

from .apply.cost import CPU, Axis, prices, root_entries
from .layer import HSSMap

# (points, levels, rank): the paper's rows up to 1024, beyond it leaves of 64 and rank 8.
CASES = ((64, 2, 2), (128, 2, 8), (256, 3, 2), (1024, 3, 32), (4096, 6, 8), (16384, 8, 8))
ROWS = (1, 256, 8192)
NAMED = ("tree", "collapsed", "dense")
HOPELESS = 20  # a way predicted to take this many times the best is not measured
COLUMNS = [
    *("points", "levels", "rank", "rows", "way", "cut", "step_ms", "step_ms_low", "step_ms_high", "repeats"),
    *("predicted_ms", "peak_memory_mb", "slower_than_best", "status", "threads", "hardware"),
]
TERMS = [
    *(
        "points",
        "levels",
        "rank",
        "rows",
        "cut",
        "way",
        "products",
        "gflop",
        "moved_mb",
        "root_mb",
        "predicted_ms",
        "choice",
    ),
]


def bench_layers(request: BenchRequest) -> BenchResult:
    if request.explain:
        return BenchResult(TERMS, [row for case in CASES for rows in ROWS for row in explain(*case, rows)])
    torch.set_num_threads(request.threads)
    table: list[dict[str, Any]] = []
    for case in CASES:
        for rows in ROWS:
            found = measure(request, *case, rows)
            times = ", ".join(f"{row['way']} {row['step_ms']:.3g} ms" for row in found if "step_ms" in row)
            request.say(f"{case[0]} points, {rows} rows: {times}")
            table += found
    return BenchResult(COLUMNS, table)


def way_of(cut: int, levels: int) -> str:
    return {levels: "tree", 1: "collapsed", 0: "dense"}.get(cut, "cut")


def explain(points: int, levels: int, rank: int, rows: int) -> list[dict[str, Any]]:
    axis = Axis(points, points, levels, rank, terms=1, rows=rows)
    found = prices(axis, CPU)
    return [
        {
            "points": points, "levels": levels, "rank": rank, "rows": rows, "cut": p.cut, "way": way_of(p.cut, levels),
            "products": p.products, "gflop": p.flops / 1e9, "moved_mb": p.bytes / 2**20,
            "root_mb": axis.itemsize * root_entries(axis, p.cut) / 2**20, "predicted_ms": 1e3 * p.seconds,
            "choice": "<- auto" if p is found[0] else "",
        }
        for p in sorted(found, key=lambda p: p.cut)
    ]  # fmt: skip


def measure(request: BenchRequest, points: int, levels: int, rank: int, rows: int) -> list[dict[str, Any]]:
    """The named ways and `auto` in turn, on the same parameters."""
    axis = Axis(points, points, levels, rank, terms=1, rows=rows)
    by_cut = {p.cut: p.seconds for p in prices(axis, CPU)}
    best = min(by_cut.values())
    cuts = {"tree": levels, "collapsed": 1, "dense": 0, "auto": min(by_cut, key=by_cut.__getitem__)}
    head = {
        "points": points, "levels": levels, "rank": rank, "rows": rows,
        "threads": request.threads, "hardware": hardware_line(),
    }  # fmt: skip
    table: dict[str, dict[str, Any]] = {}
    steps: dict[str, Callable[[], tuple[Tensor, ...]]] = {}
    for way, cut in cuts.items():
        seconds = by_cut.get(cut, float("inf"))
        hopeless = seconds > HOPELESS * best
        status = f"not measured: predicted {seconds / best:.0f} times the best" if hopeless else "ok"
        table[way] = {**head, "way": way, "cut": cut, "predicted_ms": 1e3 * seconds, "status": status}
        if not hopeless:
            steps[way] = step_of(HSSMap((points,), (points,), levels, rank, way=way), rows)
    for way, found in time_in_turns(steps, request.repeats, request.seconds / len(steps)).items():
        table[way] |= found.columns("step") | {"repeats": found.repeats}
        table[way]["peak_memory_mb"] = round(memory_of(steps[way]) / 2**20, 1)
    fastest = min(table[way]["step_ms"] for way in steps)
    for way in steps:
        table[way]["slower_than_best"] = table[way]["step_ms"] / fastest
    return list(table.values())


def step_of(layer: HSSMap, rows: int) -> Callable[[], tuple[Tensor, ...]]:
    """Forward and backward pass, gradients of input and parameters, on noise."""
    x = torch.randn(rows, *(weight.shape[1] for weight in layer.axes), requires_grad=True)
    g = torch.randn(rows, *(weight.shape[0] for weight in layer.axes))
    wanted = [x, *layer.parameters()]
    return lambda: torch.autograd.grad(layer(x), wanted, g)
