"""The random forcings, as sine coefficients: f(x) = sum_k a_k sin(k_1 pi x_1) sin(k_2 pi x_2) ...

Each function returns ``(samples, *modes)`` for `box.synthesize`; sample i depends on ``seeds[i]`` alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def even_sines(seeds: Sequence[int], dim: int, modes: int) -> np.ndarray:
    """The paper's forcing in 1D and 2D: sum over k = 1..modes of c_k sin(2 pi k x), c_k ~ U(0, 1).

    Note the factor 2: only every second sine mode occurs, so f is odd about the middle of the box, and it
    lives in a space of ``modes ** dim`` dimensions only.
    """
    coefficients = np.zeros((len(seeds), *(2 * modes,) * dim))
    every_second = (slice(1, None, 2),) * dim
    for i, seed in enumerate(seeds):
        coefficients[(i, *every_second)] = np.random.default_rng(seed).uniform(size=(modes,) * dim)
    return coefficients
