"""How fast is the Gray-Scott solver, next to ETDRK4 as one would first write it in numpy?

    OMP_NUM_THREADS=1 python benchmarks/gray_scott.py

Both advance the same trajectories, in turns within one process, and their results are compared. The plain solver is
timed one trajectory at a time and in a batch; the faster counts, and its coefficients are computed before the
clock starts. Then one process per core generates at once, as `pdebench-hss data generate` does, and the time for the
paper's 1,200 trajectories is projected from that.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import lru_cache
from multiprocessing import get_context

import numpy as np
from pdebench_hss_tasks.gray_scott.etdrk4 import BLOCK_POINTS, solve
from pdebench_hss_tasks.gray_scott.samples import DIFFUSION, PATTERNS
from pdebench_hss_tasks.gray_scott.starts import FAMILIES, start

BATCH = 8
STEPS = 40
ROUNDS = 7
PAPER_TRAJECTORIES, PAPER_STEPS = 1200, 10_000
PUBLISHED_HOURS, PUBLISHED_CORES = 33, 40


@lru_cache(maxsize=2)
def plain_coefficients(n: int, dt: float, diffusion: tuple[float, float]) -> list[np.ndarray]:
    """E', E, Q, F1, F2, F3, each (2, n, n), by means over whole circles; zero where both wave numbers are high."""
    wave = np.fft.fftfreq(n) * n
    squared = np.pi**2 * np.add.outer(wave**2, wave**2)
    z = -dt * np.multiply.outer(np.array(diffusion), squared)  # (2, n, n)
    sums = [np.zeros(z.shape, complex) for _ in range(4)]
    points = 64
    for root in np.exp(2j * np.pi * (np.arange(points) + 0.5) / points):
        w = z + root
        sums[0] += (np.exp(w / 2) - 1) / w
        sums[1] += (-4 - w + np.exp(w) * (4 - 3 * w + w * w)) / w**3
        sums[2] += (2 + w + np.exp(w) * (-2 + w)) / w**3
        sums[3] += (-4 - 3 * w - w * w + np.exp(w) * (4 - w)) / w**3
    high = np.abs(wave) >= n / 3
    kept = ~np.logical_and.outer(high, high)
    return [kept * c for c in (np.exp(z / 2), np.exp(z), *(dt * (s / points).real for s in sums))]


def plain_solve(
    fields: np.ndarray, feed: np.ndarray, kill: np.ndarray, dt: float, steps: int, diffusion: tuple[float, float]
) -> np.ndarray:
    """(batch, 2, n, n) after ``steps`` steps: complex transforms, rates in physical space, new arrays throughout."""
    half, full, q, f1, f2, f3 = plain_coefficients(fields.shape[-1], dt, diffusion)
    f, k = (np.asarray(value)[:, None, None] for value in (feed, kill))

    def rate(spectrum: np.ndarray) -> np.ndarray:
        a, b = np.moveaxis(np.fft.ifft2(spectrum).real, 1, 0)
        return np.fft.fft2(np.stack([-a * b**2 + f * (1 - a), a * b**2 - (f + k) * b], axis=1))

    u = np.fft.fft2(fields)
    for _ in range(steps):
        n_u = rate(u)
        a = half * u + q * n_u
        n_a = rate(a)
        b = half * u + q * n_a
        n_b = rate(b)
        c = half * a + q * (2 * n_b - n_u)
        u = full * u + f1 * n_u + 2 * f2 * (n_a + n_b) + f3 * rate(c)
    return np.fft.ifft2(u).real


def plain_one_by_one(fields: np.ndarray, feed: np.ndarray, kill: np.ndarray, *rest: object) -> np.ndarray:
    return np.concatenate(
        [plain_solve(fields[i : i + 1], feed[i : i + 1], kill[i : i + 1], *rest) for i in range(len(fields))]  # type: ignore[arg-type]
    )


def problem(n: int) -> tuple:
    """The arguments of a solver: starts at the paper's mesh width, one step."""
    patch = n / 128
    pairs = list(PATTERNS.values())
    chosen = [pairs[i % len(pairs)] for i in range(BATCH)]
    fields = np.stack([start(FAMILIES[i % 2], i, *pair, n, patch) for i, pair in enumerate(chosen)])
    feed, kill = np.array(chosen).T
    return fields, feed, kill, 1.0, STEPS, (DIFFUSION[0] / patch**2, DIFFUSION[1] / patch**2)


def compare(n: int) -> None:
    arguments = problem(n)
    solvers: dict[str, Callable[..., np.ndarray]] = {
        "plain, one by one": plain_one_by_one,
        f"plain, batch of {BATCH}": plain_solve,
        "this package": solve,
    }
    results = {name: solver(*arguments) for name, solver in solvers.items()}  # also warms up
    times: dict[str, list[float]] = {name: [] for name in solvers}
    for _ in range(ROUNDS):
        for name, solver in solvers.items():
            begin = time.perf_counter()
            solver(*arguments)
            times[name].append(1e3 * (time.perf_counter() - begin) / (BATCH * STEPS))
    ours = np.median(times["this package"])
    plain = min(np.median(values) for name, values in times.items() if name != "this package")
    print(f"\n{n} x {n}, {BATCH} trajectories, {STEPS} steps, blocks of {max(1, BLOCK_POINTS // n**2)}")
    for name, values in times.items():
        difference = np.abs(results[name] - results["this package"]).max()
        print(f"  {name:22s} {np.median(values):7.3f} ms per step and trajectory   largest difference {difference:.1e}")
    print(f"  {plain / ours:.1f} times faster than the faster plain one (asked for: 2)")


def one_worker(_: int) -> float:
    arguments = problem(128)
    begin = time.perf_counter()
    solve(*arguments)
    return time.perf_counter() - begin


def project() -> None:
    workers = os.cpu_count() or 1
    with get_context("spawn").Pool(workers) as pool:
        pool.map(one_worker, range(workers))  # warm-up
        seconds = float(np.mean(pool.map(one_worker, range(workers), chunksize=1)))
    per_step = seconds / (BATCH * STEPS)
    hours = per_step * PAPER_TRAJECTORIES * PAPER_STEPS / workers / 3600
    print(f"\n{workers} processes at once: {1e3 * per_step:.2f} ms per step and trajectory in each")
    print(f"{PAPER_TRAJECTORIES:,} trajectories of {PAPER_STEPS:,} steps: {hours:.1f} hours on {workers} cores, "
          f"{hours * workers:.1f} core hours")  # fmt: skip
    published = PUBLISHED_HOURS * PUBLISHED_CORES
    print(f"published: {PUBLISHED_HOURS} hours on {PUBLISHED_CORES} cores, {published:,} core hours (another machine)")


if __name__ == "__main__":
    for points in (64, 128):
        compare(points)
    project()
