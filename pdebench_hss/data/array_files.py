"""Arrays in users' files, opened without reading them: ``.npy``, ``.npz``, ``.h5``, ``.zarr`` and ``.pt``.

What is opened has a shape, a dtype and rows that can be sliced. Nothing is unpickled: ``.npy`` and ``.npz`` are read
without objects, ``.pt`` with ``weights_only``. An ``.npz`` is unpacked into memory; all others stay on disk. Any fault
of a file is a `UsageError` of one line that names it.
"""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import UsageError
from ..contract.task_file import split_place

SHOWN = 8  # names of arrays in a message


@contextlib.contextmanager
def opened(folder: str | Path, place: str, role: str) -> Iterator[Any]:
    """The array at ``file:name`` below a folder. A file with one array, or with one that is called like its role, needs
    no name."""
    file, name = split_place(place, role)
    path = Path(folder) / file
    suffix = path.suffix.lower()
    if not (path.is_dir() if suffix == ".zarr" else path.is_file()):
        what = "it is a directory" if path.is_dir() else "no such file" if not path.exists() else "it is no directory"
        raise UsageError(f"{role} {path}: {what}")
    with contextlib.ExitStack() as stack:
        with one_line(path, role):
            arrays = _OPEN[suffix](path, stack)
        with one_line(path, role):
            array = arrays if not isinstance(arrays, Mapping) else arrays[_named(arrays, name, path, role)]
            array = _as_array(array)
        yield array


def labels(folder: str | Path, place: str) -> np.ndarray:
    """One label per sample: an array of numbers or words, or a column of a CSV file."""
    with opened(folder, place, "split_by") as array, one_line(Path(folder) / place, "split_by"):
        values = np.asarray(array[()] if array.shape == () else array[:])
    if values.dtype.kind == "O":
        values = np.array([word.decode() if isinstance(word, bytes) else str(word) for word in values.ravel()])
    return values.astype(str) if values.dtype.kind == "S" else values


def demand_numbers(array: Any, place: str, role: str) -> None:
    kind = np.dtype(array.dtype).kind
    if kind == "c":
        raise UsageError(f"{role} {place}: complex numbers; store real and imaginary parts as two channels")
    if kind not in "fiub":
        what = "Python objects" if kind == "O" else f"values of {array.dtype}"
        raise UsageError(f"{role} {place}: an array of {what}; real numbers are needed")


def _as_array(found: Any) -> Any:
    """A torch tensor as numpy's view of it; the others are alike enough."""
    if type(found).__module__.partition(".")[0] != "torch":
        return found
    return (found.float() if str(found.dtype) == "torch.bfloat16" else found).numpy()


def _numpy(path: Path, stack: contextlib.ExitStack) -> Any:
    return np.load(path, mmap_mode="r", allow_pickle=False)


def _npz(path: Path, stack: contextlib.ExitStack) -> Any:
    # Opened here: numpy would leave a file open that it can't read.
    loaded = np.load(stack.enter_context(path.open("rb")), allow_pickle=False)
    if isinstance(loaded, np.ndarray):
        return loaded
    return _Lazy(stack.enter_context(loaded).files, loaded.__getitem__)


def _hdf5(path: Path, stack: contextlib.ExitStack) -> Any:
    import h5py

    file = stack.enter_context(h5py.File(path, "r"))
    names: list[str] = []
    file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
    return _Lazy(names, file.__getitem__)


def _zarr(path: Path, stack: contextlib.ExitStack) -> Any:
    try:
        import zarr
    except ImportError:
        raise UsageError(f"{path}: .zarr needs zarr: pip install 'pdebench-hss[zarr]'") from None
    found: Any = zarr.open(str(path), mode="r")
    if not hasattr(found, "array_keys"):
        return found
    return _Lazy(list(_arrays_below(found)), found.__getitem__)


def _arrays_below(group: Any, above: str = "") -> Iterator[str]:
    yield from (f"{above}{name}" for name in group.array_keys())
    for name in group.group_keys():
        yield from _arrays_below(group[name], f"{above}{name}/")


def _torch(path: Path, stack: contextlib.ExitStack) -> Any:
    import torch

    try:
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except RuntimeError as error:
        if "mmap" not in str(error):
            raise
        found = torch.load(path, map_location="cpu", weights_only=True)  # the format before torch 1.6
    if isinstance(found, Mapping):
        return {str(name): value for name, value in found.items() if isinstance(value, torch.Tensor)}
    if not isinstance(found, torch.Tensor):
        raise ValueError(f"it holds a {type(found).__name__}, neither a tensor nor a dict of tensors")
    return found


def _csv(path: Path, stack: contextlib.ExitStack) -> Any:
    """Its columns, as words."""
    with path.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    return {str(name): np.array([row[name] for row in rows]) for name in (rows[0] if rows else ())}


_OPEN: dict[str, Callable[[Path, contextlib.ExitStack], Any]] = {
    ".npy": _numpy,
    ".npz": _npz,
    **dict.fromkeys((".h5", ".hdf5"), _hdf5),
    ".zarr": _zarr,
    **dict.fromkeys((".pt", ".pth"), _torch),
    ".csv": _csv,
}


class _Lazy(Mapping[str, Any]):
    """Names whose arrays are opened when they are asked for."""

    def __init__(self, names: Sequence[str], get: Callable[[str], Any]) -> None:
        self._names, self._get = names, get

    def __getitem__(self, name: str) -> Any:
        return self._get(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _named(arrays: Mapping[str, Any], name: str, path: Path, role: str) -> str:
    wanted, names = name.strip("/"), list(arrays)
    if wanted in names:
        return wanted
    there = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
    if wanted:
        raise UsageError(f"{role} {path}:{wanted}: no such array; it holds {there or 'none'}")
    if len(names) == 1 or role in names:
        return role if role in names else names[0]
    raise UsageError(f"{role} {path} holds {there or 'no array'}; write {path}:NAME")


@contextlib.contextmanager
def one_line(path: Path, role: str) -> Iterator[None]:
    """Whatever goes wrong with a file."""
    try:
        yield
    except UsageError:
        raise
    except Exception as error:  # numpy, zipfile, h5py, zarr, torch and pickle each have their own
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        if "Python objects" in reason or "allow_pickle" in reason:
            reason = "it holds Python objects; real numbers are needed"
        elif "Weights only load failed" in reason or "weights_only" in reason:
            reason = "it holds more than tensors, and nothing is unpickled; save a tensor or a dict of tensors"
        raise UsageError(f"{role} {path} can't be read: {reason}") from None
