"""MATLAB's version 5 files, read no further than needed (`scipy.io.loadmat` reads a variable whole).

The file is a header of 128 bytes, ending in "IM" (little-endian), and then one element per variable: a tag (type,
length in bytes) and parts that are elements themselves, namely array flags, dimensions, name and numbers.
Numbers are in column-major order, so a slice [..., j] of an array is one stretch of them. An element may be
compressed as a whole (zlib). An element of at most four bytes may share the eight bytes of its tag.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

HEADER = 128
LITTLE_ENDIAN = b"IM"
MATRIX, COMPRESSED = 14, 15
NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
NUMERIC_CLASSES = range(6, 16)  # double, single, integers; the classes before are cells, structures, text, sparse
PIECE = 1 << 20  # compressed bytes taken from the file at a time


@dataclass(frozen=True)
class Variable:
    """A numeric array: its name and shape, and where its element begins in which file."""

    name: str
    shape: tuple[int, ...]
    path: Path
    position: int

    def read(self, first: int, shape: tuple[int, ...]) -> np.ndarray:
        """As many numbers as `shape` holds from number `first` (in column-major order) on."""
        with self.path.open("rb") as file:
            stream = Stream(file, self)
            stream.matrix()
            kind, _, _ = stream.tag()
            dtype = np.dtype("<" + NUMBERS[kind])
            stream.skip(first * dtype.itemsize)
            numbers = stream.take(math.prod(shape) * dtype.itemsize)
            stream.finish()
        return np.frombuffer(numbers, dtype).reshape(shape, order="F")


def variables(path: Path) -> Iterator[Variable]:
    """The numeric variables of a file, found without reading their numbers."""
    with path.open("rb") as file:
        if file.read(HEADER)[126:] != LITTLE_ENDIAN:
            raise ValueError(f"{path}: not a MATLAB file of version 5 (little-endian) or 7.3")
        position = HEADER
        while len(tag := file.read(8)) == 8:
            kind, length = struct.unpack("<II", tag)
            if kind in (MATRIX, COMPRESSED):
                unknown = Variable("(not yet named)", (), path, position)
                numeric, shape, name = Stream(file, unknown).matrix()
                if numeric:
                    yield Variable(name, shape, path, position)
            position += 8 + length
            file.seek(position)


class Stream:
    """The bytes of one variable's element, unpacked if need be."""

    def __init__(self, file: BinaryIO, variable: Variable) -> None:
        self.file, self.variable = file, variable
        self.inflate: zlib._Decompress | None = None
        file.seek(variable.position)
        if struct.unpack("<I", file.read(4))[0] == COMPRESSED:
            file.seek(variable.position + 8)
            self.inflate = zlib.decompressobj()
        else:
            file.seek(variable.position)

    def matrix(self) -> tuple[bool, tuple[int, ...], str]:
        """Whether the variable is numeric, its shape, its name. The numbers come next."""
        self.tag()
        flags = self.words(self.part())
        shape = self.words(self.part())
        return flags[0] & 0xFF in NUMERIC_CLASSES, shape, self.part().decode("latin-1")

    def tag(self) -> tuple[int, int, int]:
        """Type and length of the next element, and the bytes that pad it."""
        (kind,) = self.words(self.take(4))
        if kind >> 16:  # the short form: length in the upper half, data in the rest of the eight bytes
            return kind & 0xFFFF, kind >> 16, 4 - (kind >> 16)
        (length,) = self.words(self.take(4))
        return kind, length, -length % 8

    def part(self) -> bytes:
        _, length, padding = self.tag()
        return self.take(length + padding)[:length]

    def words(self, data: bytes) -> tuple[int, ...]:
        return struct.unpack(f"<{len(data) // 4}I", data)

    def skip(self, length: int) -> None:
        if self.inflate is None:
            self.file.seek(length, 1)
            return
        for start in range(0, length, PIECE):
            self.take(min(PIECE, length - start))

    def take(self, length: int) -> bytes:
        data = self.file.read(length) if self.inflate is None else self._unpacked(self.inflate, length)
        if len(data) < length:
            raise self._broken(f"cut short: expected {length} bytes where {len(data)} were found")
        return data

    def finish(self) -> None:
        """Unpack what is left of the element, at whose end its checksum is compared."""
        while self.inflate is not None and not self.inflate.eof:
            if not self._unpacked(self.inflate, PIECE) and not self.inflate.eof:
                raise self._broken("cut short: expected the end of the compressed bytes, found the end of the file")

    def _unpacked(self, inflate: zlib._Decompress, length: int) -> bytes:
        """The next bytes, as many as asked for if there are so many."""
        pieces, missing = [], length
        while missing and not inflate.eof:
            packed = inflate.unconsumed_tail or self.file.read(PIECE)
            try:
                piece = inflate.decompress(packed, missing)
            except zlib.error as error:
                raise self._broken(f"damaged ({error})") from error
            if not piece and not packed:
                break
            pieces.append(piece)
            missing -= len(piece)
        return b"".join(pieces)

    def _broken(self, how: str) -> ValueError:
        return ValueError(f"{self.variable.path}: field {self.variable.name!r} is {how}")
