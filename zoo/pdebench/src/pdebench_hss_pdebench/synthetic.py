"""Small files in PDEBench's layouts, with the names of the real ones.

    python -m pdebench_hss_pdebench.synthetic DIR

For tests, and for trying ``--data-dir`` before the download is done. Where this package has a solver the samples are
its solutions; the others are random waves that move, which solve nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path

import h5py
import numpy as np

from . import advection, darcy, diffusion_reaction

SAMPLES = 12


def write_all(folder: Path, samples: int = SAMPLES) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    fields_1d, fields_2d = ("density", "pressure", "Vx"), ("density", "pressure", "Vx", "Vy")
    return [
        write_advection(folder / "1D_Advection_Sols_beta0.4.hdf5", samples),
        write_fields(folder / "1D_Burgers_Sols_Nu0.01.hdf5", ("tensor",), samples, (64,)),
        write_fields(folder / "ReacDiff_Nu0.5_Rho1.0.hdf5", ("tensor",), samples, (64,)),
        write_darcy(folder / "2D_DarcyFlow_beta1.0_Train.hdf5", samples),
        write_fields(folder / "1D_CFD_Rand_Eta0.01_Zeta0.01_periodic_Train.hdf5", fields_1d, samples, (64,)),
        write_fields(
            folder / "2D_CFD_Rand_M0.1_Eta0.01_Zeta0.01_periodic_128_Train.hdf5", fields_2d, samples, (32, 32)
        ),
        write_diffusion_reaction(folder / "2D_diff-react_NA_NA.h5", samples),
        write_groups(folder / "2D_rdb_NA_NA.h5", samples, (32, 32)),
        write_groups(folder / "1D_diff-sorp_NA_NA.h5", samples, (64,)),
    ]


def write_advection(path: Path, samples: int, points: int = 64, frames: int = 41, beta: float = 0.4) -> Path:
    times = advection.FRAME * np.arange(frames + 1)  # one more than there are frames, as in the real files
    with h5py.File(path, "w") as file:
        rows = [advection.trajectory(seed, points, times[:-1], beta) for seed in range(samples)]
        file["tensor"] = np.stack(rows).astype(np.float32)
        file["x-coordinate"] = ((np.arange(points) + 0.5) / points).astype(np.float32)
        file["t-coordinate"] = times.astype(np.float32)
    return path


def write_fields(path: Path, names: tuple[str, ...], samples: int, grid: tuple[int, ...], frames: int = 21) -> Path:
    with h5py.File(path, "w") as file:
        for channel, name in enumerate(names):
            rows = [moving_waves(len(names) * seed + channel, grid, frames) for seed in range(samples)]
            file[name] = np.stack(rows)
    return path


def write_groups(path: Path, samples: int, grid: tuple[int, ...], frames: int = 21) -> Path:
    with h5py.File(path, "w") as file:
        for seed in range(samples):
            file[f"{seed:04d}/data"] = moving_waves(seed, grid, frames)[..., None]
    return path


def moving_waves(seed: int, grid: tuple[int, ...], frames: int) -> np.ndarray:
    """2 + cos(2 pi (k.x - t / 100) + phase), (frames, *grid)."""
    rng = np.random.default_rng(seed)
    numbers, phase = rng.integers(1, 4, len(grid)), rng.uniform(0, 2 * np.pi)
    along = sum(k * axis for k, axis in zip(numbers, np.ix_(*(np.arange(n) / n for n in grid)), strict=True))
    times = 0.01 * np.arange(frames).reshape(-1, *(1 for _ in grid))
    return (2 + np.cos(2 * np.pi * (along - times) + phase)).astype(np.float32)


def write_darcy(path: Path, samples: int, points: int = 32, beta: float = 1.0) -> Path:
    a = np.stack([darcy.permeability(seed, points) for seed in range(samples)])
    with h5py.File(path, "w") as file:
        file["nu"] = a.astype(np.float32)
        file["tensor"] = np.stack([darcy.solve(one, beta) for one in a])[:, None].astype(np.float32)
        file["x-coordinate"] = file["y-coordinate"] = ((np.arange(points) + 0.5) / points).astype(np.float32)
    return path


def write_diffusion_reaction(path: Path, samples: int, points: int = 32, frames: int = 31) -> Path:
    """Frames every 0.05; between those that the reader takes, and before the first, they are left zero."""
    with h5py.File(path, "w") as file:
        for seed in range(samples):
            states = diffusion_reaction.trajectory(diffusion_reaction.start(seed, points), steps=(frames - 11) // 10)
            data = np.zeros((frames, points, points, 2), dtype=np.float32)
            data[10::10] = np.moveaxis(states, 1, -1)
            file[f"{seed:04d}/data"] = data
            file[f"{seed:04d}/grid/t"] = 0.05 * np.arange(frames, dtype=np.float32)
    return path


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m pdebench_hss_pdebench.synthetic DIR")
    for written in write_all(Path(sys.argv[1])):
        print(f"wrote {written}")
