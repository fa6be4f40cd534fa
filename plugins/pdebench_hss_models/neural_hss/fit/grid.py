"""`hss_fit` in two and three dimensions: the paper's layer without its activation, fitted without gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..matrix.parameters import HSSMatrix
from ..matrix.tree import deepest, leaf_size
from .kronecker import apply_sum, fit_fields
from .zero import ThroughZero

if TYPE_CHECKING:
    from pdebench_hss import TaskInfo, TrainSet

MOST_UNKNOWNS = 4096  # of one least-squares problem, whose matrix is factorised for many nodes in every sweep


class HSSGridFit(ThroughZero):
    """A linear task's map as a sum of ``outer_rank`` products of HSS matrices, one for each axis; float64."""

    axes: Sequence[HSSMatrix]  # an nn.ModuleList, whose type has no element type

    def __init__(self, task: TaskInfo, *, levels: int, rank: int, outer_rank: int, sweeps: int) -> None:
        super().__init__()
        depths = [min(levels, deepest(n)) for n in task.grid]  # a short axis gets a shallower tree than a long one
        check_unknowns(max(map(leaf_size, task.grid, depths)), levels, rank, outer_rank)
        self.sweeps = sweeps
        matrices = [HSSMatrix(n, n, depth, rank, terms=outer_rank) for n, depth in zip(task.grid, depths, strict=True)]
        self.axes = cast(Sequence[HSSMatrix], nn.ModuleList(matrices).double())
        for block in self.parameters():
            nn.init.zeros_(block)

    @torch.no_grad()
    def fit(self, train: TrainSet) -> None:
        x, y = (self.padded(fields) for fields in self.from_zero(train))
        one = self.axes[0]
        depths = [weight.levels for weight in self.axes]
        fitted = fit_fields(x, y, depths, one.rank, one.terms, self.sweeps)
        for weight, found in zip(self.axes, fitted, strict=True):
            for block, values in zip(weight.factors().blocks, found.blocks, strict=True):
                block.zero_()[: len(values)] = values  # terms that the samples do not bear stay zero

    def coefficient_count(self) -> int:
        """The factors of the terms that are used."""
        used = int((self.axes[0].dense() != 0).flatten(1).any(1).sum())
        return used * sum(weight.factors().count // weight.terms for weight in self.axes)

    def padded(self, fields: Tensor) -> Tensor:
        """Zeros behind each axis, as many as its tree has more points."""
        missing = [weight.factors().shape[1] - weight.shape[1] for weight in self.axes]
        return F.pad(fields, [side for count in reversed(missing) for side in (0, count)])

    def linear(self, x: Tensor) -> Tensor:
        return apply_sum(x[:, 0], [weight.dense() for weight in self.axes]).unsqueeze(1)


def check_unknowns(leaf: int, levels: int, rank: int, terms: int) -> None:
    """Refuse what would take hours: the terms of a node are solved for together, by a dense factorisation."""
    if terms < 1:
        raise ValueError(f"hss_fit: outer_rank={terms} must be at least 1")
    middle = 6 * rank**2 if levels > 1 else 4 * rank**2 if levels else 0  # D and U, or the root's D
    unknowns = terms * max(leaf + rank if levels else leaf, leaf * rank if levels else 0, middle)
    if unknowns > MOST_UNKNOWNS:
        raise ValueError(
            f"hss_fit: outer_rank={terms}, rank={rank} and leaves of {leaf} points give least-squares problems of "
            f"{unknowns} unknowns, the most is {MOST_UNKNOWNS}; use fewer terms, a lower rank or more levels"
        )
