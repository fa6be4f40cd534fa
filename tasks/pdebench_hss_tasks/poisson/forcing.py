"""The random forcings, as sine coefficients: f(x) = sum_k a_k sin(k_1 pi x_1) sin(k_2 pi x_2) ...

Each function returns ``(samples, *modes)`` for `box.synthesize`; sample i depends on ``seeds[i]`` alone.

The paper's text says two things at once: its formulas sum over k = 1..K, and a sentence below them says that the wave
numbers are "drawn uniformly at random for each sample" from a set. `full_sum` is the formula, `drawn` the sentence.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def full_sum(seeds: Sequence[int], dim: int, terms: int, factor: int) -> np.ndarray:
    """Sum over k = 1..terms along each axis of c_k sin(factor pi k x), c_k ~ U(0, 1).

    With factor 2 only every second sine mode occurs: f is odd about the middle of the box. Either way f lives
    in a space of ``terms ** dim`` dimensions only.
    """
    coefficients = np.zeros((len(seeds), *(factor * terms,) * dim))
    every = (slice(factor - 1, None, factor),) * dim
    for sample, seed in zip(coefficients, seeds, strict=True):
        sample[every] = np.random.default_rng(seed).uniform(size=(terms,) * dim)
    return coefficients


def drawn(seeds: Sequence[int], dim: int, terms: int, factor: int, choices: range) -> np.ndarray:
    """As many terms, but the ``terms`` wave numbers along each axis are drawn from ``choices`` with repetition."""
    coefficients = np.zeros((len(seeds), *(factor * choices[-1],) * dim))
    for sample, seed in zip(coefficients, seeds, strict=True):
        generator = np.random.default_rng(seed)
        wave_numbers = generator.integers(choices.start, choices.stop, size=(dim, terms))
        amplitudes = generator.uniform(size=(terms,) * dim)
        np.add.at(sample, np.ix_(*(factor * wave_numbers - 1)), amplitudes)  # a mode drawn twice counts twice
    return coefficients


def square(seeds: Sequence[int], terms: int, draw: bool, factor: int = 2) -> np.ndarray:
    """The paper's 2D forcing (square, L-shape, disk, Helmholtz), by its formula or by its sentence."""
    if draw:
        return drawn(seeds, dim=2, terms=terms, factor=factor, choices=range(1, terms + 1))
    return full_sum(seeds, dim=2, terms=terms, factor=factor)


def fit(fields: np.ndarray, inside: np.ndarray, terms: int, factor: int) -> np.ndarray:
    """The coefficients of `square` from its values on part of a grid: ``(samples, n, n) -> (samples, *modes)``.

    Least squares; this is how classical solvers on other domains learn f on a grid that is not the models'.
    """
    n = inside.shape[0]
    sines = np.sin(np.pi * factor * np.outer(np.arange(n) / n, np.arange(1, terms + 1)))  # (n, terms)
    products = np.einsum("ik,jl->ijkl", sines, sines)[inside].reshape(-1, terms**2)
    solution, *_ = np.linalg.lstsq(products, fields[:, inside].T, rcond=None)
    coefficients = np.zeros((len(fields), factor * terms, factor * terms))
    coefficients[:, factor - 1 :: factor, factor - 1 :: factor] = solution.T.reshape(-1, terms, terms)
    return coefficients


def gaussian_field(seeds: Sequence[int], grid: Sequence[int], length: float) -> np.ndarray:
    """Every mode the grid can hold: a Gaussian field with covariance ~ (1 - length^2 Lap)^-2 and zero boundary values.

    Scaled so that the mean square of f over the box is 1 on average.
    """
    squares = [(np.pi * length * np.arange(1, n)) ** 2 for n in grid]
    spectrum = 1 / (1 + sum(np.meshgrid(*squares, indexing="ij", sparse=True)))
    spectrum *= np.sqrt(2.0 ** len(grid) / np.sum(spectrum**2))
    noise = [np.random.default_rng(seed).standard_normal(spectrum.shape) for seed in seeds]
    return spectrum * np.stack(noise)
