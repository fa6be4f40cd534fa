"""DiffusionPDE's published Navier-Stokes files (Huang et al. 2024), the data that the paper trains on.

    training/ns-nonbounded/ns-nonbounded_{1..50}.mat     or ns_1000_128_128_10_{i}.mat in the same places
    testing/ns-nonbounded.mat

each with `a` (1000, 128, 128), the vorticity at t = 0, and `u` (1000, 128, 128, 10), at t = 0.1 ... 1.0, of which only
u[..., -1] = w(1) is read. A scale with a smaller grid takes every r-th point, one with fewer
samples the first ones.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from pdebench_hss import Scale

from .matfile import Field, fields

TRAIN = ("training/ns-nonbounded/ns-nonbounded_*.mat", "training/ns-nonbounded/ns_1000_128_128_10_*.mat")
TEST = ("testing/ns-nonbounded.mat", "testing/ns_1000_128_128_10_*.mat")
SNAPSHOTS = 10

Pair = tuple[np.ndarray, np.ndarray]


def read(directory: str | Path, size: Scale) -> dict[str, Pair]:
    """w(0) and w(1) of the train and the test files, each (n, 1, N, N) in float32."""
    root = Path(directory)
    return {
        "train": _load(_find(root, TRAIN), size.train, size.grid),
        "test": _load(_find(root, TEST), size.test, size.grid),
    }


def _find(root: Path, patterns: tuple[str, ...]) -> list[Path]:
    """The files of the first pattern that has any, in the order of their numbers."""
    for pattern in patterns:
        if found := list(root.glob(pattern)):
            return sorted(found, key=lambda path: [int(number) for number in re.findall(r"\d+", path.stem)])
    raise ValueError(f"{root}: no DiffusionPDE files; looked for {' and '.join(patterns)}")


def _load(files: list[Path], count: int, grid: tuple[int, ...]) -> Pair:
    """The first `count` samples of the files. Files beyond them are not opened."""
    inputs, outputs = (np.empty((count, 1, *grid), dtype=np.float32) for _ in range(2))
    filled = 0
    for path in files:
        start, snapshots = _checked(path, grid)
        taken = slice(filled, min(filled + start.shape[0], count))
        stride = start.shape[1] // grid[0]
        chosen = (slice(taken.stop - filled), slice(None, None, stride), slice(None, None, stride))
        inputs[taken, 0] = start.whole()[chosen]
        outputs[taken, 0] = snapshots.last()[chosen]
        filled = taken.stop
        if filled == count:
            return inputs, outputs
    names = f"{files[0].name} ... {files[-1].name}" if len(files) > 1 else files[0].name
    raise ValueError(f"{files[0].parent}: expected {count} samples in {names}, found {filled}")


def _checked(path: Path, grid: tuple[int, ...]) -> tuple[Field, Field]:
    """Fields `a` and `u` of a file, with the shapes that they should have."""
    found = fields(path)
    for name in ("a", "u"):
        if name not in found:
            raise ValueError(f"{path}: no field {name!r}; expected a and u, found {', '.join(found) or 'none'}")
    start, snapshots = found["a"], found["u"]
    if len(start.shape) != 3 or start.shape[1] != start.shape[2] or start.shape[1] % grid[0]:
        multiple = f"N a multiple of {grid[0]}"
        raise ValueError(f"{path}: field 'a': expected shape (n, N, N), {multiple}, found {start.shape}")
    expected = (*start.shape, SNAPSHOTS)
    if snapshots.shape != expected:
        raise ValueError(f"{path}: field 'u': expected shape {expected}, found {snapshots.shape}")
    return start, snapshots
