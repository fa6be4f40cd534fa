"""How fast is the 3D Poisson solver, next to the sparse direct solve that the paper describes?

    OMP_NUM_THREADS=1 python benchmarks/poisson_3d.py                  # everything; needs 8 GB of disk
    OMP_NUM_THREADS=1 python benchmarks/poisson_3d.py --samples 32     # fewer samples in the streaming part

1. Both solve the same nineteen-point system with the same right-hand side, in turns within one process, on growing
   grids until the sparse factorisation would take longer than --limit seconds; their results are compared. "sparse" is
   a whole direct solve (SuperLU with the fill-reducing order that suits it best); "factors kept" is only its triangular
   solves, what a further sample costs. Beyond the limit the sparse column is extrapolated from its growth and marked ~.
2. The time to generate one sample of the task at the paper's 128^3.
3. The paper's 256 + 200 samples streamed to one HDF5 file by a fresh process, and that process's peak memory.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import h5py
import numpy as np
import scipy.sparse as sparse
from pdebench_hss_tasks.poisson import POISSON_3D, box, dirichlet
from scipy.sparse.linalg import SuperLU, splu

SIZES = (8, 16, 24, 32, 40, 48, 64, 96, 128)
ROUNDS = 3
CHUNK = 8


def nineteen_points(n: int) -> tuple[sparse.csc_array, sparse.csc_array]:
    """The stencil and its right-hand side on the interior points, assembled without the solver's help."""
    one = sparse.eye_array(n - 1)
    lam = sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n - 1, n - 1))

    def product(*factors: sparse.sparray) -> sparse.sparray:
        return sparse.kron(sparse.kron(factors[0], factors[1]), factors[2])

    total = product(lam, one, one) + product(one, lam, one) + product(one, one, lam)
    cross = product(lam, lam, one) + product(one, lam, lam) + product(lam, one, lam)
    right = sparse.eye_array((n - 1) ** 3) - total / 12
    return sparse.csc_array(n**2 * (total - cross / 6)), sparse.csc_array(right)


def seconds(function: Callable[..., object], *arguments: object) -> float:
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


def best(function: Callable[..., object], *arguments: object) -> float:
    return min(seconds(function, *arguments) for _ in range(ROUNDS))


def random_forcing(n: int) -> np.ndarray:
    """``(1, n, n, n)``, zero on the boundary."""
    return box.synthesize(np.random.default_rng(0).uniform(size=(1, *(min(n - 1, 20),) * 3)), (n, n, n))


def sparse_solve(stencil: sparse.csc_array, rhs: np.ndarray) -> tuple[np.ndarray, SuperLU]:
    factors = splu(stencil, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    return factors.solve(rhs), factors


def in_turns(n: int) -> tuple[float, float, float, float]:
    """Seconds of the fast solve, of the sparse one, of its triangular solves alone; relative difference of results."""
    f = random_forcing(n)
    stencil, right = nineteen_points(n)
    rhs = right @ f[0, 1:, 1:, 1:].ravel()
    start = time.perf_counter()
    expected, factors = sparse_solve(stencil, rhs)
    whole = time.perf_counter() - start
    pairs = [(seconds(box.solve, f), seconds(factors.solve, rhs)) for _ in range(ROUNDS)]
    fast, kept = np.min(pairs, axis=0)
    found = box.solve(f)[0, 1:, 1:, 1:].ravel()
    return fast, whole, kept, float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def compare(limit: float) -> None:
    header = ("grid", "unknowns", "fast s", "sparse s", "ratio", "factors kept s", "ratio", "difference")
    print("{:>6} {:>9} {:>9} {:>10} {:>9} {:>15} {:>7} {:>11}".format(*header))
    last, power, predicted = (0, 0.0), 6.0, 0.0  # the sparse solve: largest size so far, growth as a power of n
    for n in SIZES:
        if last[0]:
            predicted = last[1] * (n / last[0]) ** power
        if predicted > limit:
            fast = best(box.solve, random_forcing(n))
            print(f"{n:>4}^3 {(n - 1) ** 3:>9} {fast:>9.4f} {f'~{predicted:.0f}':>10} {f'~{predicted / fast:.0f}':>9}")
            continue
        fast, whole, kept, difference = in_turns(n)
        print(
            f"{n:>4}^3 {(n - 1) ** 3:>9} {fast:>9.4f} {whole:>10.3f} {whole / fast:>9.0f} {kept:>15.4f} "
            f"{kept / fast:>7.1f} {difference:>11.1e}"
        )
        if last[0] >= 16:  # smaller ones are mostly overhead
            power = float(np.log(whole / last[1]) / np.log(n / last[0]))
        last = (n, whole)
    print(f"the sparse solve grew like n^{power:.1f} at the end; ~ is extrapolated from that")


def one_sample() -> None:
    size = POISSON_3D.scales["paper"]
    print(f"one sample of 128^3, forcing and solution: {best(dirichlet.generate_3d, [0], size):.3f} s")


def stream(path: Path, samples: int) -> tuple[float, float]:
    """Write that many samples, a few at a time; seconds and the peak memory of this process in MB."""
    size = POISSON_3D.scales["paper"]
    start = time.perf_counter()
    with h5py.File(path, "w") as file:
        shape = (samples, 1, *size.grid)
        sets = [file.create_dataset(name, shape, "float32", chunks=(1, *shape[1:])) for name in ("inputs", "outputs")]
        for first in range(0, samples, CHUNK):
            seeds = range(first, min(first + CHUNK, samples))
            for dataset, fields in zip(sets, dirichlet.generate_3d(seeds, size), strict=True):
                dataset[first : seeds.stop] = fields
    return time.perf_counter() - start, peak_memory()


def peak_memory() -> float:
    """MB. From /proc where there is one: ru_maxrss also remembers the process that started this one."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure_streaming(samples: int, folder: Path | None) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        path = Path(temporary) / "poisson_3d.h5"
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            duration, megabytes = pool.submit(stream, path, samples).result()
        size = path.stat().st_size / 1e9
    print(
        f"{samples} samples streamed to disk ({size:.2f} GB): {duration:.1f} s, {duration / samples:.3f} s a sample, "
        f"peak memory {megabytes:.0f} MB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=456, help="samples of the streaming part")
    parser.add_argument("--limit", type=float, default=100, help="longest sparse solve to try, in seconds")
    parser.add_argument("--folder", type=Path, help="where the streaming part may write")
    arguments = parser.parse_args()
    compare(arguments.limit)
    one_sample()
    measure_streaming(arguments.samples, arguments.folder)


if __name__ == "__main__":
    main()
