"""How an FNO is computed: by FFTs of whole fields, or by products with the kept frequencies alone (`truncated`).

Both give the same numbers to rounding. Products take more arithmetic per frequency but do it at the speed of a matrix
product, so they lose only where very many frequencies are kept: per point of the grid, T takes

    sum over axes j, the last one first, of  4 modes  for j = d,   16 modes (kept / n)_d ... (kept / n)_{j+1}  before

FLOPs, and measured steps break even where that is about 512 in 1D (128 modes), and above 512 per axis in 2D and 3D
(docs/kernels.md). `auto` therefore depends on grid, modes and kind of device, and on nothing that is measured.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

WAYS = ("auto", "fft", "dft")
COUNTED = "fft"  # what a FLOP budget is charged with, whichever way is executed
MOST_FLOPS = 512  # of T per point and axis for which `auto` takes products


def check_way(way: str) -> None:
    if way not in WAYS:
        raise ValueError(f"way {way!r} is not one of {', '.join(WAYS)}")


def way_taken(way: str, grid: Sequence[int], modes: int, device: torch.device) -> str:
    """`fft` or `dft`. Under autocast always `fft`: products would be rounded to half precision, FFTs are not."""
    half = torch.is_autocast_enabled(device.type)
    if way == "dft" and half:
        raise RuntimeError("way 'dft' does not work under autocast; choose 'fft' or 'auto'")
    if way != "auto":
        return way
    # Products are faster on a CPU; other devices were not measured.
    few = flops_per_point(grid, modes) <= MOST_FLOPS * len(grid)
    return "dft" if few and device.type == "cpu" and not half else "fft"


def flops_per_point(grid: Sequence[int], modes: int) -> float:
    """Of T, the truncated transform, in products axis by axis."""
    flops, left = 4.0 * modes, modes / grid[-1]  # left: complex numbers per point, after the axes so far
    for points in reversed(grid[:-1]):
        flops += 16 * modes * left
        left *= 2 * modes / points
    return flops
