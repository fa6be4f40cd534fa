"""Errors by wave number. F is the discrete Fourier transform of p - t over N points, zero outside the domain.

The Well: three bands between four logarithmic edges, from 2 pi / n (for n points along the longest axis; the first edge
is then set to 0) to pi sqrt(dim), for wave numbers 2 pi |k| / n:

    spectral_mse    sum |F|^2 / N^2 over the band (the three add up to the MSE)
    spectral_nmse   that, divided by the same sum of the target + 1e-7

PDEBench: shells floor(|k|) = s of whole wave numbers from 0 on, without negative ones (in 1D: up to n / 2; else below
n / 2 along each axis, and s below half the shortest axis):

    frmse           mean over the shells s < 4, 4 <= s < 12, s >= 12 of sqrt(sum |F|^2 over the shell) / N

PDEBench averages |F|^2 over its batch before the root; here each sample has its own value, as in a batch of one.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np
import torch

from ..contract.metric import Setting
from .arrays import mean_over_frames, zero_outside

BANDS = ("low", "middle", "high")
EPSILON = 1e-7  # The Well's
SHELL_EDGES = (0, 4, 12)  # PDEBench's iLow and iHigh


def spectral_errors(prediction: np.ndarray, target: np.ndarray, setting: Setting) -> dict[str, np.ndarray]:
    t = zero_outside(target, setting)  # (n, steps, channels, *grid)
    error = _power(zero_outside(prediction, setting) - t, setting.dim)  # (n, steps, channels, modes)
    bands, weights = _bands(setting.grid)
    mse = _sums(error * weights, bands, len(BANDS))  # (n, steps, channels, 3)
    energy = _sums(_power(t, setting.dim) * weights, bands, len(BANDS))
    frmse = _frmse(error, setting.grid)
    found = {}
    for i, band in enumerate(BANDS):
        found[f"spectral_mse_{band}"] = mse[..., i]
        found[f"spectral_nmse_{band}"] = mse[..., i] / (energy[..., i] + EPSILON)
        found[f"frmse_{band}"] = frmse[..., i]
    return {name: mean_over_frames(values) for name, values in found.items()}


def _power(fields: np.ndarray, dim: int) -> np.ndarray:
    """|F / N|^2, ``(..., *grid) -> (..., modes)``; for a real field half of the last axis is enough."""
    axes = tuple(range(-dim, 0))
    transform = np.fft.rfftn(fields, axes=axes, norm="forward")
    return (transform.real**2 + transform.imag**2).reshape(*fields.shape[:-dim], -1)


def _sums(values: np.ndarray, groups: np.ndarray, count: int) -> np.ndarray:
    """Sums over the modes of each group, ``(..., modes) -> (..., count)``; group -1 is in none."""
    order = np.argsort(groups, kind="stable")
    starts = np.searchsorted(groups[order], np.arange(count + 1))
    ordered = values[..., order]
    sums = [ordered[..., start:end].sum(axis=-1) for start, end in pairwise(starts)]
    return np.stack(sums, axis=-1)


@lru_cache(maxsize=8)
def _bands(grid: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The band of each mode, and how often it occurs in the whole spectrum: once, or twice with its mirror image.

    In single precision, as The Well computes it: on a 32 x 32 grid the modes (2, 2) lie on an edge, and rounding
    decides on which side of it.
    """
    last = grid[-1]
    axes = [torch.fft.fftfreq(n) for n in grid]
    axes[-1] = axes[-1][: last // 2 + 1]  # the mode n / 2 is stored as -n / 2; it is squared
    squares = [
        ((2 * np.pi * axis) ** 2).reshape([-1 if i == j else 1 for j in range(len(grid))])
        for i, axis in enumerate(axes)
    ]
    waves = torch.zeros([len(axis) for axis in axes])
    for square in squares:
        waves = waves + square
    ends = np.log10(2 * np.pi / max(grid)), np.log10(np.pi * np.sqrt(len(grid)) + 1e-6)
    edges = torch.logspace(*ends, len(BANDS) + 1)
    edges[0] = 0.0
    bands = torch.bucketize(waves.sqrt().flatten(), edges, right=True) - 1
    twice = np.full(last // 2 + 1, 2.0)
    twice[0] = 1.0
    if last % 2 == 0:
        twice[-1] = 1.0
    return bands.numpy(), np.broadcast_to(twice, waves.shape).ravel()


def _frmse(power: np.ndarray, grid: tuple[int, ...]) -> np.ndarray:
    """``(..., modes) -> (..., 3)``; NaN where the grid has no such shells."""
    shells = _shells(grid)
    amplitudes = np.sqrt(_sums(power, shells, shells.max() + 1))  # (..., shells)
    ends = (*SHELL_EDGES[1:], amplitudes.shape[-1])
    empty = np.full(power.shape[:-1], np.nan)
    parts = [amplitudes[..., start:end] for start, end in zip(SHELL_EDGES, ends, strict=True)]
    return np.stack([part.mean(axis=-1) if part.shape[-1] else empty for part in parts], axis=-1)


@lru_cache(maxsize=8)
def _shells(grid: tuple[int, ...]) -> np.ndarray:
    """The shell of each mode of the half spectrum, ``(modes,)``; -1 if it is in none."""
    if len(grid) == 1:
        return np.arange(grid[0] // 2 + 1)
    axes = [np.arange(n) for n in grid[:-1]] + [np.arange(grid[-1] // 2 + 1)]
    waves = np.meshgrid(*axes, indexing="ij", sparse=True)
    shell = np.floor(np.sqrt(sum(np.square(k) for k in waves))).astype(int)
    counted = shell < min(grid) // 2
    for k, n in zip(waves, grid, strict=True):
        counted = counted & (k < n // 2)
    return np.where(counted, shell, -1).ravel()
