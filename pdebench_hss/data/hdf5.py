"""The dataset file: HDF5 with ``train/inputs``, ``train/outputs``, ``test/inputs``, ``test/outputs``.

Root attributes: ``recipe`` (JSON: everything that determined the content), ``id`` (its hash), ``sha256`` (of the
content), ``moments`` (JSON), ``format``, and ``seconds_per_sample`` (of one core, where the content was generated). A
file counts only if its content still has the hash it was written with; that check is remembered beside the file
(``.ok``: size, modification time, the header, and a chart of every array), so it is made once per change, not once per
trial, and a trial on known data does not open the file as HDF5 at all.
A bit that flips without a trace in size or time is noticed all the same: what has a chart is read and checked by
`checked_chunks`; what has none is read by HDF5, which compares the Fletcher-32 of every chunk, as any reader of HDF5
does. Files from before that have none. Whatever fails a check loses its ``.ok``.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ..base.errors import DataError
from ..base.files import replacing, write_text
from ..base.hashing import digest
from . import checked_chunks

FORMAT = 1
SPLITS = ("train", "test")
ARRAYS = ("inputs", "outputs")
BLOCK_BYTES = 32 << 20
HDF5_CACHE = 1 << 20  # of chunks, per array
CHUNK_BYTES = 1 << 20  # HDF5's cache holds a chunk of this size, so that one written in two goes is checksummed once


class CorruptData(DataError):
    """The file is cut short, was edited, or is not a dataset file."""


@dataclass(frozen=True)
class Header:
    path: Path
    recipe: dict[str, Any]
    id: str
    sha256: str
    moments: dict[str, Any]
    shapes: dict[str, tuple[int, ...]]
    seconds_per_sample: float | None = None


def write(
    path: Path,
    recipe: Mapping[str, Any],
    dtype: str,
    parts: Callable[[str], Iterable[tuple[Any, Any]]],
    seconds_per_sample: Callable[[], float] | None = None,
) -> str:
    """Stream ``parts(split)``, pairs of input and output blocks, into a new file; returns its content hash."""
    with replacing(path) as temporary, h5py.File(temporary, "w") as file:
        for split in SPLITS:
            _stream(file.create_group(split), parts(split), recipe["sizes"][split], dtype)
        sha256 = content_hash(file)
        file.attrs["format"] = FORMAT
        file.attrs["recipe"] = json.dumps(dict(recipe), sort_keys=True)
        file.attrs["id"] = digest(recipe)
        file.attrs["moments"] = json.dumps(_moments(file), sort_keys=True)
        file.attrs["sha256"] = sha256
        if seconds_per_sample is not None:
            file.attrs["seconds_per_sample"] = seconds_per_sample()
    _remember(path, read_header(path))
    return sha256


def _stream(group: h5py.Group, parts: Iterable[tuple[Any, Any]], count: int, dtype: str) -> None:
    start = 0
    for blocks in parts:
        for name, block in zip(ARRAYS, blocks, strict=True):
            if name not in group:
                shape = (count, *block.shape[1:])
                chunks = chunk_shape(shape, np.dtype(dtype).itemsize)
                group.create_dataset(name, shape=shape, dtype=dtype, chunks=chunks, fletcher32=True)
            group[name][start : start + len(block)] = block
        start += len(blocks[0])
    if start != count:
        raise CorruptData(f"{group.name}: {start} samples were made, {count} expected")


def chunk_shape(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Blocks of neighbours in memory of at most `CHUNK_BYTES`, of equal size as nearly as can be: HDF5 stores the last
    one along an axis at full size."""
    room = CHUNK_BYTES // itemsize
    chunks = []
    for length in reversed(shape):
        number = -(-length // max(1, room))  # of chunks along this axis
        chunks.append(-(-length // number))
        room //= length
    return tuple(reversed(chunks))


def content_hash(file: h5py.File) -> str:
    """SHA-256 over names, types, shapes and bytes of all arrays."""
    state = hashlib.sha256()
    for name, dataset in _datasets(file):
        state.update(f"{name} {dataset.dtype.str} {dataset.shape}".encode())
        for block in _blocks(dataset):
            state.update(np.ascontiguousarray(block).data)
    return state.hexdigest()


def _moments(file: h5py.File) -> dict[str, Any]:
    """Mean, standard deviation and extremes of every array, so that a change of data is noticed by eye as well."""
    moments = {}
    for name, dataset in _datasets(file):
        total = square = 0.0
        low, high = np.inf, -np.inf
        for block in _blocks(dataset):
            wide = np.asarray(block, dtype=np.float64)
            total, square = total + wide.sum(), square + np.square(wide).sum()
            low, high = min(low, wide.min()), max(high, wide.max())
        mean = total / dataset.size
        variance = max(square / dataset.size - mean**2, 0.0)
        moments[name] = {"mean": mean, "std": float(np.sqrt(variance)), "min": float(low), "max": float(high)}
    return moments


def _datasets(file: h5py.File) -> Iterator[tuple[str, h5py.Dataset]]:
    for split in SPLITS:
        for name in ARRAYS:
            yield f"{split}/{name}", file[split][name]


def _blocks(dataset: h5py.Dataset) -> Iterator[np.ndarray]:
    row = max(1, dataset.dtype.itemsize * int(np.prod(dataset.shape[1:])))
    step = max(1, BLOCK_BYTES // row)
    for start in range(0, len(dataset), step):
        yield dataset[start : start + step]


def read_header(path: Path) -> Header:
    """Attributes and shapes; raises `CorruptData` if they can't be read."""
    with _reading(path) as file:
        if file.attrs.get("format") != FORMAT:
            raise CorruptData(f"format {file.attrs.get('format')!r}, expected {FORMAT}")
        shapes = {name: tuple(dataset.shape) for name, dataset in _datasets(file)}
        recipe, moments = json.loads(file.attrs["recipe"]), json.loads(file.attrs["moments"])
        seconds = file.attrs.get("seconds_per_sample")
        known = float(seconds) if seconds is not None else None
        return Header(path, recipe, str(file.attrs["id"]), str(file.attrs["sha256"]), moments, shapes, known)


def verify(path: Path, *, deep: bool = False) -> Header:
    """The header of a file whose content has the hash it says. ``deep`` reads it all even if it did not change."""
    with _forgetting(path):
        if not deep and (known := _known_header(path)) is not None:
            return known
        header = read_header(path)
        if digest(header.recipe) != header.id:
            raise CorruptData("the recipe was edited")
        if not deep and _remembered(path, path).get("sha256") == header.sha256:
            return header  # checked by an earlier version, which remembered no header
        with _reading(path) as file:
            found = content_hash(file)
        if found != header.sha256:
            raise CorruptData(f"content hash {found[:12]}, written with {header.sha256[:12]}")
    _remember(path, header)
    return header


def read_split(path: Path, split: str, count: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The first ``count`` samples (all by default) of one split."""
    inputs, outputs = _read(path, [f"{split}/inputs", f"{split}/outputs"], count)
    return inputs, outputs


def read_array(path: Path, split: str, name: str, count: int | None = None) -> np.ndarray:
    return _read(path, [f"{split}/{name}"], count)[0]


def _read(path: Path, names: list[str], count: int | None) -> list[np.ndarray]:
    """Raise `CorruptData` if a chunk does not match its checksum."""
    with _forgetting(path), _one_line(), path.open("rb", buffering=0) as content:
        charts = _remembered(path, content.fileno()).get("charts", {})
        if all(charts.get(name) for name in names):
            return [_read_chunks(content, name, charts[name], count) for name in names]
        with _reading(path) as file:
            return [file[name][:count] for name in names]


def _read_chunks(content: io.FileIO, name: str, chart: dict[str, Any], count: int | None) -> np.ndarray:
    try:
        return checked_chunks.read(content, chart, count)
    except (ValueError, TypeError, KeyError):  # a wrong chunk, or a chart that is damaged itself
        raise CorruptData(f"a chunk of {name} does not match its checksum") from None


class OpenSplit:
    """The arrays of one split in a file that stays open, read a part at a time and checked as whole splits are."""

    def __init__(self, path: Path, split: str) -> None:
        self.path, self.split = path, split
        with _forgetting(path), _one_line():
            content = path.open("rb", buffering=0)
            weakref.finalize(self, content.close)
            charts = _remembered(path, content.fileno()).get("charts", {})
            found = {name: charts.get(f"{split}/{name}") for name in ARRAYS}
            if all(found.values()):
                self._arrays = {name: checked_chunks.ChartedArray(content, found[name]) for name in ARRAYS}
            else:
                file = h5py.File(path, "r", rdcc_nbytes=HDF5_CACHE)
                weakref.finalize(self, file.close)
                self._arrays = {name: file[split][name] for name in ARRAYS}
            self.shapes = {name: tuple(array.shape) for name, array in self._arrays.items()}
            self.dtype = self._arrays["inputs"].dtype

    def read(self, name: str, *place: slice | int) -> np.ndarray:
        """``array[place]`` of the array with that name; raises `CorruptData`."""
        array = self._arrays[name]
        with _forgetting(self.path), _one_line():
            if isinstance(array, h5py.Dataset):
                return array[place]
            try:
                return array.read(*place)
            except (ValueError, TypeError, IndexError):  # a wrong chunk, or a chart that is damaged itself
                raise CorruptData(f"a chunk of {self.split}/{name} does not match its checksum") from None

    @property
    def scratch_bytes(self) -> int:
        """Of the memory it needs besides what it returns."""
        arrays = self._arrays.values()
        return sum(HDF5_CACHE if isinstance(array, h5py.Dataset) else array.scratch_bytes for array in arrays)

    def soon(self, name: str, *place: slice | int) -> None:
        """What will be read next: a hint."""
        array = self._arrays[name]
        if not isinstance(array, h5py.Dataset):
            array.soon(*place)


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[h5py.File]:
    """The file as HDF5 sees it. Every chunk is wanted once: a cache of them would be one more copy."""
    with _one_line(), h5py.File(path, "r", rdcc_nbytes=0) as file:
        yield file


@contextlib.contextmanager
def _one_line() -> Iterator[None]:
    """Turn errors of HDF5 into a `CorruptData` of one line."""
    try:
        yield
    except (OSError, KeyError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        if "filter returned failure" in reason:  # the only filter that we use
            reason = "one of its chunks does not match its checksum"
        raise CorruptData(reason) from None


@contextlib.contextmanager
def _forgetting(path: Path) -> Iterator[None]:
    """A file that fails a check is not remembered as checked, so that it is made again when it is needed."""
    try:
        yield
    except CorruptData:
        with contextlib.suppress(OSError):
            _stamp(path).unlink(missing_ok=True)
        raise


def _stamp(path: Path) -> Path:
    return path.with_name(path.name + ".ok")


def _remember(path: Path, header: Header) -> None:
    """Of a file whose content has the hash that its header says."""
    status = path.stat()
    with _reading(path) as file, path.open("rb", buffering=0) as content:
        charts = {name: checked_chunks.chart(dataset, content) for name, dataset in _datasets(file)}
    stamp = {"size": status.st_size, "mtime": status.st_mtime_ns, "sha256": header.sha256, "charts": charts}
    plain = {name: value for name, value in vars(header).items() if name != "path"}
    with contextlib.suppress(ValueError):  # moments that are not finite have no digest: such a header is read each time
        stamp |= {"header": plain, "digest": digest(plain)}
    with contextlib.suppress(OSError):  # in a read-only cache the file is checked at every use
        write_text(_stamp(path), json.dumps(stamp))


def _known_header(path: Path) -> Header | None:
    """As it was when the file was checked, if neither has changed since."""
    stamp = _remembered(path, path)
    try:
        header = stamp["header"]
        if digest(header) != stamp["digest"] or header["sha256"] != stamp["sha256"]:
            return None
        shapes = {name: tuple(shape) for name, shape in header["shapes"].items()}
        return Header(**{**header, "path": path, "shapes": shapes})
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _remembered(path: Path, file: Path | int) -> dict[str, Any]:
    """What was found last time, if the file (by name, or open already) has not changed since."""
    try:
        status = os.stat(file)
        stamp = json.loads(_stamp(path).read_text())
        return stamp if (stamp["size"], stamp["mtime"]) == (status.st_size, status.st_mtime_ns) else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
