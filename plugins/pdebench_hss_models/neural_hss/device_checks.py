"""Neural-HSS checks of `pdebench-hss doctor --device cuda`: are the kernels correct, and which form is fastest?

The cost model's constants are fitted to the timings of all forms and kept in the user's cache for `auto`.
"""

from __future__ import annotations

from typing import Any

import torch

from pdebench_hss import failed, first_line, milliseconds_on, passed, skipped

from .apply import measured
from .apply.cost import Axis
from .apply.ways import gpu_name, way_taken
from .layer import HSSLayer, HSSMap
from .triton.layer import available

# (grid, levels, rank, terms, batch): nothing is a multiple of anything.
ODD = [
    ((64,), 2, 2, 1, 32), ((61,), 3, 3, 1, 7), ((300,), 2, 17, 1, 33), ((33,), 1, 5, 4, 1),
    ((20, 31), 2, 3, 3, 5), ((16, 16), 2, 4, 2, 16), ((7, 9, 12), 1, 2, 2, 3),
]  # fmt: skip
ALLOWED = {torch.float32: 2e-5, torch.float64: 1e-12}

# (points, levels, rank, rows): five sizes from small to large; for a rehearsal on a CPU, five small ones.
SIZES = {
    "cuda": [(64, 2, 2, 256), (256, 3, 2, 256), (256, 3, 8, 8192), (1024, 3, 32, 8192), (4096, 6, 8, 1024)],
    "cpu": [(32, 2, 2, 16), (64, 2, 2, 64), (64, 2, 2, 256), (128, 2, 8, 256), (256, 3, 2, 256)],
}
TIMED = ("tree", "collapsed", "dense", "triton")


def kernels(emit: Any, device: str) -> dict[str, Any]:
    """Every kernel against `tree`, values and gradients, in float32 and float64."""
    where, found = torch.device(device), {}
    for dtype in ALLOWED:
        if reason := available(where, dtype):
            return skipped(reason)
        for case in ODD:
            found[f"{case} {str(dtype).removeprefix('torch.')}"] = off_by(case, dtype, where) / ALLOWED[dtype]
    broken = [f"{name}: {ratio:.1f} times the allowed difference" for name, ratio in found.items() if not ratio <= 1]
    if broken:
        return failed(f"{len(broken)} of {len(found)} cases differ from the tree: {broken[0]}", ratios=found)
    return passed(f"{len(found)} odd sizes, ranks and batches agree with the tree", ratios=found)


def off_by(case: tuple[tuple[int, ...], int, int, int, int], dtype: torch.dtype, device: torch.device) -> float:
    """The largest relative difference of the output and of any gradient."""
    grid, levels, rank, terms, batch = case
    torch.manual_seed(0)
    layers = {way: HSSLayer(grid, levels, rank, terms, way=way).to(device, dtype) for way in ("tree", "triton")}
    layers["triton"].load_state_dict(layers["tree"].state_dict())
    z = torch.randn(batch, *grid, dtype=torch.float64).to(device, dtype).requires_grad_()
    g = torch.randn(batch, *grid, dtype=torch.float64).to(device, dtype)
    results = []
    for layer in layers.values():
        y = layer(z)
        results.append([y, *torch.autograd.grad(y, [z, *layer.parameters()], g)])
    return max(((a - b).norm() / b.norm().clamp_min(1e-30)).item() for b, a in zip(*results, strict=True))


def timing(emit: Any, device: str) -> dict[str, Any]:
    """All forms at five sizes; the constants for `auto`; and what it would choose with them."""
    where, timings, table = torch.device(device), [], []
    for points, levels, rank, rows in SIZES[where.type]:
        axis = Axis(points, points, levels, rank, terms=1, rows=rows)
        row: dict[str, float | str] = {}  # milliseconds of each form, or why there are none
        for way in TIMED:
            if way == "triton" and available(where, torch.float32):
                continue
            try:
                row[way] = ms = milliseconds_on(device, step_of(axis, way, where))
            except RuntimeError as error:  # the dense matrix of a large size may not fit
                row[f"{way}_error"] = first_line(error)
                continue
            timings.append(measured.Timing(axis, way, ms / 1e3))
        table.append({"points": points, "levels": levels, "rank": rank, "rows": rows, "ms": row})
    return conclude(timings, table, where)


def conclude(timings: list[measured.Timing], table: list[dict[str, Any]], device: torch.device) -> dict[str, Any]:
    """Constants from timings, stored in the cache for a GPU; and whether `auto` would choose well with them."""
    found = measured.fit(timings)
    kept = str(measured.write(gpu_name(device), found)) if device.type == "cuda" else ""
    slower = []
    for row in table:
        axis = Axis(row["points"], row["points"], row["levels"], row["rank"], terms=1, rows=row["rows"])
        row["auto"] = way_taken(axis, found)
        times = {way: ms for way, ms in row["ms"].items() if isinstance(ms, float)}
        row["fastest"] = min(times, key=lambda way: times[way])
        taken = times.get(row["auto"])  # None: a cut between the named forms, which was not timed
        slower.append(1.0 if taken is None else taken / times[row["fastest"]])
    picks = ", ".join(f"{row['points']}x{row['rows']}: {row['auto']}" for row in table)
    line = f"auto would take {picks}; at worst {max(slower):.2f} times the fastest"
    line += "; constants are in the cache" if kept else "; constants of a CPU are not kept"
    return passed(line, table=table, constants=measured.as_dict(found), worst=max(slower))


def step_of(axis: Axis, way: str, device: torch.device) -> Any:
    """Forward and backward pass."""
    torch.manual_seed(0)
    layer = HSSMap((axis.out,), (axis.inn,), axis.levels, axis.rank, way=way).to(device)
    x = torch.randn(axis.rows, axis.inn, device=device, requires_grad=True)
    g = torch.randn(axis.rows, axis.out, device=device)
    wanted = [x, *layer.parameters()]
    return lambda: torch.autograd.grad(layer(x), wanted, g)
