"""The numeric fields of a .mat file of either version, each read whole or only at its last index.

Version 7.3 is HDF5, where MATLAB's axes appear in reverse order; for version 5 see `mat5`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from . import mat5


@dataclass(frozen=True)
class Field:
    """An array in a file: its shape as MATLAB says it, and two ways to read it."""

    shape: tuple[int, ...]
    whole: Callable[[], np.ndarray]
    last: Callable[[], np.ndarray]  # [..., -1], and nothing else of it


def fields(path: Path) -> dict[str, Field]:
    """The fields by name. None of their numbers are read yet."""
    if h5py.is_hdf5(path):
        return _fields_of_hdf5(path)
    return {variable.name: _field_of_version_5(variable) for variable in mat5.variables(path)}


def _field_of_version_5(variable: mat5.Variable) -> Field:
    shape = variable.shape
    before_last = math.prod(shape) - math.prod(shape[:-1])
    return Field(shape, lambda: variable.read(0, shape), lambda: variable.read(before_last, shape[:-1]))


def _fields_of_hdf5(path: Path) -> dict[str, Field]:
    try:
        with h5py.File(path) as file:
            shapes = {name: item.shape[::-1] for name, item in file.items() if isinstance(item, h5py.Dataset)}
    except (OSError, RuntimeError) as error:
        raise ValueError(f"{path}: damaged or cut short ({error})") from error
    return {
        name: Field(shape, _hdf5_reader(path, name, ...), _hdf5_reader(path, name, -1))
        for name, shape in shapes.items()
    }


def _hdf5_reader(path: Path, name: str, index: Any) -> Callable[[], np.ndarray]:
    def read() -> np.ndarray:
        try:
            with h5py.File(path) as file:
                return file[name][index].T
        except (OSError, RuntimeError) as error:
            raise ValueError(f"{path}: field {name!r} is damaged or cut short ({error})") from error

    return read
