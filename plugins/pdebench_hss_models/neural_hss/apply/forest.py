"""The m-dimensional HSS map of `modes` with all terms in each product, for a GPU, where starting a product costs most.

    Y = sum_k Z x_1 A_1^(k) x_2 ... x_m A_m^(k)

The trees of k = 1 .. r_out on one axis are a forest: their nodes, one tree's after the other's, are the nodes of one
sweep (see `sweep`, which does not care how many roots there are). So a layer starts as many products as one term has,
instead of r_out times as many. Fields get an axis of terms in front, which the last axis' step sums over:

    (1, batch, d_1 .. d_m)  ->  (terms, batch, d_1 .., e_j, ..)  ->  sum over terms: (batch, *points)

The price is memory, r_out fields between two axes, so terms are processed in groups of at most `GROUP_BYTES`. Values
differ from those of `modes` by rounding: sums over terms are done in another order. CPUs use `modes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from ..matrix.factors import Factors, transpose
from ..matrix.sweep import Coefficients, block_gradients, coefficients, product
from .modes import add_dense_terms

GROUP_BYTES = 2**28  # bytes of the largest field between two axes, with its terms


def forest_sum(z: Tensor, axes: Sequence[Factors], points: Sequence[int]) -> Tensor:
    """``z (batch, d_1 .. d_m)`` and r_out matrices for each axis -> ``(batch, *points)``, as `modes.modal_sum`."""
    axes = add_dense_terms(axes)
    terms = axes[0].D[0].shape[0]
    group = max(1, min(terms, GROUP_BYTES // max(1, largest_field(z, points))))
    y: Tensor | None = None
    for start in range(0, terms, group):
        blocks = [block[start : start + group] for a in axes for block in a.blocks]
        part = _ForestSum.apply(z, points, [a.levels for a in axes], *blocks)
        y = part if y is None else y + part
    assert y is not None  # there is at least one term
    return y


def largest_field(z: Tensor, points: Sequence[int]) -> int:
    """Bytes of the largest intermediate field of one term."""
    shape, sizes = list(z.shape), [z.numel()]
    for axis in reversed(range(1, z.dim())):
        shape[axis] = points[axis - 1]
        sizes.append(torch.Size(shape).numel())
    return max(sizes) * z.itemsize


class _ForestSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, points: Sequence[int], levels: Sequence[int], *blocks: Tensor) -> Tensor:
        ctx.points, ctx.levels = points, levels
        ctx.save_for_backward(z, *blocks)
        x = z.unsqueeze(0)
        for step in steps_of(blocks, levels, points):
            x = step.run(step.prepare(x))
        return x.sum(0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gy: Tensor) -> tuple[Tensor | None, ...]:
        z, *blocks = ctx.saved_tensors
        steps, x, ready = steps_of(blocks, ctx.levels, ctx.points), z.unsqueeze(0), []
        for step in steps:  # computed again: only z was kept
            ready.append(step.prepare(x))
            x = step.run(ready[-1]) if step is not steps[-1] else x
        g, gradients = gy.unsqueeze(0), []
        for step, kept in zip(reversed(steps), reversed(ready), strict=True):
            back = step.prepare_back(g)
            gradients += step.block_gradients(kept, back)
            if step is not steps[0] or ctx.needs_input_grad[0]:
                g = step.run_back(back)
        return (g.sum(0) if ctx.needs_input_grad[0] else None), None, None, *gradients


def steps_of(blocks: Sequence[Tensor], levels: Sequence[int], points: Sequence[int]) -> list[ForestStep]:
    """One for each axis, the last first."""
    steps, end = [], len(blocks)
    for axis in reversed(range(len(points))):
        start = end - 3 * levels[axis] - 1
        steps.append(ForestStep(Factors.of(list(blocks[start:end])), axis + 2, points[axis]))
        end = start
    return steps


class ForestStep:
    """One axis of ``(terms or 1, batch, ..)`` times the matrices of all terms."""

    def __init__(self, a: Factors, axis: int, out: int) -> None:
        self.terms, self.nodes = a.D[0].shape[:2]
        self.shapes = [block.shape for block in a.blocks]
        self.padded = a.shape
        self.a = Factors.of([block.flatten(0, 1) for block in a.blocks])  # (terms nodes, ..)
        self.axis, self.out = axis, out
        self.fields: torch.Size | None = None

    def prepare(self, x: Tensor) -> Coefficients:
        self.fields = x.shape
        return coefficients(self.a, self._columns(x, self.padded[1]))

    def run(self, c: Coefficients) -> Tensor:
        return self._field(product(self.a, c), self.out)

    def prepare_back(self, g: Tensor) -> Coefficients:
        return coefficients(transpose(self.a), self._columns(g, self.padded[0]))

    def run_back(self, back: Coefficients) -> Tensor:
        assert self.fields is not None
        return self._field(product(transpose(self.a), back), self.fields[self.axis])

    def block_gradients(self, c: Coefficients, back: Coefficients) -> list[Tensor]:
        return [block.view(shape) for block, shape in zip(block_gradients(c, back).blocks, self.shapes, strict=True)]

    def _columns(self, x: Tensor, padded: int) -> Tensor:
        """``(terms nodes, size, columns)``, the other axes being columns."""
        x = x.movedim(self.axis, 1).flatten(2)  # (terms or 1, d, columns)
        if padded > x.shape[1]:
            x = F.pad(x, (0, 0, 0, padded - x.shape[1]))
        return x.expand(self.terms, -1, -1).reshape(self.terms * self.nodes, -1, x.shape[-1])

    def _field(self, y: Tensor, points: int) -> Tensor:
        """``(terms, batch, ..)`` with ``points`` along the axis."""
        assert self.fields is not None
        others = [n for i, n in enumerate(self.fields) if i not in (0, self.axis)]
        y = y.view(self.terms, -1, y.shape[-1])[:, :points]
        return y.unflatten(2, others).movedim(1, self.axis)
