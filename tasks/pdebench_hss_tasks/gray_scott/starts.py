"""The two families of random starts (A0, B0), as in the generator of The Well's Gray-Scott data.

Gaussians   A0 = 1 - a sum of bumps, B0 = another sum of bumps, each scaled to [0, 1]. A sum has 10 to 100 bumps
            amplitude * exp(-exponent |x - centre|^2), amplitude in [1, 3], exponent in [150, 300], centres anywhere,
            repeated periodically.
Fourier     mean + width / 2 * the trigonometric interpolant of 32 x 32 uniform numbers in [-1/2, 1/2]. Mean and width
            belong to the pattern: (1, 0) and 1, or, where the reaction has a third steady state, that state and
            nine tenths of its distance from 0 and 1 (of the six patterns only "bubbles").

A smaller version of the task keeps the physics and takes a smaller piece of the plane: ``patch`` is its side as a
fraction of the paper's. Stretched to [-1, 1]^2, a patch has patch^2 times as many bumps, exponents smaller by
patch^2, and patch * 32 random numbers along each side.
"""

from __future__ import annotations

import math

import numpy as np

from .spectrum import resample

FAMILIES = ("gaussians", "fourier")
BUMPS = (10, 100)
AMPLITUDE = (1.0, 3.0)
EXPONENT = (150.0, 300.0)
NOISE_POINTS = 32


def start(family: str, seed: int, feed: float, kill: float, n: int, patch: float) -> np.ndarray:
    """(A0, B0), shape (2, n, n). A seed has one start of each family; the pattern moves only Fourier's mean."""
    rng = np.random.default_rng((seed, FAMILIES.index(family)))
    return gaussians(rng, n, patch) if family == "gaussians" else fourier(rng, feed, kill, n, patch)


def gaussians(rng: np.random.Generator, n: int, patch: float) -> np.ndarray:
    a, b = bumps(rng, n, patch), bumps(rng, n, patch)
    return np.stack([unit_range(-a), unit_range(b)])


def bumps(rng: np.random.Generator, n: int, patch: float) -> np.ndarray:
    fewest, most = math.ceil(BUMPS[0] * patch**2), math.floor(BUMPS[1] * patch**2)
    count = rng.integers(fewest, most, endpoint=True)
    amplitude = rng.uniform(*AMPLITUDE, count)
    exponent = rng.uniform(*EXPONENT, count) * patch**2
    centre = rng.uniform(-1, 1, (2, count))
    # A bump and its eight nearest copies are a product of two sums of three, one along each axis.
    points = np.linspace(-1, 1, n, endpoint=False) - np.array([-2.0, 0.0, 2.0])[:, None]  # (3, n)
    distance = points - centre[..., None, None]  # (2, count, 3, n)
    rows, columns = np.exp(-exponent[:, None, None] * distance**2).sum(axis=-2)  # each (count, n)
    return np.einsum("c,ci,cj->ij", amplitude, rows, columns)


def unit_range(field: np.ndarray) -> np.ndarray:
    return (field - field.min()) / (field.max() - field.min())


def fourier(rng: np.random.Generator, feed: float, kill: float, n: int, patch: float) -> np.ndarray:
    points = round(NOISE_POINTS * patch)
    noise = resample(rng.uniform(-0.5, 0.5, (2, points, points)), n)  # (2, n, n)
    mean, width = centre_and_width(feed, kill)
    return mean[:, None, None] + width[:, None, None] / 2 * noise


def centre_and_width(feed: float, kill: float) -> tuple[np.ndarray, np.ndarray]:
    """Around which (A, B), and how far, Fourier starts scatter."""
    if kill >= (math.sqrt(feed) - 2 * feed) / 2:
        return np.array([1.0, 0.0]), np.array([1.0, 1.0])
    ratio = math.sqrt(feed) / (feed + kill)
    root = math.sqrt(ratio**2 - 4)
    mean = np.array([(ratio - root) / (2 * ratio), math.sqrt(feed) * (ratio + root) / 2])
    return mean, 0.9 * np.minimum(mean, 1 - mean)
