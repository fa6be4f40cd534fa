"""The Gray-Scott equations on the periodic square [-1, 1]^2: Fourier in space, ETDRK4 in time.

    A_t = delta_A Lap A - A B^2 + f (1 - A)
    B_t = delta_B Lap B + A B^2 - (f + k) B                     (paper, "Data Specification", Gray--Scott model)

In Fourier space u = (A^, B^) obeys u_t = L u + N(u) with the diagonal L = -delta pi^2 |m|^2, m the integer wave
numbers. As in the data the paper uses, diffusion alone is linear; feed, kill and reaction belong to N. One step of
Cox and Matthews (2002), with E = exp(L dt), E' = exp(L dt / 2):

    a  = E' u + Q N(u)        b = E' u + Q N(a)        c = E' a + Q (2 N(b) - N(u))
    u+ = E u + F1 N(u) + 2 F2 (N(a) + N(b)) + F3 N(c)

Q, F1, F2, F3 are quotients that cancel catastrophically for small L dt; Kassam and Trefethen (2005) evaluate them as
means over a circle around each L dt.

Modes whose two wave numbers are both at least n / 3 are held at zero: their coefficients of the scheme are zero. That
is not what the program behind the paper's data does. Chebfun's spin2 with "dealias on" zeroes these modes in the
snapshots that it stores, but keeps them in the state that it steps on; ``dealias="snapshot"`` of `solve` does so too.
Our data have the mask on the state, so that what is stored is a state of the system of ODEs that is solved;
docs/tasks.md has the difference, which is below the error of the mesh.

What makes it fast: fields are real, so half of the spectrum is enough (`rfft2`); feed and kill are linear, so they need
no transform and N(u) costs two inverse transforms and one forward (of A B^2) instead of four complex ones; the
coefficients are real and kept twice per complex number, so that every product is a product of reals; every array but
what the transforms return is allocated once; and trajectories go through in blocks that stay in the cache.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.fft import irfft2, rfft2

CONTOUR_POINTS = 32
BLOCK_POINTS = 16384  # grid points of a block of trajectories: one of 128^2, four of 64^2


class Coefficients(NamedTuple):
    """Of the scheme, for both species: each (2, 1, n, 2 m), m = n // 2 + 1, an entry per real number of a spectrum."""

    half: np.ndarray  # E'
    full: np.ndarray  # E
    q: np.ndarray
    f1: np.ndarray
    f2: np.ndarray  # 2 F2
    f3: np.ndarray


def scheme(linear: np.ndarray, dt: float) -> list[np.ndarray]:
    """E', E, Q, F1, 2 F2, F3 for an array of eigenvalues of L."""
    z = linear * dt
    angle = np.pi * (np.arange(CONTOUR_POINTS) + 0.5) / CONTOUR_POINTS
    w = z[..., None] + np.exp(1j * angle)  # upper half circle: the other half gives the conjugate

    def mean(values: np.ndarray) -> np.ndarray:
        return dt * values.mean(-1).real

    e = np.exp(w)
    q = mean((np.exp(w / 2) - 1) / w)
    f1 = mean((-4 - w + e * (4 - 3 * w + w**2)) / w**3)
    f2 = mean((2 + w + e * (w - 2)) / w**3)
    f3 = mean((-4 - 3 * w - w**2 + e * (4 - w)) / w**3)
    return [np.exp(z / 2), np.exp(z), q, f1, 2 * f2, f3]


@lru_cache(maxsize=4)
def coefficients(n: int, dt: float, diffusion: tuple[float, float], masked: bool = True) -> Coefficients:
    rows = np.fft.fftfreq(n, 1 / n)[:, None]
    columns = np.fft.rfftfreq(n, 1 / n)
    squared = np.pi**2 * (rows**2 + columns**2)  # (n, m): -Lap on a square of side 2
    linear = -np.array(diffusion)[:, None, None] * squared  # (2, n, m)
    kept = inner_modes(n) if masked else True
    # (2, n, m) -> (2, 1, n, 2 m): each number twice, for the real and the imaginary part
    return Coefficients(*(np.repeat(kept * value, 2, axis=-1)[:, None] for value in scheme(linear, dt)))


def inner_modes(n: int) -> np.ndarray:
    """Which modes of an `rfft2` have a wave number below n / 3, (n, m): all but the corners."""
    return (np.abs(np.fft.fftfreq(n, 1 / n))[:, None] < n / 3) | (np.fft.rfftfreq(n, 1 / n) < n / 3)


def solve(
    start: np.ndarray,
    feed: np.ndarray,
    kill: np.ndarray,
    dt: float,
    steps: int,
    diffusion: tuple[float, float],
    dealias: str = "state",
) -> np.ndarray:
    """The fields after ``steps`` steps of ``dt``.

    start: (batch, 2, n, n), A and B; feed and kill: (batch,). A trajectory's result does not depend on what else is
    in the batch. ``dealias``: "state" masks every state, "snapshot" the result alone.
    """
    if dealias not in ("state", "snapshot"):
        raise ValueError(f"dealias={dealias!r} is not one of state, snapshot")
    n = start.shape[-1]
    end = np.empty_like(start)
    size = max(1, BLOCK_POINTS // n**2)
    for first in range(0, len(start), size):
        block = slice(first, first + size)
        stepper = Stepper(n, dt, diffusion, feed[block], kill[block], masked=dealias == "state")
        end[block] = stepper.advance(start[block].swapaxes(0, 1), steps).swapaxes(0, 1)
    if dealias == "snapshot":
        end = irfft2(rfft2(end) * inner_modes(n), s=(n, n))
    return end


class Stepper:
    """Advances a block of trajectories; owns the buffers."""

    def __init__(
        self, n: int, dt: float, diffusion: tuple[float, float], feed: np.ndarray, kill: np.ndarray, masked: bool = True
    ) -> None:
        self.n = n
        self.coefficients = coefficients(n, dt, diffusion, masked)
        self.decay = np.stack([-feed, -(feed + kill)])[..., None, None]  # (2, batch, 1, 1)
        self.supply = feed * n**2  # the transform of the constant f lives in mode (0, 0)
        shape = (2, len(feed), n, 2 * (n // 2 + 1))  # spectra seen as pairs of reals
        self.buffers = [np.empty(shape) for _ in range(7)]
        self.square = np.empty((len(feed), n, n))

    def advance(self, fields: np.ndarray, steps: int) -> np.ndarray:
        """(2, batch, n, n) -> the same after ``steps`` steps."""
        state = rfft2(fields).view(np.float64)  # (2, batch, n, 2 m)
        for _ in range(steps):
            self.step(state)
        return irfft2(state.view(np.complex128), s=(self.n, self.n))

    def rate(self, state: np.ndarray, out: np.ndarray) -> np.ndarray:
        """N(state): feed, kill and reaction."""
        a, b = irfft2(state.view(np.complex128), s=(self.n, self.n))  # each (batch, n, n)
        np.multiply(b, b, out=self.square)
        np.multiply(self.square, a, out=self.square)
        reaction = rfft2(self.square).view(np.float64)  # (batch, n, 2 m)
        np.multiply(state, self.decay, out=out)
        out[0] -= reaction
        out[1] += reaction
        out[0, :, 0, 0] += self.supply
        return out

    def step(self, u: np.ndarray) -> None:
        """One step, in place."""
        half, full, q, f1, f2, f3 = self.coefficients
        n_u, n_a, n_b, half_u, a, stage, term = self.buffers
        add, multiply = np.add, np.multiply

        self.rate(u, out=n_u)
        multiply(half, u, out=half_u)
        add(half_u, multiply(q, n_u, out=term), out=a)

        self.rate(a, out=n_a)
        add(half_u, multiply(q, n_a, out=term), out=stage)  # b

        self.rate(stage, out=n_b)
        multiply(n_b, 2, out=term)
        term -= n_u
        term *= q
        add(multiply(half, a, out=stage), term, out=stage)  # c

        # What is known of u+ is gathered before N(c), so that its buffer can be used again.
        u *= full
        u += multiply(f1, n_u, out=term)
        n_a += n_b
        u += multiply(f2, n_a, out=term)
        u += multiply(f3, self.rate(stage, out=n_u), out=term)
