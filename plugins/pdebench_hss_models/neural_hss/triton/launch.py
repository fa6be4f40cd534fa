"""How the kernels of `kernels` are launched: tiles, grids and arguments, from shapes alone.

A `Launch` is a value. `run` executes it; the ahead-of-time report compiles the same one for tensors without memory,
so that what is inspected is what would run.

Vectors are ``(outer, inner, terms, points)`` with any strides; coefficients ``(terms, outer * inner, leaves * r)``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil
from typing import Any

import torch
from torch import Tensor

from . import kernels

MOST_POINTS = 256  # up to here, and up to so many coefficients, one launch does everything
MOST_COEFFICIENTS = {torch.float32: 64, torch.float64: 32}
ROWS_PER_SPLIT = 1024  # of a sum over rows: few enough to keep a GPU busy, enough that adding the parts costs little
ENOUGH_PROGRAMS = 1024  # with so many leaves and terms, splitting the rows would only cost memory
ACTIVATION_TILE = (32, 64)


@dataclass(frozen=True)
class Tiles:
    """Extents of the blocks a program works on: rows of the batch, points of a leaf, depth of one `tl.dot`."""

    rows: int
    points: int
    depth: int
    warps: int = 4
    stages: int = 2


@dataclass(frozen=True)
class Launch:
    kernel: Any
    grid: tuple[int, int, int]
    arguments: dict[str, Tensor | int | None]
    constants: dict[str, int | str | bool] = field(default_factory=dict)
    warps: int = 4
    stages: int = 2

    def run(self) -> None:
        if 0 in self.grid:  # no rows
            return
        first = next(value for value in self.arguments.values() if isinstance(value, Tensor))
        with torch.cuda.device_of(first):  # Triton launches on the current device
            self.kernel[self.grid](**self.arguments, **self.constants, num_warps=self.warps, num_stages=self.stages)


def tiles(dtype: torch.dtype, precision: str) -> Tiles:
    """Tiles that compile with few spills or none (`report` lists them); not tuned for speed on a GPU."""
    if dtype == torch.float64:  # tensor cores on sm_80 and sm_90 alone: as below
        return Tiles(rows=32, points=32, depth=16, warps=8)
    if precision == "ieee":  # no tensor cores: operands live in registers, which twice the threads share out
        return Tiles(rows=32, points=64, depth=16, warps=8)
    if precision == "tf32x3":  # with loads of the next tile under way, sm_120 runs out of registers sooner
        return Tiles(rows=64, points=64, depth=16, stages=1)
    return Tiles(rows=64, points=64, depth=32)


def padded(extent: int, largest: int) -> int:
    """The tile for an axis: a power of two, at least the 16 that `tl.dot` asks for."""
    return max(16, min(largest, 1 << (extent - 1).bit_length()))


def fits_one_launch(d: Tensor, u: Tensor) -> bool:
    """``d (terms, leaves, m_out, m_in)``, ``u (terms, leaves, m_out, r)``"""
    (terms, leaves, *leaf), rank = d.shape, u.shape[-1]
    small = leaves * max(leaf) <= MOST_POINTS and leaves * rank <= MOST_COEFFICIENTS[d.dtype]
    return terms == 1 and rank > 0 and small


def strides(prefix: str, x: Tensor) -> dict[str, int]:
    """By name. Where an axis has one entry its stride is arbitrary: what is passed must not depend on the batch."""
    outer, inner, term, point = x.stride()
    if x.shape[2] == 1:
        term = 0  # one vector for all terms
    if x.shape[1] == 1 and point == 1:
        inner = x.shape[2] * x.shape[3]  # a single row, as if others followed
    if x.shape[0] == 1 and (x.shape[1] == 1 or outer == x.shape[1] * x.stride(1)):
        outer = 0  # rows that are one axis, see `merge_rows`
    return {f"{prefix}_outer": outer, f"{prefix}_inner": inner, f"{prefix}_term": term, f"{prefix}_point": point}


def row_blocks(x: Tensor, rows: int) -> int:
    return x.shape[0] * ceil(x.shape[1] / rows)


def project(x: Tensor, v: Tensor, z: Tensor, precision: str) -> Launch:
    """z = V^T x"""
    terms, leaves, m, rank = v.shape
    tile = tiles(x.dtype, precision)
    columns = padded(rank, tile.points)
    return Launch(
        kernels.project_kernel,
        (row_blocks(x, tile.rows), leaves * ceil(rank / columns), terms),
        {"x": x, "v": v, "z": z, "inner": x.shape[1], "total_rows": x.shape[0] * x.shape[1], **strides("x", x)},
        {
            **{"LEAVES": leaves, "M": m, "R": rank, "PRECISION": precision},
            **{"ROWS": tile.rows, "DEPTH": padded(m, tile.depth), "RANK": columns},
        },
        tile.warps,
        tile.stages,
    )


def expand(
    x: Tensor, w: Tensor, d: Tensor, u: Tensor, bias: Tensor | None, slope: Tensor | None, y: Tensor, precision: str,
    only_small_slope: bool = False,
) -> Launch:  # fmt: skip
    """y = activation(D x + U w), summed over terms if y has one. ``d`` may be a transposed view."""
    terms, leaves, m_out, m_in = d.shape
    rank, added = u.shape[-1], terms if y.shape[2] == 1 else 1
    tile = tiles(x.dtype, precision)
    columns = padded(m_out, tile.points)
    return Launch(
        kernels.expand_kernel,
        (row_blocks(x, tile.rows), leaves * ceil(m_out / columns), y.shape[2]),
        {
            **{"x": x, "w": w, "d": d, "u": u, "bias": bias, "slope": slope, "y": y},
            **{"inner": x.shape[1], "total_rows": x.shape[0] * x.shape[1], "added": added},
            **strides("x", x), **strides("y", y), "d_row": d.stride(2), "d_column": d.stride(3),
        },
        {
            **{"LEAVES": leaves, "M_OUT": m_out, "M_IN": m_in, "R": rank, "ONLY_SMALL_SLOPE": only_small_slope},
            **{"ROWS": tile.rows, "COLUMNS": columns, "DEPTH": padded(m_in, tile.depth)},
            **{"RANK": padded(rank, tile.depth), "PRECISION": precision},
        },
        tile.warps,
        tile.stages,
    )  # fmt: skip


def whole(
    x: Tensor, v: Tensor, c: Tensor, u: Tensor, d: Tensor, bias: Tensor | None, slope: Tensor | None, y: Tensor,
    z: Tensor | None, precision: str,
) -> Launch:  # fmt: skip
    """y = activation(D x + U C V^T x) of one term. ``d`` and ``c`` may be transposed views."""
    _, leaves, m_out, m_in = d.shape
    rank = u.shape[-1]
    tile = tiles(x.dtype, precision)
    arguments: dict[str, Tensor | int | None] = {
        **{"x": x, "v": v, "c": c, "u": u, "d": d, "bias": bias, "slope": slope, "y": y, "z": z, "inner": x.shape[1]},
        **strides("x", x), **strides("y", y), "d_row": d.stride(2), "d_column": d.stride(3),
        "c_row": c.stride(1), "c_column": c.stride(2),
    }  # fmt: skip
    del arguments["x_term"], arguments["y_term"]
    return Launch(
        kernels.whole_kernel,
        (row_blocks(x, 32), 1, 1),
        arguments,
        {
            **{"LEAVES": leaves, "M_OUT": m_out, "M_IN": m_in, "R": rank},
            **{"ROWS": 32, "COLUMNS": padded(m_out, tile.points), "DEPTH": padded(m_in, tile.depth)},
            **{"SIZE": padded(leaves * rank, MOST_COEFFICIENTS[x.dtype]), "PRECISION": precision},
        },
        tile.warps,
        tile.stages,
    )


def correlate(a: Tensor, b: Tensor, parts: Tensor, precision: str) -> Launch:
    """parts[split, t, p] = sum over a split's rows of a[row, t, p] b[row, t, p]^T"""
    splits, terms, leaves, m, k = parts.shape
    tile = tiles(a.dtype, precision)
    height, width = padded(m, tile.points), padded(k, tile.points)
    blocks = row_blocks(a, tile.depth)
    return Launch(
        kernels.correlate_kernel,
        (splits, leaves * ceil(m / height) * ceil(k / width), terms),
        {
            **{"a": a, "b": b, "parts": parts, "inner": a.shape[1]},
            **{"blocks": blocks, "blocks_per_split": ceil(blocks / splits)},
            **strides("a", a), **strides("b", b),
        },
        {
            **{"LEAVES": leaves, "M": m, "K": k, "PRECISION": precision},
            **{"ROWS": tile.depth, "HEIGHT": height, "WIDTH": width},
        },
        tile.warps,
        tile.stages,
    )  # fmt: skip


def activation_backward_grid(y: Tensor) -> tuple[int, int, int]:
    """One partial sum of the slope's gradient for each program."""
    return row_blocks(y, ACTIVATION_TILE[0]), ceil(y.shape[3] / ACTIVATION_TILE[1]), y.shape[2]


def activation_backward(
    gradient: Tensor, y: Tensor, slope: Tensor, before: Tensor, bias_parts: Tensor, slope_parts: Tensor
) -> Launch:
    """The gradient of the pre-activation into ``before``, which lies in memory as ``y`` does."""
    return Launch(
        kernels.activation_backward_kernel,
        activation_backward_grid(y),
        {
            **{"gradient": gradient, "y": y, "slope": slope, "before": before},
            **{"bias_parts": bias_parts, "slope_parts": slope_parts, "inner": y.shape[1], "points": y.shape[3]},
            **strides("g", gradient), **strides("y", y),
        },
        {"ROWS": ACTIVATION_TILE[0], "COLUMNS": ACTIVATION_TILE[1]},
    )  # fmt: skip
