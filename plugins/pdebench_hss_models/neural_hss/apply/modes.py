"""The m-dimensional HSS map and its derivative:  Y = sum_k Z x_1 A_1^(k) x_2 ... x_m A_m^(k)  (Section 2.1).

Axes are contracted one after the other, the last one first, for one k at a time. The last step adds to Y inside its
matrix product, and that is the sum over k; the gradient of Z is summed in the same way.

Memory: Z is all that is kept for the derivative; in 1D the coefficients of the tree too (4 r / m of Z or so). The
fields between two axes are computed again, one term at a time, so that neither pass ever holds more than m of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..matrix.factors import Factors
from .steps import DenseStep, Step, TreeStep


def modal_sum(z: Tensor, axes: Sequence[Factors], points: Sequence[int]) -> Tensor:
    """``z (batch, d_1 .. d_m)`` and r_out matrices for each axis -> ``(batch, *points)``.

    Trees may have more rows and columns than there are points: the rest is padding, see `HSSMatrix`.
    """
    axes = add_dense_terms(axes)
    return _ModalSum.apply(z, points, [a.levels for a in axes], *(block for a in axes for block in a.blocks))


def add_dense_terms(axes: Sequence[Factors]) -> Sequence[Factors]:
    """In 1D a sum of dense matrices is a dense matrix."""
    if len(axes) == 1 and axes[0].levels == 0:
        return [Factors((axes[0].D[0].sum(0, keepdim=True),), (), ())]
    return axes


class _ModalSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, points: Sequence[int], levels: Sequence[int], *blocks: Tensor) -> Tensor:
        y: Tensor | None = None
        kept = []
        for k in range(blocks[0].shape[0]):
            *before, last = steps = steps_of_term(k, blocks, levels, z.shape, points)
            x = z
            for step in before:
                x = step.finish(step.run(step.prepare(x)))
            ready = last.prepare(x)
            y = last.run(ready, onto=y)
            if not before:
                kept.append((steps, [ready]))
        ctx.points, ctx.levels, ctx.kept = points, levels, kept
        ctx.save_for_backward(z, *blocks)
        assert y is not None  # there is at least one term
        return last.finish(y)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gy: Tensor) -> tuple[Tensor | None, ...]:
        z, *blocks = ctx.saved_tensors
        gz, by_term = None, []
        for k in range(blocks[0].shape[0]):
            steps, ready = (
                ctx.kept[k] if ctx.kept else replay(steps_of_term(k, blocks, ctx.levels, z.shape, ctx.points), z)
            )
            g, gradients = gy, []
            for step, x in zip(reversed(steps), reversed(ready), strict=True):
                back = step.prepare_back(g)
                gradients.append(step.block_gradients(x, back))
                if step is not steps[0]:
                    g = step.finish_back(step.run_back(back))
                elif ctx.needs_input_grad[0]:
                    gz = step.run_back(back, onto=gz)
            by_term.append([block for of_axis in gradients for block in of_axis.blocks])
        gz = None if gz is None else steps[0].finish_back(gz)
        return gz, None, None, *(_stack(of_block) for of_block in zip(*by_term, strict=True))


def steps_of_term(
    k: int, blocks: Sequence[Tensor], levels: Sequence[int], shape: torch.Size, points: Sequence[int]
) -> list[Step]:
    """The products of term k in the order in which they are done: last axis first."""
    steps: list[Step] = []
    end, sizes = len(blocks), list(shape)
    for axis in reversed(range(1, len(sizes))):
        start = end - 3 * levels[axis - 1] - 1
        a = Factors.of([block[k] for block in blocks[start:end]])
        steps.append((TreeStep if a.levels else DenseStep)(a, axis, torch.Size(sizes), points[axis - 1]))
        end, sizes[axis] = start, points[axis - 1]
    return steps


def replay(steps: list[Step], x: Tensor) -> tuple[list[Step], list[Any]]:
    """What each step had prepared in the forward pass."""
    ready = []
    for step in steps:
        ready.append(step.prepare(x))
        if step is not steps[-1]:
            x = step.finish(step.run(ready[-1]))
    return steps, ready


def _stack(terms: tuple[Tensor, ...]) -> Tensor:
    return torch.stack(terms) if len(terms) > 1 else terms[0].unsqueeze(0)
