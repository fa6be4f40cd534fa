"""What a process leaves for another that does not trust it: plain values and arrays in one file, no pickle.

    8 bytes          length of the JSON text, big-endian
    JSON             the value; an array in it is {"$array": [dtype, shape, offset]}
    at each offset   the array's bytes, in C order

Reading such a file runs no code and allocates no more than its length: a file that is cut short, was made by
somebody else or claims what it does not hold raises `NotPlain`. Numbers, strings, None, lists, dicts with string keys
and arrays of numbers are plain; tuples come back as lists.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    import numpy as np

ARRAY = "$array"
LENGTH_BYTES = 8
ALIGNMENT = 64
TEXT_LIMIT = 16 << 20  # bytes of JSON
KINDS = "biuf"  # of arrays: truth values, integers, floating point


class NotPlain(ValueError):
    """A value that can't cross, or a file that is not what one process leaves for another."""


def write(path: str | Path, value: Any) -> None:
    arrays: list[np.ndarray] = []
    layout = _Layout()
    text = json.dumps(_encode(value, arrays, layout)).encode()
    start = _aligned(LENGTH_BYTES + len(text))
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(LENGTH_BYTES, "big") + text)
        for array, offset in zip(arrays, layout.offsets, strict=True):
            file.seek(start + offset)
            file.write(array.reshape(-1).view("u1").data)
        file.truncate(start + layout.end)


def read(path: str | Path, limit: int) -> Any:
    """The value in a file of at most ``limit`` bytes."""

    def take(file: BinaryIO, size: int) -> memoryview:
        if size > limit:
            raise NotPlain(f"{size} bytes, at most {limit} are taken")
        return memoryview(file.read(size))

    return _parse(path, take)


def view(path: str | Path) -> Any:
    """The value in a file of any length, whose arrays stay where they are: in the file, to be read only."""
    return _parse(path, lambda file, size: memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)))


def _parse(path: str | Path, take: Callable[[BinaryIO, int], memoryview]) -> Any:
    try:
        # A link or a pipe in place of the file must neither redirect nor block us.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise NotPlain("not a file")
            if status.st_size < LENGTH_BYTES:
                raise NotPlain(f"{status.st_size} bytes are too few")
            content = take(file, status.st_size)
        length = int.from_bytes(content[:LENGTH_BYTES], "big")
        if length > min(TEXT_LIMIT, len(content) - LENGTH_BYTES):
            raise NotPlain(f"a text of {length} bytes in a file of {len(content)}")
        value = json.loads(bytes(content[LENGTH_BYTES : LENGTH_BYTES + length]))
        return _decode(value, content[_aligned(LENGTH_BYTES + length) :])
    except NotPlain:
        raise
    except (OSError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise NotPlain(f"{type(error).__name__}: {error}".splitlines()[0][:200]) from None


class _Layout:
    """Where arrays stand, counted from the end of the text."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.end = 0

    def place(self, size: int) -> int:
        self.offsets.append(_aligned(self.end))
        self.end = self.offsets[-1] + size
        return self.offsets[-1]


def _aligned(position: int) -> int:
    return -(-position // ALIGNMENT) * ALIGNMENT


def _encode(value: Any, arrays: list[np.ndarray], layout: _Layout) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_encode(item, arrays, layout) for item in value]
    if isinstance(value, dict):
        if ARRAY in value or not all(isinstance(key, str) for key in value):
            raise NotPlain(f"a dict with the keys {list(value)[:5]}: keys are strings other than {ARRAY!r}")
        return {key: _encode(item, arrays, layout) for key, item in value.items()}
    import numpy as np  # here: what carries no array is read and written without it

    if isinstance(value, np.ndarray) and value.dtype.kind in KINDS:
        arrays.append(np.ascontiguousarray(value))
        return {ARRAY: [value.dtype.str, list(value.shape), layout.place(value.nbytes)]}
    what = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
    raise NotPlain(f"{what} can't be handed to another process: only plain values and arrays of numbers can")


def _decode(value: Any, content: memoryview) -> Any:
    if isinstance(value, list):
        return [_decode(item, content) for item in value]
    if not isinstance(value, dict):
        return value
    if ARRAY not in value:
        return {key: _decode(item, content) for key, item in value.items()}
    import numpy as np

    kind, shape, offset = value[ARRAY]
    dtype = np.dtype(str(kind))
    if dtype.kind not in KINDS or not all(type(n) is int and n >= 0 for n in [*shape, offset]):
        raise NotPlain(f"an array of {kind!r}, shape {shape}, at {offset}"[:200])
    end = offset + math.prod(shape) * dtype.itemsize
    if end > len(content):
        raise NotPlain(f"an array of shape {shape} ends at byte {end}, the file's arrays at {len(content)}"[:200])
    return np.frombuffer(content[offset:end], dtype).reshape(shape) if end > offset else np.empty(shape, dtype)
