"""Generators of the toy tasks."""

from __future__ import annotations

import os
import time

import numpy as np


def smooth(seeds, size):
    """y is x convolved with (1, 2, 1)/4."""
    x = np.stack([np.random.default_rng(seed).standard_normal((1, *size.grid)) for seed in seeds])
    return x, (np.roll(x, 1, -1) + 2 * x + np.roll(x, -1, -1)) / 4


def swapped(inputs, outputs):
    return outputs, inputs


def decay(seeds, size):
    x, _ = smooth(seeds, size)
    return x, np.stack([x * 0.8**t for t in range(1, size.steps + 1)], axis=1)


def scaled(seeds, size, factor):
    x, _ = smooth(seeds, size)
    return x, factor * x


def not_a_number(seeds, size):
    x, y = smooth(seeds, size)
    y[-1, 0, 3] = np.nan
    return x, y


def raises(seeds, size):
    raise ZeroDivisionError("the toy solver broke")


def wrong_shape(seeds, size):
    x, y = smooth(seeds, size)
    return x, y[..., :-1]


def slow(seeds, size):
    time.sleep(0.3)
    if trace := os.environ.get("TOY_TRACE"):
        with open(trace, "a") as file:
            file.write("".join(f"{seed}\n" for seed in seeds))
    return smooth(seeds, size)
