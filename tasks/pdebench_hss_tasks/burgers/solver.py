"""Burgers' equation with u = 0 at both ends: second-order differences in space, fourth-order steps in time.

    u_t + beta (u^2 / 2)_x = nu u_xx on (0, 1)

Space, h = 1 / m, interior points i = 1 ... m - 1:

    du_i/dt = -beta (F_{i+1/2} - F_{i-1/2}) / h + nu (u_{i-1} - 2 u_i + u_{i+1}) / h^2,
    F_{i+1/2} = (u_i^2 + u_i u_{i+1} + u_{i+1}^2) / 6.

The flux is central and second-order. Being a flux it moves shocks at the right speed, and its advection neither makes
nor destroys energy, sum_i u_i (F_{i+1/2} - F_{i-1/2}) = 0, so that a grid too coarse for the shocks can't blow up.

Time: diffusion is diagonal in the sine basis and is integrated exactly, advection by the classical Runge-Kutta method
(see `integrating_factor`).

Step: advection limits it, by the Courant number beta max|u| dt / h. A solution that vanishes at both ends obeys the
maximum principle and Oleinik's bound u_x <= 1 / (beta t), so beta max|u| <= min(beta max|u(0)|, 1 / t). The step
follows from that bound and not from the batch at hand: a trajectory is the same whatever is solved beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from scipy.fft import dst

from ..heat.sine import amplitudes, second_difference, values
from .integrating_factor import step

VISCOSITY = 1e-3
COURANT = 2.0  # the Runge-Kutta method is stable up to 2.8; at 2 its error is far below that of the differences
LONGEST = 0.025  # step where advection is too weak to limit it


def march(starts: np.ndarray, frames: int, frame: float, beta: float) -> Iterator[np.ndarray]:
    """Interior values (n, m - 1) at times frame, 2 frame, ...; the starts, |u| <= 1, say which grid is used."""
    intervals = starts.shape[-1] + 1
    rates = VISCOSITY * second_difference(intervals, intervals - 1)
    advect = advection(len(starts), intervals, beta)
    modes = amplitudes(starts)
    for index in range(frames):
        steps = substeps(index * frame, frame, intervals, beta)
        half = np.exp(-rates * frame / steps / 2)
        for _ in range(steps):
            modes = step(modes, advect, half, frame / steps)
        yield values(modes, intervals)


def substeps(time: float, frame: float, intervals: int, beta: float) -> int:
    """How many steps take a solution safely from time to time + frame."""
    speed = min(abs(beta), 1 / time) if time else abs(beta)
    return math.ceil(frame * max(speed * intervals / COURANT, 1 / LONGEST))


def advection(count: int, intervals: int, beta: float) -> Callable[[np.ndarray], np.ndarray]:
    """N: amplitudes (count, m - 1) -> amplitudes of -beta (F_{i+1/2} - F_{i-1/2}) / h, with its own work arrays."""
    line = np.zeros((count, intervals + 1))  # the two ends stay zero
    flux, product = np.empty((2, count, intervals))
    difference = np.empty((count, intervals - 1))

    def advect(modes: np.ndarray) -> np.ndarray:
        line[:, 1:-1] = dst(modes, type=1)  # 2 u
        left, right = line[:, :-1], line[:, 1:]
        np.add(left, right, out=flux)
        np.multiply(flux, flux, out=flux)
        np.multiply(left, right, out=product)
        np.subtract(flux, product, out=flux)  # left^2 + left right + right^2 = 24 F
        np.subtract(flux[:, 1:], flux[:, :-1], out=difference)
        change = dst(difference, type=1)  # m times the amplitudes; this m cancels h
        change *= -beta / 24
        return change

    return advect
