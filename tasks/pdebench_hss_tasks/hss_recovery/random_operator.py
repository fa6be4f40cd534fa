"""A random self-adjoint HSS matrix (Definition 2.1) applied to standard Gaussian vectors.

    A_L = D_L + U_L A_{L-1} U_L^T,   ...,   A_0 = D_0

D_l is block diagonal over the 2^l nodes of level l with random symmetric blocks, U_l has a random orthonormal basis of
``rank`` columns per node, and A_{l-1} acts on the parents, whose 2 x rank coefficients are those of their two children.
Blocks are scaled like Wigner matrices (norm about 2), so that no level drowns another.

The theorem asks for an inverse G^{-1} in HSS(r, T); self-adjoint as that of a symmetric elliptic operator is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pdebench_hss import Scale, seed_from


def generate(seeds: Sequence[int], size: Scale, rank: int, levels: int, operator: int) -> tuple[np.ndarray, np.ndarray]:
    """(samples, 1, points) Gaussian vectors and their images."""
    (points,) = size.grid
    matrix = random_hss(points, levels, rank, operator)
    inputs = np.stack([np.random.default_rng(seed).standard_normal(points) for seed in seeds])
    return inputs[:, None], (inputs @ matrix)[:, None]  # A is symmetric


def random_hss(points: int, levels: int, rank: int, operator: int) -> np.ndarray:
    """The matrix number ``operator`` of this size, depth and rank."""
    leaf, rest = divmod(points, 2**levels)
    if levels < 1 or rest or not 1 <= rank <= leaf:
        raise ValueError(
            f"no HSS matrix with {points} points, levels={levels}, rank={rank}: 2^levels must divide the points, "
            f"and the rank must be between 1 and the leaf size (points / 2^levels)"
        )
    rng = np.random.default_rng(seed_from("hss_recovery", points, levels, rank, operator))
    matrix = _symmetric(rng, 2 * rank)  # the root sees 2 x rank coefficients
    for level in range(1, levels + 1):
        height = leaf if level == levels else 2 * rank
        bases = [np.linalg.qr(rng.standard_normal((height, rank)))[0] for _ in range(2**level)]
        basis = _block_diagonal(bases)  # (2^l height, 2^l rank)
        matrix = _block_diagonal([_symmetric(rng, height) for _ in bases]) + basis @ matrix @ basis.T
    return matrix


def _symmetric(rng: np.random.Generator, n: int) -> np.ndarray:
    square = rng.standard_normal((n, n))
    return (square + square.T) / math.sqrt(2 * n)


def _block_diagonal(blocks: Sequence[np.ndarray]) -> np.ndarray:
    height, width = blocks[0].shape
    whole = np.zeros((len(blocks), height, len(blocks), width))
    for i, block in enumerate(blocks):
        whole[i, :, i] = block
    return whole.reshape(len(blocks) * height, len(blocks) * width)
