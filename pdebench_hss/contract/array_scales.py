"""The scales of a task that is given by arrays: they follow from what the arrays hold.

    smoke    a handful of samples on few points: seconds
    small    a subset that two cores train on in minutes
    medium   a larger one, for hours
    paper    everything

A subset is spread evenly over the samples of its split, and over the grid by a stride that keeps the points equispaced:
one that divides the number of points n of an axis (periodic), or n - 1 (both ends are points). Where no stride fits,
as for 48 points that are not periodic, the grid stays whole. The batch shrinks where samples are large.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .task import SCALES, Recipe, Scale

BATCH_POINTS = 1 << 16  # values of a batch: what two cores go through in a fraction of a second


@dataclass(frozen=True)
class Limit:
    """The most of each that a scale has; None: all there is."""

    train: int | None
    test: int | None
    points: int | None
    steps: int | None
    batch: int
    train_steps: int | None = None
    epochs: int | None = None


LIMITS = {
    "smoke": Limit(8, 4, 256, 3, batch=4, train_steps=4),
    "small": Limit(512, 128, 4096, 10, batch=16, train_steps=300),
    "medium": Limit(2048, 256, 16384, 20, batch=16, epochs=200),
    "paper": Limit(None, None, None, None, batch=32, epochs=500),
}


@dataclass(frozen=True)
class Extent:
    """What the arrays hold. ``steps`` is 1 for steady tasks."""

    train: int
    test: int
    grid: tuple[int, ...]
    channels: int
    steps: int = 1
    history: int = 1


def scales_of(extent: Extent, periodic: bool, options: Mapping[str, Any]) -> dict[str, Scale]:
    """Each scale; ``options`` are told to the reader, and the strides with them."""
    return {name: _scale(extent, periodic, options, LIMITS[name]) for name in SCALES if name in LIMITS}


def _scale(extent: Extent, periodic: bool, options: Mapping[str, Any], limit: Limit) -> Scale:
    strides = _strides(extent.grid, periodic, limit.points)
    grid = tuple(-(-n // stride) for n, stride in zip(extent.grid, strides, strict=True))
    train, steps = _at_most(extent.train, limit.train), extent.steps
    if limit.steps and steps > 1:
        steps = min(steps, max(limit.steps, extent.history + 1))  # a model that sees k frames needs one to predict
    batch = max(1, min(limit.batch, train, BATCH_POINTS // _product(grid)))
    recipe = Recipe(batch=batch, steps=limit.train_steps, epochs=limit.epochs)
    return Scale(
        grid=grid,
        train=train,
        test=_at_most(extent.test, limit.test),
        steps=steps,
        recipe=recipe,
        options={**options, "strides": list(strides)},
    )


def _strides(grid: tuple[int, ...], periodic: bool, points: int | None) -> tuple[int, ...]:
    """The smallest strides with which at most ``points`` are left, if there are such; equal along all axes if they can
    be, else as near to it as the axes allow."""
    if points is None or _product(grid) <= points:
        return (1,) * len(grid)
    choices = [list(_fitting(n, periodic)) for n in grid]
    best = (1,) * len(grid)
    for wanted in range(2, max(grid)):
        best = tuple(max(stride for stride in fitting if stride <= wanted) for fitting in choices)
        if _product(tuple(-(-n // stride) for n, stride in zip(grid, best, strict=True))) <= points:
            break
    return best


def _fitting(n: int, periodic: bool) -> Iterator[int]:
    """Strides after which the points are still equispaced and fill the domain; at least 8 points are left."""
    whole = n if periodic else n - 1
    return (stride for stride in range(1, max(2, n // 8 + 1)) if whole % stride == 0)


def _at_most(count: int, limit: int | None) -> int:
    return count if limit is None else min(count, limit)


def _product(numbers: tuple[int, ...]) -> int:
    result = 1
    for number in numbers:
        result *= number
    return result
