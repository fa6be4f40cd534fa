"""How an HSS map is applied: the forms of `cost` by name, `triton` on a GPU, or whatever is cheapest.

On a GPU that was never measured `auto` does not use the Triton kernels, see `measured`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F

from ..matrix.expand import collapse
from ..matrix.factors import Factors
from . import measured
from .cost import CPU, GPU, Axis, Machine, best_cut

WAYS = ("auto", "tree", "collapsed", "dense", "triton")
COUNTED = "tree"  # Algorithm 1: the arithmetic that a FLOP budget is charged with, whichever way is executed


def check_way(way: str) -> None:
    if way not in WAYS:
        raise ValueError(f"way {way!r} is not one of {', '.join(WAYS)}")


def machine_of(device: torch.device) -> Machine:
    if device.type == "cpu":
        return CPU
    found = measured_of(device)
    return GPU if found is None else found.torch


def measured_of(device: torch.device) -> measured.Measured | None:
    """The constants of this GPU, if doctor measured it."""
    return measured.of(gpu_name(device)) if device.type == "cuda" else None


def way_taken(axis: Axis, found: measured.Measured) -> str:
    """What `auto` chooses for one axis on a GPU with these constants."""
    if found.prefers_triton([axis]):
        return "triton"
    cut = best_cut(axis, found.torch)
    return {axis.levels: "tree", 1: "collapsed", 0: "dense"}.get(cut, f"cut {cut}")


@lru_cache
def gpu_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device)


def batches_terms(device: torch.device) -> bool:
    """Whether all terms of a layer go into each product (`forest`), or one after the other (`modes`)."""
    return device.type == "cuda"


def cuts(way: str, axes: Sequence[Axis], machine: Machine) -> list[int]:
    """Where each axis' tree is cut."""
    if way == "auto":
        return [best_cut(axis, machine) for axis in axes]
    return [{"tree": axis.levels, "collapsed": min(1, axis.levels), "dense": 0}[way] for axis in axes]


def no_triton(axes: Sequence[Axis], device: torch.device, dtype: torch.dtype) -> str | None:
    """Why the Triton kernels can't do this map, or None."""
    if any(axis.levels == 0 for axis in axes):
        return "way 'triton' needs trees of at least one level; choose another way or more levels"
    from ..triton.layer import available

    return available(device, dtype)


def pick_triton(way: str, axes: Sequence[Axis], device: torch.device, dtype: torch.dtype) -> bool:
    """Whether to use the kernels: if asked for (an error if they can't), or if they were measured to be faster."""
    if way == "triton":
        if reason := no_triton(axes, device, dtype):
            raise RuntimeError(reason)
        return True
    found = measured_of(device) if way == "auto" else None
    if found is None or not found.prefers_triton(axes):
        return False
    if reason := no_triton(axes, device, dtype):
        warn_once(f"way 'auto' goes without the Triton kernels, which were faster when measured: {reason}")
        return False
    return True


@lru_cache
def warn_once(text: str) -> None:
    warnings.warn(text, stacklevel=2)


def through_triton(z: Tensor, trees: Sequence[Factors], points: Sequence[int], slope: Tensor | None) -> Tensor:
    """``(batch, d_1 .. d_m) -> (batch, *points)``, last axis first; the first axis' kernel sums over terms."""
    from ..triton.layer import apply_triton

    batch, grid = z.shape[0], z.shape[1:]
    z = z.reshape(
        -1, grid[-1], 1, 1
    )  # (outer, d_j, terms, inner): what is left of the axis, the axis, and what is done
    for j in reversed(range(len(trees))):
        x, padding = z.permute(0, 3, 2, 1), trees[j].shape[1] - grid[j]  # (outer, inner, terms, d_j)
        x = F.pad(x, (0, padding)) if padding else x  # padding by nothing would copy the field
        y = apply_triton(*collapse(trees[j]), x, slope=slope if j == 0 else None, sum_terms=j == 0)
        y = y[..., : points[j]]
        if j == 0:
            return y.permute(0, 2, 1).reshape(batch, *points)  # from (batch, inner, e_1)
        z = y.permute(0, 2, 3, 1).reshape(-1, grid[j - 1], y.shape[2], points[j] * y.shape[1])
    raise AssertionError("a map has at least one axis")
