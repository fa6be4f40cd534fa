"""Square grid cells cut by a disk: how much of each cell and of each face lies outside, and where its centroid is.

All in closed form. With s(t) = sqrt(R^2 - t^2), the part of the disk around 0 that lies left of x and below y is

    integral over t < x of  min(max(y + s, 0), 2 s):  y + s where |y| < s,  2 s below the line y,  0 above it

and inclusion-exclusion over the four corners gives the part inside a cell. Cells are numbered as the grid points that
they surround; lengths are in units of the cell's side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

NOTHING = 1e-9  # open parts below this are rounding


@dataclass(frozen=True)
class CutCells:
    """Open fractions, and the centroid of the open part seen from the middle of the cell or face."""

    area: np.ndarray  # (n, n)
    centroid: tuple[np.ndarray, np.ndarray]  # x and y, each (n, n)
    faces: tuple[np.ndarray, np.ndarray]  # between a cell and the next one along x, along y; each (n, n)
    face_centroid: tuple[np.ndarray, np.ndarray]  # along the face, each (n, n)


def cut_by_disk(n: int, radius: float) -> CutCells:
    """The n x n periodic cells of the unit square, cut by a disk in its centre."""
    corners = (np.arange(n + 1) - 0.5) / n - 0.5
    x, y = corners[:, None], corners[None, :]
    covered = _per_cell(_part(x, y, radius, lambda t: t, _area)) * n**2
    area = _clean(1 - covered)
    middle = corners[:-1, None] + 0.5 / n
    moment = _per_cell(_part(x, y, radius, lambda t: t**2 / 2, _moment)) * n**2  # of the covered part, about 0
    offset = -(moment - covered * middle) * n / np.where(area > 0, area, 1) * (area > 0)

    face, face_offset = _cut_faces(corners[1:], corners[:-1] + 0.5 / n, radius)
    return CutCells(area, (offset, offset.T), (face, face.T), (face_offset, face_offset.T))


def _cut_faces(positions: np.ndarray, middles: np.ndarray, radius: float) -> tuple[np.ndarray, np.ndarray]:
    """Open fraction and its centroid of the faces on the lines x = positions, around y = middles."""
    n = len(middles)
    chord = np.sqrt(np.maximum(radius**2 - positions**2, 0))[:, None]
    low = np.clip(-chord, middles - 0.5 / n, middles + 0.5 / n)
    high = np.clip(chord, middles - 0.5 / n, middles + 0.5 / n)
    covered = (high - low) * n
    moment = covered * ((low + high) / 2 - middles) * n
    face = _clean(1 - covered)
    return face, -moment / np.where(face > 0, face, 1) * (face > 0)


def _part(
    x: np.ndarray,
    y: np.ndarray,
    radius: float,
    plain: Callable[[np.ndarray], np.ndarray],
    weighted: Callable[[np.ndarray, float], np.ndarray],
) -> np.ndarray:
    """Integral over the part of the disk left of x and below y.

    ``plain`` and ``weighted`` are the integrals of the integrand and of the integrand times s(t).
    """
    x, y = np.clip(x, -radius, radius), np.clip(y, -radius, radius)
    reach = np.sqrt(radius**2 - y**2)  # the line y leaves the disk at t = -reach and t = reach
    between = np.clip(x, -reach, reach)
    crossed = y * (plain(between) - plain(-reach)) + weighted(between, radius) - weighted(-reach, radius)
    left = weighted(np.minimum(x, -reach), radius) - weighted(np.asarray(-radius), radius)
    right = weighted(np.maximum(x, reach), radius) - weighted(reach, radius)
    return crossed + np.where(y > 0, 2 * (left + right), 0)


def _area(t: np.ndarray, radius: float) -> np.ndarray:
    """Integral of s."""
    return (t * np.sqrt(radius**2 - t**2) + radius**2 * np.arcsin(t / radius)) / 2


def _moment(t: np.ndarray, radius: float) -> np.ndarray:
    """Integral of t s."""
    return -((radius**2 - t**2) ** 1.5) / 3


def _per_cell(at_corners: np.ndarray) -> np.ndarray:
    return np.diff(np.diff(at_corners, axis=0), axis=1)


def _clean(fraction: np.ndarray) -> np.ndarray:
    """0 and 1 exactly where rounding has left almost that."""
    return np.where(fraction < NOTHING, 0.0, np.where(fraction > 1 - NOTHING, 1.0, fraction))
