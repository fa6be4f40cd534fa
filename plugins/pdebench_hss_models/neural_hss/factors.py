"""The telescopic factors of HSS matrices and two ways to use them (Definition 2.1, Algorithm 1).

    A = D^(L) + U^(L) A^(L-1) V^(L)^T          D, U, V block diagonal over the nodes of one level,

where A^(L-1) is of the same kind on the parents, down to A^(0) = D^(0), the root. All blocks of a level lie in
one tensor, so that a level is one batched product and nothing loops over nodes.

Any number of matrices can be stacked in front ("terms"): tensors are ``(*terms, nodes, rows, columns)``.
A further way to apply the same factors is a further function beside `apply_tree` and `to_dense`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Factors:
    """Blocks by level, leaves first: ``D`` has one entry more than ``U`` and ``V`` (the root has only D).

    D[i]  (*terms, 2^(L-i), s_i, s_i)      leaves may be rectangular
    U[i]  (*terms, 2^(L-i), s_i, r_i)      V[i] alike
    """

    D: tuple[Tensor, ...]
    U: tuple[Tensor, ...]
    V: tuple[Tensor, ...]

    @classmethod
    def of(cls, blocks: Sequence[Tensor]) -> Factors:
        """From one list, as `blocks` gives it."""
        levels = len(blocks) // 3
        return cls(
            tuple(blocks[: levels + 1]), tuple(blocks[levels + 1 : 2 * levels + 1]), tuple(blocks[2 * levels + 1 :])
        )

    @property
    def blocks(self) -> tuple[Tensor, ...]:
        return (*self.D, *self.U, *self.V)

    @property
    def levels(self) -> int:
        return len(self.D) - 1

    @property
    def rank(self) -> int:
        """The largest rank of any level; 0 for a tree that is its root."""
        return max((u.shape[-1] for u in self.U), default=0)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix, padding included."""
        nodes, rows, columns = self.D[0].shape[-3:]
        return nodes * rows, nodes * columns

    @property
    def count(self) -> int:
        """Stored numbers."""
        return sum(block.numel() for block in self.blocks)


def join_siblings(z: Tensor) -> Tensor:
    """Coefficients of the nodes of a level, ``(..., 2p, r)``, as vectors of their parents, ``(..., p, 2r)``."""
    return z.unflatten(-2, (-1, 2)).flatten(-2)


def split_siblings(z: Tensor) -> Tensor:
    """The inverse of `join_siblings`."""
    return z.unflatten(-1, (2, -1)).flatten(-3, -2)


def pair_diagonal(blocks: Tensor) -> Tensor:
    """Blocks of siblings, ``(2p, i, j)``, on the diagonals of their parents' blocks, ``(p, 2i, 2j)``."""
    left, right = blocks[0::2], blocks[1::2]
    zero = torch.zeros_like(left)
    return torch.cat([torch.cat([left, zero], -1), torch.cat([zero, right], -1)], -2)


def apply_tree(factors: Factors, x: Tensor) -> Tensor:
    """A x along the last axis in O(d r): Algorithm 1, up the tree with V, down with D and U.

    x  (..., *terms, columns)  ->  (..., *terms, rows); a term axis of length 1 is shared by all terms.
    """
    nodes = factors.D[0].shape[-3]
    inputs = [x.unflatten(-1, (nodes, -1))]  # (..., nodes, m)
    for v in factors.V:
        compressed = torch.einsum("...nsr,...ns->...nr", v, inputs[-1])
        inputs.append(join_siblings(compressed))  # (..., nodes / 2, 2r)

    y = torch.einsum("...nij,...nj->...ni", factors.D[-1], inputs[-1])
    for d, u, z in zip(reversed(factors.D[:-1]), reversed(factors.U), reversed(inputs[:-1])):
        y = torch.einsum("...nsr,...nr->...ns", u, split_siblings(y)) + torch.einsum("...nij,...nj->...ni", d, z)
    return y.flatten(-2)


def to_dense(factors: Factors) -> Tensor:
    """The matrices themselves, ``(*terms, rows, columns)``; differentiable."""
    a = factors.D[-1].squeeze(-3)
    for d, u, v in zip(reversed(factors.D[:-1]), reversed(factors.U), reversed(factors.V)):
        nodes, rank = u.shape[-3], u.shape[-1]
        a = a.unflatten(-1, (nodes, rank)).unflatten(-3, (nodes, rank))  # (..., nodes, r, nodes, r)
        a = torch.einsum("...pir,...prqs->...piqs", u, a)
        a = torch.einsum("...piqs,...qjs->...piqj", a, v)
        a.diagonal(dim1=-4, dim2=-2).add_(d.movedim(-3, -1))
        a = a.flatten(-4, -3).flatten(-2)
    return a
