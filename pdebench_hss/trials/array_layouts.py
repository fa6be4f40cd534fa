"""Files of arrays that are laid out alike, parsed once.

The records of one task have files of the same arrays, which differ in values and their CRCs and in nothing else. Such a
file is compared with one that was parsed before, all bytes at once, and its arrays are cut out where those were.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from ..base.files import BadFile

LONGEST = 1 << 16  # bytes of a file whose layout is remembered
MOST = 100  # layouts
CRC_BYTES = 4


@dataclass(frozen=True, slots=True)
class Part:
    """An array in its file, stored as it is.

    crcs     where its CRC stands; the first one counts
    values   where its values begin, counted from its own start
    """

    name: str
    start: int
    end: int
    crcs: tuple[int, ...]
    values: int
    dtype: np.dtype
    shape: tuple[int, ...]
    reverse: bool

    def cut(self, content: bytes) -> np.ndarray:
        data, crc = content[self.start : self.end], self.crcs[0]
        if zlib.crc32(data) != int.from_bytes(content[crc : crc + CRC_BYTES], "little"):
            raise BadFile(f"array {self.name!r} is damaged")
        flat = np.frombuffer(data, self.dtype, offset=self.values)
        if len(self.shape) == 1:
            return flat
        return flat.reshape(self.shape[::-1]).T if self.reverse else flat.reshape(self.shape)


class Layout:
    def __init__(self, content: bytes, parts: Sequence[Part]) -> None:
        self._parts = parts
        self._mask = np.full(len(content), 0xFF, np.uint8)  # 0 where files may differ
        for part in parts:
            self._mask[part.start + part.values : part.end] = 0
            for crc in part.crcs:
                self._mask[crc : crc + CRC_BYTES] = 0
        self._rest = self._without_values(content)

    def _without_values(self, content: bytes) -> bytes:
        return (np.frombuffer(content, np.uint8) & self._mask).tobytes()

    def is_that_of(self, content: bytes) -> bool:
        return self._without_values(content) == self._rest

    def read(self, content: bytes, names: Collection[str]) -> dict[str, np.ndarray]:
        """The named arrays, all if none is named; raises `BadFile` if one does not match its CRC."""
        return {part.name: part.cut(content) for part in self._parts if not names or part.name in names}


_KNOWN: dict[int, Layout] = {}  # by the length of the file


def find(content: bytes) -> Layout | None:
    """The layout of a file, if one like it was parsed before."""
    known = _KNOWN.get(len(content))
    return known if known is not None and known.is_that_of(content) else None


def remember(content: bytes, parts: Sequence[Part]) -> None:
    """To be called with a file that was parsed and found to be good."""
    if len(_KNOWN) >= MOST:
        _KNOWN.clear()
    _KNOWN[len(content)] = Layout(content, parts)
