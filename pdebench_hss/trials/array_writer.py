"""The arrays of one record as an ``.npz`` file: what `numpy.load` and `array_files` read, written in one go.

A record has some twenty arrays of a few values each. For those, numpy's own writer spends its time on the bookkeeping
of a general zip archive, fifteen times as much as it takes here, where the members are laid out by hand (PKWARE's
APPNOTE, sections 4.3.7, 4.3.12 and 4.3.16). Small ones are stored as they are: most of such a member is its header, and
deflating it costs time, now and at every reading, for no disk space. Large ones, such as pictures, are deflated.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from .array_files import DEFLATED, END, HEADER, STORED

SMALL = 4096  # bytes of a member that is not deflated
MEMBER = struct.Struct("<5H3L2H")  # needs, flags, method, time, date; CRC, bytes packed and unpacked; length of names
PLACE = struct.Struct("<3H2L")  # comment, disk, kind of text; permissions, offset
VERSION, DATE = 20, 0x21  # of the zip format: 2.0; the first day it knows, so that equal arrays are equal files
UNIX = 3 << 8
READABLE = 0o600 << 16


def npz(arrays: Mapping[str, np.ndarray]) -> bytes:
    """The file of these arrays."""
    parts: list[bytes] = []
    directory: list[bytes] = []
    offset = 0
    for name, array in arrays.items():
        data, file = _npy(array), f"{name}.npy".encode("ascii")
        method, packed = (STORED, data) if len(data) <= SMALL else (DEFLATED, _deflated(data))
        facts = MEMBER.pack(VERSION, 0, method, 0, DATE, zlib.crc32(data), len(packed), len(data), len(file), 0)
        parts += [b"PK\x03\x04", facts, file, packed]
        made_by = (UNIX | VERSION).to_bytes(2, "little")
        directory += [b"PK\x01\x02", made_by, facts, PLACE.pack(0, 0, 0, READABLE, offset), file]
        offset += 4 + MEMBER.size + len(file) + len(packed)
    listed = b"".join(directory)
    end = END.pack(b"PK\x05\x06", 0, 0, len(arrays), len(arrays), len(listed), offset, 0)
    return b"".join((*parts, listed, end))


def _npy(array: np.ndarray) -> bytes:
    if array.dtype.kind not in "fiu":
        raise ValueError(f"an array of {array.dtype} can't be kept with a record; only numbers can")
    return _header(array.dtype.str, array.shape) + array.tobytes()


@lru_cache(maxsize=256)
def _header(kind: str, shape: tuple[int, ...]) -> bytes:
    """Version 1.0 of numpy's format, as long as numpy makes it."""
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    length = -(-(len(text) + 11) // HEADER) * HEADER - 10
    return b"\x93NUMPY\x01\x00" + length.to_bytes(2, "little") + text.ljust(length - 1).encode("ascii") + b"\n"


def _deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()
