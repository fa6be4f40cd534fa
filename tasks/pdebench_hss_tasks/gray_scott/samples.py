"""Samples of the Gray-Scott tasks: (A0, B0, f, k) and (A, B) at the horizon."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pdebench_hss import Scale

from .etdrk4 import solve
from .spectrum import resample
from .starts import FAMILIES, start

# (f, k) of the six patterns, in the order of the paper's table.
PATTERNS = {
    "gliders": (0.014, 0.054),
    "bubbles": (0.098, 0.057),
    "maze": (0.029, 0.057),
    "worms": (0.058, 0.065),
    "spirals": (0.018, 0.051),
    "spots": (0.030, 0.062),
}
CASES = [(family, pattern) for family in FAMILIES for pattern in PATTERNS]  # of one seed
DIFFUSION = (2e-5, 1e-5)  # of A and B on the paper's square

# Of `coarse`: grid points per axis and the time step are multiplied by these. Starts reach B = 1, where the explicit
# reaction -A B^2 bounds the step: 2 is stable, 4 is not. The patterns are barely resolved on the data's own grid, so a
# coarser grid costs accuracy at once.
LEVELS = ((1, 1), (1, 2), (0.75, 2), (0.5, 2))


def generate(seeds: Sequence[int], size: Scale, cases: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (n, 4, *grid) and outputs (n, 2, *grid); cases[i] is the family and pattern of sample i, see `CASES`."""
    n, patch = size.grid[0], size.options["patch"]
    families, patterns = zip(*(CASES[case] for case in cases))
    pairs = np.array([PATTERNS[pattern] for pattern in patterns])  # (n, 2)
    starts = np.stack(
        [start(family, seed, feed, kill, n, patch) for family, seed, (feed, kill) in zip(families, seeds, pairs)]
    )
    constants = np.broadcast_to(pairs[:, :, None, None], starts.shape)  # (n, 2, *grid), as starts
    inputs = np.concatenate([starts, constants], axis=1)  # (n, 4, *grid)
    return inputs, coarse(inputs, 0, size)


def coarse(inputs: np.ndarray, level: int, size: Scale) -> np.ndarray:
    """The forward problem on a coarser grid with longer steps; level 0 is the dataset's own."""
    grid_factor, step_factor = LEVELS[level]
    n, dt = round(size.grid[0] * grid_factor), size.options["dt"] * step_factor
    diffusion = (DIFFUSION[0] / size.options["patch"] ** 2, DIFFUSION[1] / size.options["patch"] ** 2)
    starts = resample(np.asarray(inputs[:, :2], np.float64), n)
    feed, kill = np.asarray(inputs[:, 2:, 0, 0], np.float64).T
    ends = solve(starts, feed, kill, dt, round(size.options["horizon"] / dt), diffusion)
    return resample(ends, size.grid[0])


def inverse(inputs: np.ndarray, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The stored forward pair as the inverse task's: (A_T, B_T, f, k) and (A0, B0)."""
    return np.concatenate([outputs, inputs[:, 2:]], axis=1), inputs[:, :2]


def died(states: np.ndarray) -> np.ndarray:
    """Which of the states (n, 2, *grid) have fallen to the constant (1, 0): a living pattern has B above 0.1 somewhere.

    Such samples stay in the data, as they do in The Well's. Errors are relative to A and B together, whose norm does
    not vanish when B does.
    """
    return states[:, 1].max(axis=(-2, -1)) < 0.1
