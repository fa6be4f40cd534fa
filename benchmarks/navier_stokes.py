"""Navier-Stokes: the task's integrator against Crank-Nicolson / explicit Euler at dt = 1e-4, DiffusionPDE's scheme.

Both solve the same starts on the same grid in float64 with `rfft2`; errors are against the task's solver on a grid
twice as fine with ten times the steps (tests/tasks/test_navier_stokes.py compares that solver with one that shares
nothing with it). Time is taken in turns: a stretch of the one, a run of the other.

    python benchmarks/navier_stokes.py [--grid 64 128] [--fields 8]

Exits with 1 where the task's solver is less than 20 times faster or has the larger error.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
from pdebench_hss_tasks.navier_stokes import FORWARD
from pdebench_hss_tasks.navier_stokes.equation import random_vorticity
from pdebench_hss_tasks.navier_stokes.solver import VISCOSITY, forward
from pdebench_hss_tasks.navier_stokes.spectral import resample, squared, wave_numbers
from scipy.fft import irfft2, rfft2

DT = 1e-4
STEPS = 10_000
STRETCHES = 10  # Crank-Nicolson is timed in so many parts, with a run of the task's solver after each
PROMISED = 20


class CrankNicolsonEuler:
    """v . grad w by four inverse transforms and one forward; diffusion by the trapezoidal rule, the rest by Euler."""

    def __init__(self, starts: np.ndarray) -> None:
        self.n = n = starts.shape[-1]
        kx, ky = wave_numbers(n)
        laplacian = squared(n)
        self.dx, self.dy = 1j * kx, 1j * ky
        self.inverse = 1 / np.where(laplacian == 0, 1, laplacian)
        self.kept = (np.abs(kx) <= 2 * np.pi * n / 3) & (np.abs(ky) <= 2 * np.pi * n / 3)
        self.explicit = 1 - DT / 2 * VISCOSITY * laplacian
        self.implicit = 1 + DT / 2 * VISCOSITY * laplacian
        x = np.arange(n) / n
        phase = 2 * np.pi * (x[:, None] + x)
        self.forcing = rfft2(0.1 * (np.sin(phase) + np.cos(phase)))
        self.w = rfft2(starts)

    def step(self) -> None:
        def physical(coefficients: np.ndarray) -> np.ndarray:
            return irfft2(coefficients, s=(self.n, self.n))

        stream = self.w * self.inverse
        advection = physical(self.dy * stream) * physical(self.dx * self.w)
        advection -= physical(self.dx * stream) * physical(self.dy * self.w)
        change = self.forcing - self.kept * rfft2(advection)
        self.w = (self.explicit * self.w + DT * change) / self.implicit

    def fields(self) -> np.ndarray:
        return irfft2(self.w, s=(self.n, self.n))


def relative_error(found: np.ndarray, truth: np.ndarray) -> float:
    """The largest over the fields."""
    return float(np.max(np.linalg.norm(found - truth, axis=(1, 2)) / np.linalg.norm(truth, axis=(1, 2))))


def compare(n: int, count: int) -> bool:
    steps = FORWARD.scales["paper"].options["steps"]
    starts = np.stack([random_vorticity(seed, n) for seed in range(count)])
    truth = forward(resample(starts, 2 * n), 10 * steps)[:, ::2, ::2]
    euler, euler_seconds, ours_seconds = CrankNicolsonEuler(starts), 0.0, []
    for _ in range(STRETCHES):
        began = time.perf_counter()
        for _ in range(STEPS // STRETCHES):
            euler.step()
        between = time.perf_counter()
        ours = forward(starts, steps)
        euler_seconds += between - began
        ours_seconds.append(time.perf_counter() - between)
    rows = [
        ("Crank-Nicolson / Euler", STEPS, euler_seconds / count, relative_error(euler.fields(), truth)),
        ("integrating factor RK4", steps, float(np.median(ours_seconds)) / count, relative_error(ours, truth)),
    ]
    for name, taken, seconds, error in rows:
        print(f"| {n}x{n} | {name} | {taken} | {seconds:.4f} | {rows[0][2] / seconds:.0f} | {error:.1e} |", flush=True)
    return rows[0][2] >= PROMISED * rows[1][2] and rows[1][3] <= rows[0][3]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--grid", type=int, nargs="+", default=[64, 128])
    parser.add_argument("--fields", type=int, default=8)
    options = parser.parse_args()
    print("| grid | scheme | steps | seconds per field | times faster | relative error |")
    print("|---|---|---|---|---|---|")
    kept = [compare(n, options.fields) for n in options.grid]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
