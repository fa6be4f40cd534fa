"""Arrays of an HDF5 file read without HDF5: straight to their place, each chunk checked by sums.

HDF5 compares a chunk's Fletcher-32 in a slow pass over a copy of its own, which triples the time of reading. But once a
file has been checked, where its chunks lie is known. A *chart* says it for one array, with a check for each chunk:

    {"dtype": "<f8", "shape": [192, 1, 64], "chunks": [[where in the file, where in the array, bytes, check], ...]}

A chunk goes from the file to the array, and while it is still in the processor's cache its 64-bit words are added up in
runs of 1,024 (8 kB), s_k = sum_j w_kj modulo 2^64, at tens of gigabytes a second. Its check is the CRC-32 of all s_k
and of the bytes after the last whole run. A flipped bit changes one sum and nothing else, and a run in another place is
another list of sums. What sums can't see (the same bit of two words of one run, flipped in opposite directions),
Fletcher-32 and the file's SHA-256 do.
"""

from __future__ import annotations

import array
import bisect
import io
import math
import operator
import os
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import h5py
import numpy as np

RUN_BYTES = 8192
PART_BYTES = 1 << 20  # of an array that is not in chunks
PIECE_BYTES = 8 * RUN_BYTES  # of a chunk: the least that is read of it again


class WrongChunk(ValueError):
    """A chunk does not match its checksum."""


def chart(stored: h5py.Dataset, file: io.FileIO) -> dict[str, Any] | None:
    """The chart of an array of an open file; none if its bytes are not stored as they are in memory."""
    chunks = []
    for where, start, size in sorted(_places(stored), key=lambda place: place[1]):
        content = np.empty(size, np.uint8)
        file.seek(where)
        file.readinto(content.data)
        chunks.append([where, start, size, check(content)])
    if sum(size for _, _, size, _ in chunks) != stored.nbytes:
        return None
    return {"dtype": stored.dtype.str, "shape": list(stored.shape), "chunks": chunks}


def _places(stored: h5py.Dataset) -> Iterator[tuple[int, int, int]]:
    """Of every chunk that is a run of neighbours in memory: where it is in the file, where in the array, and bytes."""
    shape, step, item = stored.shape, stored.chunks, stored.dtype.itemsize
    if step is None:
        where = stored.id.get_offset()
        for start in range(0, stored.nbytes if where is not None else 0, PART_BYTES):
            yield where + start, start, min(PART_BYTES, stored.nbytes - start)
        return
    filters = stored.id.get_create_plist().get_nfilters() - stored.fletcher32
    axis = next((axis for axis, length in enumerate(step) if length > 1), 0)  # the one that is split
    strides = [item * math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    if filters or step[axis + 1 :] != shape[axis + 1 :]:
        return
    for number in range(stored.id.get_num_chunks()):
        chunk = stored.id.get_chunk_info(number)
        length = min(step[axis], shape[axis] - chunk.chunk_offset[axis])  # the last one is padded
        yield chunk.byte_offset, sum(map(operator.mul, chunk.chunk_offset, strides)), length * strides[axis]


def check(content: np.ndarray) -> int:
    """Of the bytes of one chunk."""
    whole = len(content) // RUN_BYTES * RUN_BYTES
    sums = np.add.reduce(content[:whole].view("<u8").reshape(-1, RUN_BYTES // 8), axis=1)  # [runs]
    return zlib.crc32(content[whole:].data, zlib.crc32(sums.data))


def read(file: io.FileIO, chart: dict[str, Any], count: int | None = None) -> np.ndarray:
    """The first ``count`` samples (all by default). The last chunk that they need is checked as a whole."""
    dtype, (samples, *shape) = np.dtype(chart["dtype"]), chart["shape"]
    count = samples if count is None else min(count, samples)
    wanted = count * math.prod(shape) * dtype.itemsize
    chunks = [chunk for chunk in chart["chunks"] if chunk[1] < wanted]
    room = sum(size for _, _, size, _ in chunks)
    if room > os.fstat(file.fileno()).st_size:
        raise WrongChunk
    content = np.empty(room, np.uint8)
    for chunk in chunks:
        _read_chunk(file, chunk, content[chunk[1] : chunk[1] + chunk[2]])
    return content[:wanted].view(dtype).reshape(count, *shape)


def _read_chunk(file: io.FileIO, chunk: Sequence[int], place: np.ndarray) -> None:
    where, _, size, expected = chunk
    file.seek(where)
    if file.readinto(place.data) != size or check(place) != expected:
        raise WrongChunk


class ChartedArray:
    """An array of an open file of which a part is read at a time.

    The first time that a chunk is needed it is read and checked as a whole, and the checks of its parts are kept; later
    only the parts that are needed are read and checked.
    """

    def __init__(self, file: io.FileIO, chart: dict[str, Any]) -> None:
        self.file, self.dtype, self.shape = file, np.dtype(chart["dtype"]), tuple(chart["shape"])
        self.chunks: list[list[int]] = chart["chunks"]
        self._starts = [chunk[1] for chunk in self.chunks]
        self._scratch = np.empty(max(chunk[2] for chunk in self.chunks), np.uint8)
        self._checks: dict[int, array.array[int]] = {}  # of the parts of a chunk, by its place in the array

    @property
    def scratch_bytes(self) -> int:
        return self._scratch.nbytes

    def read(self, *place: slice | int) -> np.ndarray:
        """A run of neighbours in memory: whole numbers along the first axes, then at most one slice."""
        begin, end, shape = self._run(place)
        content = np.empty(end - begin, np.uint8)
        for chunk in self._needed(begin, end):
            _, start, size, _ = chunk
            first, last = max(begin, start), min(end, start + size)
            target = content[first - begin : last - begin]
            if start in self._checks:
                self._read_parts(chunk, first - start, last - start, target)
                continue
            whole = target if len(target) == size else self._scratch[:size]
            _read_chunk(self.file, chunk, whole)
            self._checks[start] = array.array("I", map(check, _parts(whole)))
            if whole is not target:
                target[:] = whole[first - start : last - start]
        return content.view(self.dtype).reshape(shape)

    def _read_parts(self, chunk: Sequence[int], first: int, last: int, target: np.ndarray) -> None:
        """The bytes from ``first`` to ``last`` of a chunk that was checked before."""
        where, start, size, _ = chunk
        begin, end = first // PIECE_BYTES, -(-last // PIECE_BYTES)  # parts
        scratch = self._scratch[: min(size, end * PIECE_BYTES) - begin * PIECE_BYTES]
        self.file.seek(where + begin * PIECE_BYTES)
        count = self.file.readinto(scratch.data)
        if count != len(scratch) or [*map(check, _parts(scratch))] != self._checks[start][begin:end].tolist():
            raise WrongChunk
        target[:] = scratch[first - begin * PIECE_BYTES : last - begin * PIECE_BYTES]

    def soon(self, *place: slice | int) -> None:
        """Ask the system to read a run ahead of time, where it can be asked."""
        if hasattr(os, "posix_fadvise"):
            begin, end, _ = self._run(place)
            for where, start, size, _ in self._needed(begin, end):
                first, last = max(begin, start) - start, min(end, start + size) - start
                os.posix_fadvise(self.file.fileno(), where + first, last - first, os.POSIX_FADV_WILLNEED)

    def _run(self, place: Sequence[slice | int]) -> tuple[int, int, tuple[int, ...]]:
        """Its first byte, the byte after its last, and its shape."""
        begin, shape = 0, list(self.shape)
        length = self.dtype.itemsize * math.prod(shape)  # of what is left after the axes so far
        end = length
        for axis in place:
            length //= shape[0]
            first, stop, _ = axis.indices(shape[0]) if isinstance(axis, slice) else (axis, axis + 1, 1)
            begin, end = begin + first * length, begin + stop * length
            shape = [stop - first, *shape[1:]] if isinstance(axis, slice) else shape[1:]
        return begin, end, tuple(shape)

    def _needed(self, begin: int, end: int) -> list[list[int]]:
        return self.chunks[bisect.bisect_right(self._starts, begin) - 1 : bisect.bisect_left(self._starts, end)]


def _parts(content: np.ndarray) -> Iterator[np.ndarray]:
    return (content[start : start + PIECE_BYTES] for start in range(0, len(content), PIECE_BYTES))
