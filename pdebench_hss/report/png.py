"""Small fields as small PNG files: one byte per point into a palette, made with zlib alone.

An indexed PNG (W3C PNG specification, colour type 3) of a 32 x 32 field takes about a kilobyte. Index 0 is transparent
and stands for points outside the domain; the others run along a colour map from the lowest to the highest value.
"""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np

LEVELS = 127  # colours of a map: more than an eye tells apart
# Light-to-dark for fields of one sign, and about white for fields of both; both survive colour blindness.
SEQUENTIAL = ("#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#fde725")
DIVERGING = ("#1b2f6b", "#2f6db5", "#7fb2dc", "#d5e5f0", "#f7f7f7", "#f6dccb", "#e59a72", "#c2452f", "#6e0f1e")


def palette(anchors: tuple[str, ...]) -> np.ndarray:
    """`LEVELS` colours along the anchors, uint8 (levels, 3)."""
    rgb = np.array([[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in anchors], float)
    where = np.linspace(0, len(anchors) - 1, LEVELS)
    return np.stack([np.interp(where, range(len(anchors)), channel) for channel in rgb.T], axis=1).round().astype("u1")


def indices(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """Palette indices: 0 where NaN, else 1 (``low`` and below) to `LEVELS` (``high`` and above)."""
    level = np.clip((np.nan_to_num(values) - low) / (high - low), 0, 1) * (LEVELS - 1)
    return np.where(np.isnan(values), 0, 1 + level.round()).astype("u1")


def png(values: np.ndarray, low: float, high: float) -> bytes:
    """A picture of a matrix (rows, columns), first row at the top; diverging if the range is about zero."""
    rows, columns = values.shape
    colours = palette(DIVERGING if low == -high else SEQUENTIAL)
    pixels = np.zeros((rows, columns + 1), "u1")  # each row begins with its filter type, 0
    pixels[:, 1:] = indices(values, low, high)
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", b"\x00\x00\x00" + colours.tobytes()),
            _chunk(b"tRNS", b"\x00"),
            _chunk(b"IDAT", zlib.compress(pixels.tobytes(), 9)),
            _chunk(b"IEND", b""),
        ]
    )


def data_uri(content: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(content).decode("ascii")


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
