"""`hss_fit` in 1D: an HSS matrix fitted to pairs (f_i, u_i) without gradients. It shows what the structure alone gains.

Minimise  || A F - Y ||_F  over A in HSS(r), columns of F and Y being the samples. Two starts, both closed form:

1.  `sketch`: read the factors off the data, from the leaves up. Removing from Y_tau all that the leaf's own F_tau
    can explain leaves A(tau, rest) F_rest, whose column space is U_tau. That needs one side of A only; the row
    bases V would need products with A^T, which no data set has, so A is assumed to be self-adjoint: V = U.
    Samples needed: about leaf size + r, whatever the number of points (Levitt and Martinsson, Linear-complexity
    black-box randomized compression of rank-structured matrices; the paper's Theorem 2.3 rests on it).
2.  `compress`: the minimum-norm least-squares matrix, compressed. It needs about as many samples as points, or
    forcing from a small space, and assumes nothing about A.

`refine` then improves a start by alternating least squares over the factors; it does not keep A symmetric. Least
squares are cut off at small singular values, so that directions the data say nothing about get no weight (minimum
norm).

So with few samples the good start rests on two assumptions, the structure and self-adjointness. The option `symmetric`
separates them: true takes the first start, false the second, auto both. Which start, cut-off and refinement is
kept is decided on a quarter of the training samples. Nothing is random.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..matrix.algebra import from_dense
from ..matrix.factors import Factors, to_dense
from ..matrix.parameters import HSSMatrix
from .refine import join_rows, pseudo_solve, refine
from .zero import ThroughZero

if TYPE_CHECKING:
    from pdebench_hss import TaskInfo, TrainSet

CUTOFFS = (1e-12, 1e-9, 1e-6)


def sketch(f: Tensor, y: Tensor, levels: int, rank: int, cutoff: float) -> Factors:
    """Factors of a self-adjoint HSS matrix from ``f`` and ``y = A f``, both ``(points, samples)``."""
    nodes = 2**levels
    f, y = f.unflatten(0, (nodes, -1)), y.unflatten(0, (nodes, -1))  # (nodes, m, samples)
    ds, us = [], []
    for _ in range(levels):
        local = pseudo_solve(f, y, cutoff)  # the best a leaf can do alone: y ~ local f
        u, _, _ = torch.linalg.svd(y - local @ f, full_matrices=False)
        u = u[..., :rank]
        u = F.pad(u, (0, rank - u.shape[-1]))  # leaves smaller than the rank
        outside = local - u @ (u.mT @ local)  # (I - U U^T) D: the far field can't reach this part of y
        d = outside + u @ (u.mT @ outside.mT)  # and by symmetry D (I - U U^T); U^T D U goes to the parents
        f, y = join_rows(u.mT @ f), join_rows(u.mT @ (y - d @ f))  # (nodes / 2, 2r, samples)
        ds.append(d)
        us.append(u)
    return Factors((*ds, pseudo_solve(f, y, cutoff)), tuple(us), tuple(us))


def compress(f: Tensor, y: Tensor, levels: int, rank: int, cutoff: float) -> Factors:
    """The minimum-norm least-squares matrix of the pairs, compressed to HSS form."""
    return from_dense(pseudo_solve(f, y, cutoff), levels, rank=rank)


STARTS = {"true": (sketch,), "false": (compress,), "auto": (sketch, compress)}  # by the option `symmetric`


def fit_candidate(candidate: tuple, f: Tensor, y: Tensor, levels: int, rank: int, sweeps: int) -> Factors:
    start, cutoff, refined = candidate
    f, y = shorten(f, y)
    factors = start(f, y, levels, rank, cutoff)
    return refine(factors, f, y, sweeps, cutoff) if refined else factors


def fit_pairs(f: Tensor, y: Tensor, levels: int, rank: int, sweeps: int, symmetric: str = "auto") -> Factors:
    """The candidate that does best on samples it was not fitted to, fitted again to all of them."""
    starts = STARTS[symmetric]
    held = torch.arange(f.shape[1]) % 4 == 3  # spread out: pairs of rollout tasks are ordered in time
    if not held.any():
        return starts[-1](f, y, levels, rank, CUTOFFS[0])

    def error(candidate: tuple) -> float:
        a = to_dense(fit_candidate(candidate, f[:, ~held], y[:, ~held], levels, rank, sweeps))
        return torch.linalg.vector_norm(a @ f[:, held] - y[:, held]).nan_to_num(torch.inf).item()

    candidates = itertools.product(starts, CUTOFFS, (False, True))  # the last: refined or not
    return fit_candidate(min(candidates, key=error), f, y, levels, rank, sweeps)


def shorten(f: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """An equivalent least-squares problem with at most 2 x points columns: [F; Y] = L Q with orthonormal rows of Q."""
    pairs = torch.cat([f, y])
    if pairs.shape[1] <= pairs.shape[0]:
        return f, y
    lower = torch.linalg.qr(pairs.mT, mode="r").R.mT
    return lower[: f.shape[0]], lower[f.shape[0] :]


class HSSFit(ThroughZero):
    """A linear 1D task's map as one HSS matrix that fits itself; float64."""

    def __init__(self, task: TaskInfo, *, levels: int, rank: int, sweeps: int, symmetric: str = "auto") -> None:
        super().__init__()
        if symmetric not in STARTS:
            raise ValueError(f"hss_fit: symmetric={symmetric!r} is not one of true, false, auto")
        points = task.grid[0]
        self.sweeps, self.symmetric = sweeps, symmetric
        self.matrix = HSSMatrix(points, points, levels, rank).double()
        for block in self.matrix.parameters():
            nn.init.zeros_(block)

    @torch.no_grad()
    def fit(self, train: TrainSet) -> None:
        x, y = self.from_zero(train)
        rows, columns = self.matrix.factors().shape
        f, y = F.pad(x.mT, (0, 0, 0, columns - x.shape[-1])), F.pad(y.mT, (0, 0, 0, rows - y.shape[-1]))
        fitted = fit_pairs(f, y, self.matrix.levels, self.matrix.rank, self.sweeps, self.symmetric)
        for block, values in zip(self.matrix.factors().blocks, fitted.blocks, strict=True):
            block.copy_(values.unsqueeze(0))

    def linear(self, x: Tensor) -> Tensor:
        """The channel axis is the matrix's axis of one term."""
        return self.matrix(x)
