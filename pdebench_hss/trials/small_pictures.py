"""Pictures of a packed record: only what a page draws of `pictures`.

A page draws a field in 127 colours on some two hundred pixels. So each plane of a picture, one sample and channel,
becomes

    code(x) = round(126 (u(x) - low) / (high - low))   in one byte,   low = min u,  high = max u,

on at most `SIDE` points a side (a curve on as many as it has). A point outside the domain is `OUTSIDE`. Reading gives

    u(x) = low + code(x) (high - low) / 126,

which is exact at both ends of the range and off by at most 0.4 % of it elsewhere. Identical planes are stored once:
models with the same best test sample share its input and truth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.files import BadFile
from .pictures import LARGEST

SIDE = 32  # points of a plane; a curve has at most `pictures.SIDE`
LEVELS = 126
OUTSIDE = 255
FIELDS = ("picture_input", "picture_truth", "picture_error")
MAP = "picture_map"  # records of earlier versions have none
NEEDED = ("picture_index", *FIELDS)
PICTURE = (*NEEDED, MAP)


@dataclass(frozen=True)
class Plane:
    codes: bytes
    low: float
    high: float


@dataclass(frozen=True)
class Field:
    """``shape`` is (3, channels, *sides), of a map (2, channels, *sides); the planes are in that order."""

    shape: tuple[int, ...]
    planes: list[Plane]


@dataclass(frozen=True)
class SmallPictures:
    """``index`` of the three test samples, their fields by name (`FIELDS`), and `MAP` if there is one."""

    index: list[int]
    fields: dict[str, Field]

    def arrays(self) -> dict[str, np.ndarray]:
        """In the form of `Record.samples`."""
        found: dict[str, np.ndarray] = {"picture_index": np.array(self.index, np.int64)}
        for name, field in self.fields.items():
            found[name] = np.stack([_values(plane) for plane in field.planes]).reshape(field.shape)
        return found


def shrink(samples: Mapping[str, np.ndarray]) -> SmallPictures | None:
    """The pictures among a record's arrays; None if it has none."""
    if not all(name in samples for name in NEEDED):
        return None
    names = [*FIELDS, *([MAP] if MAP in samples else [])]
    return SmallPictures([int(i) for i in samples["picture_index"]], {name: _field(samples[name]) for name in names})


def _field(values: np.ndarray) -> Field:
    """(3, channels, *sides). Long sides are strided, not averaged, so every drawn value was really computed."""
    if values.ndim == 4:
        rows, columns = (-(-side // SIDE) for side in values.shape[2:])
        values = values[:, :, ::rows, ::columns]
    flat = values.reshape(values.shape[0] * values.shape[1], -1)  # (planes, points)
    return Field(values.shape, [_plane(plane) for plane in np.asarray(flat, np.float64)])


def _plane(values: np.ndarray) -> Plane:
    inside = np.isfinite(values)
    if not inside.any():
        return Plane(bytes([OUTSIDE]) * len(values), 0.0, 0.0)
    values = np.clip(values, -LARGEST, LARGEST)  # fits in float32
    low, high = (float(np.float32(limit)) for limit in (values[inside].min(), values[inside].max()))
    shares = (np.where(inside, values, low) - low) / (high - low) if high > low else np.zeros_like(values)
    codes = np.clip(np.round(LEVELS * shares), 0, LEVELS)
    return Plane(np.where(inside, codes, OUTSIDE).astype(np.uint8).tobytes(), low, high)


def _values(plane: Plane) -> np.ndarray:
    codes = np.frombuffer(plane.codes, np.uint8)
    values = plane.low + (plane.high - plane.low) * (codes / LEVELS)
    return np.where(codes == OUTSIDE, np.nan, values).astype(np.float32)


# --- all pictures of a pack: three arrays, and in each record the numbers of its planes -------------------------------


class PlaneWriter:
    """Collects planes, each once."""

    def __init__(self) -> None:
        self._numbers: dict[Plane, int] = {}

    def add(self, pictures: SmallPictures) -> dict[str, Any]:
        """The part of a record's line that refers to its pictures."""
        numbers = {name: [self._number(plane) for plane in field.planes] for name, field in pictures.fields.items()}
        fields = {name: {"shape": list(pictures.fields[name].shape), "planes": numbers[name]} for name in numbers}
        return {"picture_index": pictures.index, **fields}

    def _number(self, plane: Plane) -> int:
        return self._numbers.setdefault(plane, len(self._numbers))

    def arrays(self) -> dict[str, np.ndarray]:
        """``codes`` of all planes one after the other, where each begins and the last ends, ``limits`` (planes, 2)."""
        planes = list(self._numbers)
        if not planes:
            return {}
        return {
            "codes": np.frombuffer(b"".join(plane.codes for plane in planes), np.uint8),
            "starts": np.cumsum([0, *(len(plane.codes) for plane in planes)]),
            "limits": np.array([(plane.low, plane.high) for plane in planes], np.float32),
        }


class PlaneReader:
    """The inverse, for untrusted input: raises `BadFile` if the parts do not fit together."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        kinds = {name: (array.dtype.str, array.ndim) for name, array in arrays.items()}
        if kinds != {"codes": ("|u1", 1), "starts": ("<i8", 1), "limits": ("<f4", 2)}:
            raise BadFile("it does not hold pictures")
        self._codes, self._starts, self._limits = arrays["codes"], arrays["starts"], arrays["limits"]
        edges = np.array([0, len(self._codes)])
        fits = len(self._starts) > 0 and (self._starts[[0, -1]] == edges).all() and (np.diff(self._starts) >= 0).all()
        if not fits or self._limits.shape != (len(self._starts) - 1, 2) or not np.isfinite(self._limits).all():
            raise BadFile("its pictures do not fit together")

    def pictures(self, entry: Mapping[str, Any]) -> SmallPictures:
        """The pictures that a record's line refers to."""
        fields = {name: entry[name] for name in (*FIELDS, MAP) if name in entry}
        found = {name: self._field(field) for name, field in fields.items() if isinstance(field, dict)}
        index = _naturals(entry.get("picture_index"))
        if not index or not set(FIELDS) <= set(found) or len(found) != len(fields):
            raise BadFile("its pictures are damaged")
        return SmallPictures(index, found)

    def _field(self, entry: Mapping[str, Any]) -> Field:
        shape, numbers = _naturals(entry.get("shape")), _naturals(entry.get("planes"))
        if not 3 <= len(shape) <= 4 or not numbers or max(numbers) >= len(self._limits):
            raise BadFile("its pictures are damaged")
        planes = [self._plane(number) for number in numbers]
        points = math.prod(shape[2:])
        if len(planes) != shape[0] * shape[1] or any(len(plane.codes) != points for plane in planes):
            raise BadFile("its pictures are damaged")
        return Field(tuple(shape), planes)

    def _plane(self, number: int) -> Plane:
        low, high = (float(limit) for limit in self._limits[number])
        return Plane(self._codes[self._starts[number] : self._starts[number + 1]].tobytes(), low, high)


def _naturals(value: Any) -> list[int]:
    """A list of numbers from 0 on; empty if it is anything else."""
    good = isinstance(value, list) and all(type(entry) is int and 0 <= entry < 2**62 for entry in value)
    return value if good else []
