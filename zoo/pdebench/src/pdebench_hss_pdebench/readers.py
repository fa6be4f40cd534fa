"""PDEBench's files, one layout each:

    1D_Advection_Sols_beta0.4.hdf5     tensor (N, T, X), x-coordinate (X,), t-coordinate (T + 1,)
    2D_DarcyFlow_beta1.0_Train.hdf5    nu (N, X, Y), tensor (N, 1, X, Y)
    2D_diff-react_NA_NA.h5             a group per sample: 0000/data (T, X, Y, 2), 0001/data, ...

Training samples are the first of a file, test samples the last, and a file too short for both is refused. A grid
coarser than the file's takes every so-manyth point. Only what is needed is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np

from pdebench_hss import Scale

from .advection import STRIDE

Pair = tuple[np.ndarray, np.ndarray]
FIRST_FRAME, FRAMES_PER_STEP = 10, 10  # of diffusion-reaction: t = 0.5 and steps of 0.5, in frames of 0.05


def advection(directory: str | Path, size: Scale, beta: float) -> dict[str, Pair]:
    path = _find(directory, f"1D_Advection_Sols_beta{beta:.1f}.hdf5")
    with h5py.File(path) as file:
        tensor = _dataset(file, path, "tensor", 3)
        _demand(path, tensor.shape[1] > STRIDE * size.steps, f"{tensor.shape[1]} frames are too few")
        every = _stride(path, tensor.shape[2:], size.grid)

        def take(samples: slice) -> Pair:
            frames = tensor[samples, : STRIDE * size.steps + 1 : STRIDE, ::every][:, :, None]  # (n, steps + 1, 1, X)
            return frames[:, 0], frames[:, 1:]

        return _split(path, len(tensor), size, take)


def darcy(directory: str | Path, size: Scale, beta: float) -> dict[str, Pair]:
    path = _find(directory, f"2D_DarcyFlow_beta{beta}_Train.hdf5")
    with h5py.File(path) as file:
        permeability, pressure = _dataset(file, path, "nu", 3), _dataset(file, path, "tensor", 4)
        every = _stride(path, permeability.shape[1:], size.grid)

        def take(samples: slice) -> Pair:
            return permeability[samples, ::every, ::every][:, None], pressure[samples, :, ::every, ::every]

        return _split(path, len(pressure), size, take)


def diffusion_reaction(directory: str | Path, size: Scale) -> dict[str, Pair]:
    path = _find(directory, "2D_diff-react_NA_NA.h5")
    with h5py.File(path) as file:
        names = sorted(name for name in file if name.isdigit())
        _demand(path, bool(names), "no group 0000, 0001, ...")
        shape = _dataset(file, path, f"{names[0]}/data", 4).shape
        last = FIRST_FRAME + FRAMES_PER_STEP * size.steps
        _demand(path, shape[0] > last, f"{shape[0]} frames are too few")
        every = _stride(path, shape[1:3], size.grid)

        def take(samples: slice) -> Pair:
            chosen = (slice(FIRST_FRAME, last + 1, FRAMES_PER_STEP), slice(None, None, every), slice(None, None, every))
            frames = np.stack([file[f"{name}/data"][chosen] for name in names[samples]])
            frames = np.moveaxis(frames, -1, 2)  # (n, steps + 1, 2, X, Y)
            return frames[:, 0], frames[:, 1:]

        return _split(path, len(names), size, take)


def cell_centres(grid: tuple[int, ...]) -> np.ndarray:
    """Coordinates of the cells of the unit box, (dim, *grid)."""
    return np.stack(np.meshgrid(*((np.arange(n) + 0.5) / n for n in grid), indexing="ij"))


def _find(directory: str | Path, name: str) -> Path:
    found = sorted(Path(directory).rglob(name))
    if not found:
        raise ValueError(f"{directory}: no file {name}")
    return found[0]


def _dataset(file: h5py.File, path: Path, name: str, axes: int) -> h5py.Dataset:
    _demand(path, name in file, f"no dataset {name!r}; found {', '.join(file) or 'nothing'}")
    _demand(path, file[name].ndim == axes, f"{name!r} has shape {file[name].shape}, expected {axes} axes")
    return file[name]


def _stride(path: Path, found: tuple[int, ...], grid: tuple[int, ...]) -> int:
    strides = {math.gcd(have, want) == want and have // want for have, want in zip(found, grid, strict=True)}
    _demand(path, len(strides) == 1 and all(strides), f"its grid {found} is no multiple of {grid}")
    return strides.pop()


def _split(path: Path, count: int, size: Scale, take: Callable[[slice], Pair]) -> dict[str, Pair]:
    needed = size.train + size.test
    _demand(path, count >= needed, f"{count} samples, expected {size.train} for training and {size.test} for testing")
    return {"train": take(slice(size.train)), "test": take(slice(count - size.test, count))}


def _demand(path: Path, kept: bool, message: str) -> None:
    if not kept:
        raise ValueError(f"{path}: {message}")
