"""Random smooth periodic fields to start from: the lowest waves of a box with random coefficients.

    f(x) = Re sum over |k_i| <= modes, k != 0 of c_k exp(2 pi i k.x / L),   c_k complex normal

divided by its standard deviation over the box, so that a field does not depend on the grid that shows it.

    waves        amplitude f: mean zero, standard deviation ``amplitude``
    fronts       (1 + tanh(2 f)) / 2: between 0 and 1, the two states of a reaction
    solenoidal   three components whose divergence is zero, of standard deviation ``amplitude`` together
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

KINDS = ("waves", "fronts", "solenoidal")


def start(seed: int, points: int, dim: int, options: Mapping[str, Any]) -> np.ndarray:
    """One start, (channels, *grid)."""
    kind, modes = options["start"], options["modes"]
    if points <= 2 * modes:
        raise ValueError(f"a grid of {points} points can't show starts with {modes} waves: at least {2 * modes + 1}")
    generator = np.random.default_rng(seed)
    shape = (options["channels"], *(2 * modes + 1,) * dim)
    coefficients = generator.standard_normal(shape) + 1j * generator.standard_normal(shape)
    coefficients[(slice(None), *(modes,) * dim)] = 0  # k = 0: no mean
    if kind == "solenoidal":
        coefficients = _without_divergence(coefficients, modes)
    fields = _evaluate(coefficients, modes, points)
    return (1 + np.tanh(2 * fields)) / 2 if kind == "fronts" else options["amplitude"] * fields


def _evaluate(coefficients: np.ndarray, modes: int, points: int) -> np.ndarray:
    """The fields on a grid, with standard deviation 1 over all channels: (channels, *grid)."""
    dim = coefficients.ndim - 1
    spectrum = np.zeros((len(coefficients), *(points,) * dim), dtype=complex)
    places = np.arange(-modes, modes + 1)  # a negative index is that of the negative wave number
    spectrum[(slice(None), *np.ix_(*(places,) * dim))] = coefficients
    fields = np.fft.ifftn(spectrum, axes=range(1, dim + 1)).real * points**dim
    # The real part of c exp(i k x) + c' exp(-i k x) has the variance |c + conj(c')|^2 / 2.
    mirrored = np.conj(coefficients[(slice(None), *(slice(None, None, -1),) * dim)])
    variance = (np.abs(coefficients + mirrored) ** 2).sum() / 4 / len(coefficients)
    return fields / np.sqrt(variance)


def _without_divergence(coefficients: np.ndarray, modes: int) -> np.ndarray:
    """c - k (k.c) / |k|^2."""
    axes = [np.arange(-modes, modes + 1)] * (coefficients.ndim - 1)
    k = np.stack(np.meshgrid(*axes, indexing="ij")).astype(float)
    square = (k**2).sum(axis=0)
    square[(modes,) * len(axes)] = 1
    return coefficients - k * ((k * coefficients).sum(axis=0) / square)
