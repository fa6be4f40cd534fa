"""HSS maps of one kind in 1D, one after the other, with their activations, and the derivative of the whole:

    z_0 = x,      y_k = A_k z_{k-1},      z_k = LeakyReLU_{alpha_k}(y_k)  or  y_k,      k = 1 .. K

In 1D matrices are small, and time depends on the number of operations rather than on arithmetic. So all K maps are one
autograd function with the derivative written by hand: `sweep` applies A_k to z_{k-1} and A_k^T to the gradient of y_k,
and the gradient of alpha_k is the sum of dz_k y_k where y_k < 0. Blocks of all maps lie in the same tensors, so that
autograd and the optimiser have K times fewer of them, and `expand` builds the roots of all maps at once.

Fields are columns, ``(nodes, size, batch)``, from the first map to the last. Kept for the derivative are z_{k-1}, y_k
where there is a slope, and the coefficients of the sweeps, 4 r / m of a field.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from ..matrix.factors import Factors, transpose
from ..matrix.sweep import Coefficients, block_gradients, coefficients, product
from .activation import leaky_relu_gradients


class Kept(NamedTuple):
    """What a map keeps for its derivative: A, the coefficients of its sweep, and y and the slope if there is one."""

    a: Factors
    inner: Coefficients
    y: Tensor | None
    slope: float


def chain(z: Tensor, maps: Factors, slopes: Tensor, active: Sequence[bool]) -> Tensor:
    """``(batch, points) -> (batch, points)`` through square maps, whose matrices are the terms of ``maps``.

    ``slopes`` has one entry for each map that is ``active``, that is followed by LeakyReLU. Rows and columns beyond the
    points are padding.
    """
    return _Chain.apply(z, active, slopes, *maps.blocks)


class _Chain(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, active: Sequence[bool], slopes: Tensor, *blocks: Tensor) -> Tensor:
        x, kept, values = z.T, [], iter(slopes.tolist())
        for is_active, *of_map in zip(active, *(block.unbind(0) for block in blocks), strict=True):
            a = Factors.of(of_map)
            inner = coefficients(a, _columns(x, a))
            y = product(a, inner)
            slope = next(values) if is_active else 1.0
            kept.append(Kept(a, inner, y if is_active else None, slope))
            x = _points(F.leaky_relu(y, slope) if is_active else y, z.shape[1])
        ctx.kept = kept
        ctx.save_for_backward(slopes, *blocks)
        return x.T

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gz: Tensor) -> tuple[Tensor | None, ...]:
        _ = ctx.saved_tensors  # an error if a parameter was changed since
        g, by_map, alphas = gz.T, [], []
        for a, inner, y, slope in reversed(ctx.kept):
            at = transpose(a)
            p = _columns(g, at)
            if y is not None:
                p, alpha = leaky_relu_gradients(p.contiguous(), y, slope)
                alphas.append(alpha)
            back = coefficients(at, p)
            by_map.append(block_gradients(inner, back).blocks)
            if len(by_map) < len(ctx.kept) or ctx.needs_input_grad[0]:
                g = _points(product(at, back), gz.shape[1])
        blocks = (torch.stack(of_block[::-1]) for of_block in zip(*by_map, strict=True))
        slopes = torch.cat(alphas[::-1]) if alphas else None
        return g.T if ctx.needs_input_grad[0] else None, None, slopes, *blocks


def _columns(x: Tensor, a: Factors) -> Tensor:
    """``(points, batch) -> (nodes, size, batch)``, padded to the columns of A."""
    nodes, _, size = a.D[0].shape
    points, batch = x.shape
    if nodes * size > points:
        x = F.pad(x, (0, 0, 0, nodes * size - points))
    return x.view(nodes, size, batch)


def _points(y: Tensor, points: int) -> Tensor:
    """The inverse of `_columns`."""
    nodes, size, batch = y.shape
    y = y.view(nodes * size, batch)
    return y[:points] if nodes * size > points else y
