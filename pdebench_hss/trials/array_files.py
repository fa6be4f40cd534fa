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
import re
import struct
import zlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..base.files import BadFile, replacing

LARGEST = 64 << 20  # bytes of a file, and of all its arrays together: a large record has 2 MB
EXPANSION = 1032  # of deflate, at most
STORED, DEFLATED = 0, 8
END = struct.Struct("<4s4H2LH")  # end of central directory: the last 22 bytes
ENTRY = struct.Struct("<4s6H3L5H2L")  # one member in the central directory, before its name
LOCAL = struct.Struct("<4s5H3L2H")  # the same before the member's bytes
NPY = re.compile(
    rb"\x93NUMPY(?:\x01\x00..|\x02\x00....)"
    rb"\{'descr': '([<>|][fiu][1248])', 'fortran_order': (True|False), "
    rb"'shape': \(((?:\d{1,10}, )*(?:\d{1,10},?)?)\), \} *\n",
    re.DOTALL,
)


class _Member(NamedTuple):
    name: str
    method: int
    crc: int
    packed: int
    size: int
    offset: int


def read_arrays(content: bytes, names: Collection[str] = (), limit: int = LARGEST) -> dict[str, np.ndarray]:
    """The arrays of an ``.npz`` file, or the named ones, at most ``limit`` bytes in total. Raises `BadFile` if anything
    is not what the file states."""
    if not content:
        raise BadFile("the file of its arrays is empty")
    chosen = [member for member in _members(content) if not names or member.name in names]
    total = sum(member.size for member in chosen)
    if total > limit:
        raise BadFile(f"its arrays claim {total} bytes; at most {limit} are read")
    return {member.name: _array(member.name, _unpacked(content, member)) for member in chosen}


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
        mark, _, _, flags, method, _, _, crc, packed, size, named, extra, comment, *_, offset = ENTRY.unpack_from(
            content, at
        )
        name = content[at + ENTRY.size : at + ENTRY.size + named].decode("ascii", "replace").removesuffix(".npy")
        if mark != b"PK\x01\x02" or flags & 1 or method not in (STORED, DEFLATED):
            raise BadFile("the list of its arrays is damaged")
        if packed > len(content) or size > EXPANSION * (packed + 1):
            raise BadFile(f"array {name!r} claims {size} bytes, more than its file can hold")
        yield _Member(name, method, crc, packed, size, offset)
        at += ENTRY.size + named + extra + comment


def _unpacked(content: bytes, member: _Member) -> bytes:
    if member.offset + LOCAL.size > len(content):
        raise BadFile(f"array {member.name!r} is damaged")
    mark, *_, named, extra = LOCAL.unpack_from(content, member.offset)
    start = member.offset + LOCAL.size + named + extra
    data = content[start : start + member.packed]
    try:
        if member.method == DEFLATED:
            data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, member.size + 1)
    except zlib.error:
        data = b""
    if mark != b"PK\x03\x04" or len(data) != member.size or zlib.crc32(data) != member.crc:
        raise BadFile(f"array {member.name!r} is damaged")
    return data


def _array(name: str, data: bytes) -> np.ndarray:
    header = NPY.match(data)
    if header is None:
        raise BadFile(f"array {name!r} has no header of plain numbers")
    kind, reverse, sides = header.groups()
    dtype, shape = np.dtype(kind.decode()), tuple(int(side) for side in sides.split(b",") if side.strip())
    count = 1
    for side in shape:
        count *= side
    if len(data) - header.end() != count * dtype.itemsize or len(shape) > 8:
        raise BadFile(f"array {name!r} claims the shape {shape} and has {len(data) - header.end()} bytes")
    flat = np.frombuffer(data, dtype, offset=header.end())
    return flat.reshape(shape[::-1]).T if reverse == b"True" else flat.reshape(shape)
