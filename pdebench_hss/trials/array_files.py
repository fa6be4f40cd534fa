"""The arrays stored with a record, read as untrusted input.

An ``.npz`` file is a zip archive of ``.npy`` members, and both formats state sizes that need not be true. Here every
stated size is first compared with a real one: a member's with the bytes of the file (deflate can't expand more than
1032 times), a shape's with the number of bytes that came out. So no header, whatever it claims, makes us allocate more
than the reader allows. Every member is checked by its CRC; nothing is unpickled.

The zip format is parsed here and not by the standard library because we write only a small part of it (PKWARE's
APPNOTE, sections 4.3.7, 4.3.12 and 4.3.16: deflated or stored members, no encryption, no comment), and because this
reads a board of ten thousand records in seconds.
"""

from __future__ import annotations

import hashlib
import math
import re
import struct
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from ..base.files import BadFile, replacing
from . import array_layouts as layouts

LARGEST = 64 << 20  # bytes of a file, and of all its arrays together: a large record has 2 MB
EXPANSION = 1032  # of deflate, at most
STORED, DEFLATED = 0, 8
END = struct.Struct("<4s4H2LH")  # end of central directory: the last 22 bytes
ENTRY = struct.Struct("<4s4x2H4x3L3H8xL")  # one member in the central directory, before its name; x: not looked at
LOCAL = struct.Struct("<4s22x2H")  # the same before the member's bytes
CRC_IN_ENTRY, CRC_IN_LOCAL = 16, 14  # where the CRC stands in both
SMALL = 1024  # bytes of a deflated member: whatever it claims, about 1 MB comes out
HEADER = 128  # bytes of the header of an array of few axes
NPY = re.compile(
    rb"\x93NUMPY(?:\x01\x00..|\x02\x00....)"
    rb"\{'descr': '([<>|][fiu][1248])', 'fortran_order': (True|False), "
    rb"'shape': \(((?:\d{1,10}, )*(?:\d{1,10},?)?)\), \} *\n",
    re.DOTALL,
)


# name, method, CRC, bytes in the file, bytes of the array, where it is, where its entry in the directory is
_Member = tuple[str, int, int, int, int, int, int]


def read_arrays(content: bytes, names: Collection[str] = (), limit: int = LARGEST) -> dict[str, np.ndarray]:
    """The arrays of an ``.npz`` file, or the named ones, at most ``limit`` bytes in total. Raises `BadFile` if anything
    is not what the file states."""
    if not content:
        raise BadFile("the file of its arrays is empty")
    if len(content) <= limit and (layout := layouts.find(content)) is not None:
        return layout.read(content, names)
    members, wanted = list(_members(content)), set(names)
    chosen = [member for member in members if not wanted or member[0] in wanted]
    total = sum([size for _, _, _, _, size, *_ in chosen])
    if total > limit:
        raise BadFile(f"its arrays claim {total} bytes; at most {limit} are read")
    arrays = {member[0]: _array(member[0], _unpacked(content, member)) for member in chosen}
    _remember_layout(content, members)
    return arrays


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> str:
    """Write an ``.npz`` file, whole or not at all; returns its SHA-256."""
    with replacing(path) as temporary:
        with temporary.open("wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
        return hashlib.sha256(temporary.read_bytes()).hexdigest()


def _members(content: bytes) -> Iterator[_Member]:
    if len(content) < END.size:
        raise BadFile("the file of its arrays is cut short")
    mark, *_, count, length, start, _ = END.unpack(content[-END.size :])
    if mark != b"PK\x05\x06" or start + length + END.size != len(content):
        raise BadFile("the file of its arrays is cut short or damaged")
    at = start
    for _ in range(count):
        if at + ENTRY.size > len(content):
            raise BadFile("the list of its arrays is damaged")
        mark, flags, method, crc, packed, size, named, extra, comment, offset = ENTRY.unpack_from(content, at)
        entry = at
        at += ENTRY.size
        name = content[at : at + named].decode("ascii", "replace").removesuffix(".npy")
        at += named + extra + comment
        if mark != b"PK\x01\x02" or flags & 1 or method not in (STORED, DEFLATED):
            raise BadFile("the list of its arrays is damaged")
        if packed > len(content) or size > EXPANSION * (packed + 1):
            raise BadFile(f"array {name!r} claims {size} bytes, more than its file can hold")
        yield name, method, crc, packed, size, offset, entry


def _unpacked(content: bytes, member: _Member) -> bytes:
    name, method, crc, packed, size, *_ = member
    start = _start(content, member)
    data = content[start : start + packed]
    if method == DEFLATED:
        data = _inflated(data, size)
    if len(data) != size or zlib.crc32(data) != crc:
        raise BadFile(f"array {name!r} is damaged")
    return data


def _start(content: bytes, member: _Member) -> int:
    """Where the bytes of a member begin."""
    name, *_, offset, _ = member
    mark, named, extra = LOCAL.unpack_from(content, offset) if offset + LOCAL.size <= len(content) else (b"", 0, 0)
    if mark != b"PK\x03\x04":
        raise BadFile(f"array {name!r} is damaged")
    return int(offset + LOCAL.size + named + extra)


def _inflated(data: bytes, size: int) -> bytes:
    try:
        if len(data) <= SMALL:
            return zlib.decompress(data, -zlib.MAX_WBITS, size + 1)
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, size + 1)
    except zlib.error:
        return b""


def _array(name: str, data: bytes) -> np.ndarray:
    found = _header(data[:HEADER]) or _header(data)
    if found is None:
        raise BadFile(f"array {name!r} has no header of plain numbers")
    end, dtype, shape, reverse, size = found
    if len(data) - end != size or len(shape) > 8:
        raise BadFile(f"array {name!r} claims the shape {shape} and has {len(data) - end} bytes")
    flat = np.frombuffer(data, dtype, offset=end)
    if len(shape) == 1:
        return flat
    return flat.reshape(shape[::-1]).T if reverse else flat.reshape(shape)


def _header(data: bytes) -> tuple[int, np.dtype, tuple[int, ...], bool, int] | None:
    """Where the values begin, their type, shape, order and number of bytes; None if it is not such a header."""
    return _parsed(data) if len(data) == HEADER else _parsed.__wrapped__(data)


@lru_cache(maxsize=256)  # most arrays of a board have one of a few shapes
def _parsed(data: bytes) -> tuple[int, np.dtype, tuple[int, ...], bool, int] | None:
    header = NPY.match(data)
    if header is None:
        return None
    kind, reverse, sides = header.groups()
    dtype, shape = np.dtype(kind.decode()), tuple(int(side) for side in sides.split(b",") if side.strip())
    return header.end(), dtype, shape, reverse == b"True", math.prod(shape) * dtype.itemsize


def _remember_layout(content: bytes, members: Sequence[_Member]) -> None:
    """If all members are stored as they are, and are arrays."""
    if len(content) > layouts.LONGEST or any(method != STORED for _, method, *_ in members):
        return
    parts = []
    for member in members:
        name, _, _, _, size, offset, entry = member
        start = _start(content, member)
        header = _header(content[start : start + size])
        if header is None or header[0] + header[-1] != size:
            return
        first, dtype, shape, reverse, _ = header
        places = (entry + CRC_IN_ENTRY, offset + CRC_IN_LOCAL)
        parts.append(layouts.Part(name, start, start + size, places, first, dtype, shape, reverse))
    layouts.remember(content, parts)
