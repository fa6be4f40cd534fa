"""How a Fourier layer is computed: by FFTs of whole fields, or by products with the kept frequencies (`truncated`)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

WAYS = ("auto", "fft", "dft")
COUNTED = "fft"  # what a FLOP budget is charged with, whichever way is executed


def check_way(way: str) -> None:
    if way not in WAYS:
        raise ValueError(f"way {way!r} is not one of {', '.join(WAYS)}")


def way_taken(way: str, grid: Sequence[int], modes: int, device: torch.device) -> str:
    if way != "auto":
        return way
    return "dft" if device.type == "cpu" else "fft"
