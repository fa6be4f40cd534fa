"""The telescopic factors of HSS matrices (Definition 2.1).

    A = D^(L) + U^(L) A^(L-1) V^(L)^T          D, U, V block diagonal over the nodes of one level,

where A^(L-1) is of the same kind on the parents, down to A^(0) = D^(0), the root. All blocks of a level lie in
one tensor, so that a level is one batched product and nothing loops over nodes.

Any number of matrices can be stacked in front ("terms"): tensors are ``(*terms, nodes, rows, columns)``.
`sweep` multiplies by them, `expand` multiplies some of them out.
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


def transpose(a: Factors) -> Factors:
    return Factors(tuple(d.mT for d in a.D), a.V, a.U)


def pair_diagonal(blocks: Tensor) -> Tensor:
    """Blocks of siblings, ``(.., 2p, i, j)``, on the diagonals of their parents' blocks, ``(.., p, 2i, 2j)``."""
    left, right = blocks[..., 0::2, :, :], blocks[..., 1::2, :, :]
    zero = torch.zeros_like(left)
    return torch.cat([torch.cat([left, zero], -1), torch.cat([zero, right], -1)], -2)


def to_dense(factors: Factors) -> Tensor:
    """The matrices themselves, ``(*terms, rows, columns)``; differentiable."""
    a = factors.D[-1].squeeze(-3)
    for d, u, v in zip(reversed(factors.D[:-1]), reversed(factors.U), reversed(factors.V), strict=True):
        nodes, rank = u.shape[-3], u.shape[-1]
        a = a.unflatten(-1, (nodes, rank)).unflatten(-3, (nodes, rank))  # (..., nodes, r, nodes, r)
        a = torch.einsum("...pir,...prqs->...piqs", u, a)
        a = torch.einsum("...piqs,...qjs->...piqj", a, v)
        a.diagonal(dim1=-4, dim2=-2).add_(d.movedim(-3, -1))
        a = a.flatten(-4, -3).flatten(-2)
    return a
