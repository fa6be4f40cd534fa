"""PDEBench's files, one reader for each of their three layouts:

    one array             1D_Advection_Sols_beta0.4.hdf5    tensor (N, T, X)
                          2D_DarcyFlow_beta1.0_Train.hdf5   nu (N, X, Y), tensor (N, 1, X, Y): steady, `darcy`
    an array per field    1D_CFD_Rand_..._Train.hdf5        density, pressure, Vx, each (N, T, X)
    a group per sample    2D_diff-react_NA_NA.h5            0000/data (T, X, Y, channels), 0001/data, ...

A scale's options say which file (``file``, with the task's parameters in braces), the first frame that is seen
(``first``), how many frames a step of a model is (``stride``) and the names of the fields (``fields``). Training
samples are the first of a file, test samples the last, and a file too short for both is refused. A grid coarser than
the file's takes every so-manyth point. Only what is needed is read, and a block of samples at a time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from pdebench_hss import Scale

Pair = tuple[np.ndarray, np.ndarray]
Blocks = dict[str, Iterator[Pair]]
Frames = Callable[[h5py.File, slice], np.ndarray]  # (n, steps + 1, channels, *grid) of these samples
BLOCK_BYTES = 64 << 20
NUMBER = r"([-+.\de]+)"


def one_array(directory: str | Path, size: Scale, **params: float) -> Blocks:
    """A series of frames of one field."""
    return _fields(directory, size, ("tensor",), params)


def array_per_field(directory: str | Path, size: Scale, **params: float) -> Blocks:
    """A series of frames of several fields, which become channels in the order of the option ``fields``."""
    return _fields(directory, size, size.options["fields"], params)


def _fields(directory: str | Path, size: Scale, names: tuple[str, ...], params: dict[str, float]) -> Blocks:
    path = find(directory, size.options["file"], params)
    with h5py.File(path) as file:
        shapes = {_dataset(file, path, name, 2 + len(size.grid)).shape for name in names}
        _demand(path, len(shapes) == 1, f"the fields {', '.join(names)} have shapes {sorted(shapes)}")
        count, frames, *found = shapes.pop()
    chosen, every = _times(path, frames, size), _points(path, found, size.grid)

    def take(file: h5py.File, samples: slice) -> np.ndarray:
        return np.stack([file[name][(samples, chosen, *every)] for name in names], axis=2)

    return _split(path, count, size, _first_and_rest(take))


def group_per_sample(directory: str | Path, size: Scale, **params: float) -> Blocks:
    path = find(directory, size.options["file"], params)
    with h5py.File(path) as file:
        names = sorted(name for name in file if name.isdigit())
        _demand(path, bool(names), f"no group 0000, 0001, ...; found {', '.join(list(file)[:8]) or 'nothing'}")
        frames, *found, _ = _dataset(file, path, f"{names[0]}/data", 2 + len(size.grid)).shape
    chosen, every = _times(path, frames, size), _points(path, found, size.grid)

    def take(file: h5py.File, samples: slice) -> np.ndarray:
        arrays = [file[f"{name}/data"][(chosen, *every)] for name in names[samples]]
        return np.moveaxis(np.stack(arrays), -1, 2)

    return _split(path, len(names), size, _first_and_rest(take))


def darcy(directory: str | Path, size: Scale, **params: float) -> Blocks:
    """Permeability and pressure."""
    path = find(directory, size.options["file"], params)
    with h5py.File(path) as file:
        permeability, pressure = _dataset(file, path, "nu", 3), _dataset(file, path, "tensor", 4)
        count, *found = permeability.shape
        _demand(path, pressure.shape == (count, 1, *found), f"nu is {permeability.shape}, tensor {pressure.shape}")
    every = _points(path, found, size.grid)

    def take(file: h5py.File, samples: slice) -> Pair:
        return file["nu"][(samples, *every)][:, None], file["tensor"][(samples, slice(None), *every)]

    return _split(path, count, size, take)


def cell_centres(grid: tuple[int, ...]) -> np.ndarray:
    """Coordinates of the cells of the unit box, (dim, *grid)."""
    return np.stack(np.meshgrid(*((np.arange(n) + 0.5) / n for n in grid), indexing="ij"))


def find(directory: str | Path, name: str, params: dict[str, float]) -> Path:
    """The file of that name, with a parameter's value however it is written: 1.e-8 and 1e-08 are one number."""
    parts = re.split(r"{(\w+)}", name)  # text, parameter, text, ...
    pattern = "".join(NUMBER if place % 2 else re.escape(part) for place, part in enumerate(parts))
    wanted = [params[part] for part in parts[1::2]]
    there = sorted(path for path in Path(directory).rglob(f"*{Path(name).suffix}") if re.fullmatch(pattern, path.name))
    for path in there:
        found = re.fullmatch(pattern, path.name)
        if found and all(
            math.isclose(_number(text), value) for text, value in zip(found.groups(), wanted, strict=True)
        ):
            return path
    similar = ", ".join(path.name for path in there[:4]) or "none of its kind"
    raise ValueError(f"{directory}: no file {name.format(**params)}; found {similar}")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _dataset(file: h5py.File, path: Path, name: str, axes: int) -> h5py.Dataset:
    _demand(path, name in file, f"no dataset {name!r}; found {', '.join(list(file)[:8]) or 'nothing'}")
    _demand(path, file[name].ndim == axes, f"{name!r} has shape {file[name].shape}, expected {axes} axes")
    return file[name]


def _times(path: Path, frames: int, size: Scale) -> slice:
    """The frames that are taken: the first that is seen, and those of all steps after it."""
    first, stride = size.options.get("first", 0), size.options["stride"]
    last = first + stride * size.steps
    _demand(path, frames > last, f"{frames} frames are too few: {size.steps} steps of {stride} need {last + 1}")
    return slice(first, last + 1, stride)


def _points(path: Path, found: list[int], grid: tuple[int, ...]) -> tuple[slice, ...]:
    whole = all(have % want == 0 for have, want in zip(found, grid, strict=True))
    _demand(path, whole, f"its grid {tuple(found)} is no multiple of {grid}")
    return tuple(slice(None, None, have // want) for have, want in zip(found, grid, strict=True))


def _first_and_rest(take: Frames) -> Callable[[h5py.File, slice], Pair]:
    def pair(file: h5py.File, samples: slice) -> Pair:
        frames = take(file, samples)
        return frames[:, 0], frames[:, 1:]

    return pair


def _split(path: Path, count: int, size: Scale, take: Callable[[h5py.File, slice], Pair]) -> Blocks:
    needed = size.train + size.test
    _demand(path, count >= needed, f"{count} samples, expected {size.train} for training and {size.test} for testing")
    block = max(1, BLOCK_BYTES // (8 * (size.steps + 1) * math.prod(size.grid)))

    def blocks(start: int, stop: int) -> Iterator[Pair]:
        with h5py.File(path) as file:
            for first in range(start, stop, block):
                yield take(file, slice(first, min(first + block, stop)))

    return {"train": blocks(0, size.train), "test": blocks(count - size.test, count)}


def _demand(path: Path, kept: Any, message: str) -> None:
    if not kept:
        raise ValueError(f"{path}: {message}")
