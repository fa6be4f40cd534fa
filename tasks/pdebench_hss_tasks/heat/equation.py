"""Heat equation (Neural-HSS, "Data Specification", Heat Equation).

    u_t = D u_xx on (0, 1),   u(0, t) = u(1, t) = 0,   D = 0.0002
    u(x, 0) = 2 sum_{k=1}^{10} c_k sin(k pi x),   c_k ~ U(0, 1),   scaled so that max |u(x, 0)| = 1

Space: second differences on `points` equispaced points, both ends included (h = 1/1023 in the paper). Time: that
system of ODEs is diagonal in the sine basis, so it is solved exactly, amplitude by amplitude,

    b_k(t) = exp(-D lam_k t) b_k(0),

where the paper runs BDF at rtol 1e-4. Nothing is lost in going to the grid that models see: ten sines are
evaluated there, both ends included, whether or not its points are among those of the finer grid.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pdebench_hss import Scale

from .sine import amplitudes, second_difference, values

DIFFUSIVITY = 2e-4
MODES = 10
COARSENING = 4  # each level of the classical solver has a quarter of the points of the one before


def initial_modes(seed: int, points: int) -> np.ndarray:
    """Amplitudes of one start, (MODES,), with maximum modulus 1 on the grid of the solve."""
    modes = 2 * np.random.default_rng(seed).uniform(0, 1, MODES)
    return modes / np.abs(values(modes, points - 1)).max()


def diffuse(modes: np.ndarray, points: int, times: np.ndarray) -> np.ndarray:
    """Amplitudes at the times, (n, modes) -> (n, times, modes), of the second-difference scheme on `points`.

    Modes that the scheme's grid can't hold are zero.
    """
    count = min(modes.shape[-1], points - 2)
    rates = DIFFUSIVITY * second_difference(points - 1, count)
    evolved = np.zeros((len(modes), len(times), modes.shape[-1]))
    evolved[..., :count] = modes[:, None, :count] * np.exp(-rates * times[:, None])
    return evolved


def generate(seeds: Sequence[int], size: Scale) -> tuple[np.ndarray, np.ndarray]:
    """Starts (n, 1, grid) and the frames after them (n, steps, 1, grid)."""
    points = size.options["points"]
    modes = np.stack([initial_modes(seed, points) for seed in seeds])  # (n, MODES)
    return _on_grid(modes, size), _on_grid(diffuse(modes, points, _times(size)), size)


def coarse(inputs: np.ndarray, level: int, size: Scale) -> np.ndarray:
    """The same scheme with a quarter of the points per level: (n, 1, grid) -> (n, steps, 1, grid)."""
    modes = amplitudes(np.asarray(inputs, dtype=np.float64)[:, 0, 1:-1])
    return _on_grid(diffuse(modes, size.options["points"] // COARSENING**level, _times(size)), size)


def residual(inputs: np.ndarray, outputs: np.ndarray, size: Scale) -> tuple[np.ndarray, np.ndarray]:
    """What each step leaves of the equation, solved exactly over a step, and its rate of change at the start.

    (b_k(t + dt) - exp(-D (k pi)^2 dt) b_k(t)) / dt, (n, steps, modes), and D (k pi)^2 b_k(0), (n, modes). The data
    follow second differences on a fine grid, so their residual is the error of those.
    """
    start, after = inputs[:, None, 0, 1:-1], outputs[:, :, 0, 1:-1]  # (n, 1, points), (n, steps, points)
    modes = amplitudes(np.concatenate([start, after], axis=1))  # (n, steps + 1, modes)
    rates = DIFFUSIVITY * (np.pi * np.arange(1, modes.shape[-1] + 1)) ** 2
    step = _times(size)[0]
    return (modes[:, 1:] - np.exp(-rates * step) * modes[:, :-1]) / step, rates * modes[:, 0]


def _times(size: Scale) -> np.ndarray:
    step = size.options["frame"] * size.options["stride"]
    return step * np.arange(1, size.steps + 1)


def _on_grid(modes: np.ndarray, size: Scale) -> np.ndarray:
    """The sine series on the grid of the task, with one channel: (..., modes) -> (..., 1, grid)."""
    field = np.zeros((*modes.shape[:-1], 1, size.grid[0]))
    field[..., 0, 1:-1] = values(modes, size.grid[0] - 1)
    return field
