"""Sizes in a balanced cluster tree (Definition 2.1 of the paper). No torch: specs and counts use it too.

A tree of depth L over d indices has 2^L leaves of m = d / 2^L indices. In telescopic storage a matrix of
HSS rank r keeps

    leaves     2^L blocks     D  m x m      U, V  m x r
    level l    2^l blocks     D  2r x 2r    U, V  2r x r        l = L-1, ..., 1
    root       one block      D  2r x 2r

and for L = 0 the root D is the whole d x d matrix. Where 2^L does not divide d, the leaves hold
m = ceil(d / 2^L) indices and the last ones are padding. A rectangular matrix has leaves of m_out x m_in.
"""

from __future__ import annotations


def leaf_size(points: int, levels: int) -> int:
    """Indices per leaf, padding included."""
    return -(-points // 2**levels)


def deepest(points: int) -> int:
    """The largest depth that still leaves an index in each leaf."""
    return points.bit_length() - 1


def check_tree(points: int, levels: int, rank: int) -> None:
    """Refuse a tree that can't exist."""
    if levels < 0 or levels > deepest(points):
        raise ValueError(f"levels={levels} is outside 0..{deepest(points)}: {points} points fill no more leaves")
    if rank < 1:
        raise ValueError(f"rank={rank} must be at least 1")


def levels_for(points: int, leaf: int) -> int:
    """The depth, at least 1, that brings leaves nearest to (and not below) ``leaf`` points."""
    levels = 1
    while leaf_size(points, levels + 1) >= leaf:
        levels += 1
    return min(levels, deepest(points))


def count_parameters(points: int, levels: int, rank: int, in_points: int | None = None) -> int:
    """T(d, L, r): the numbers stored for one HSS matrix of ``points`` rows (and ``in_points`` columns)."""
    in_points = points if in_points is None else in_points
    rows, columns = leaf_size(points, levels), leaf_size(in_points, levels)
    leaves = 2**levels * rows * columns  # D
    if levels == 0:
        return leaves
    leaves += 2**levels * (rows + columns) * rank  # U and V
    inner = sum(2**level * ((2 * rank) ** 2 + 2 * (2 * rank * rank)) for level in range(1, levels))
    root = (2 * rank) ** 2
    return leaves + inner + root
