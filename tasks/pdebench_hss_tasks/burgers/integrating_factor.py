"""Fourth-order steps for y' = -L y + N(y) with a diagonal, stiff L that is integrated exactly.

The classical Runge-Kutta method applied to exp(L t) y. With E = exp(-L dt / 2):

    k1 = N(y)                    k3 = N(E y + dt/2 k2)
    k2 = N(E (y + dt/2 k1))      k4 = N(E (E y + dt k3))
    y <- E^2 y + dt/6 (E^2 k1 + 2 E (k2 + k3) + k4)

Against the exponential time differencing of the same order it needs no coefficients but E.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def step(y: np.ndarray, change: Callable[[np.ndarray], np.ndarray], half: np.ndarray, dt: float) -> np.ndarray:
    """One step; `change` is N and returns an array that may be written to, `half` is E."""
    decayed = half * y
    k1 = change(y)
    k1 *= half  # E k1 is all that is needed of it
    k2 = change(decayed + dt / 2 * k1)
    k3 = change(decayed + dt / 2 * k2)
    k4 = change(half * (decayed + dt * k3))
    k2 += k3
    k2 *= 2
    k2 += k1
    k2 *= dt / 6
    k2 += decayed
    k2 *= half  # E (E y + dt/6 (E k1 + 2 (k2 + k3)))
    k4 *= dt / 6
    k2 += k4
    return k2
