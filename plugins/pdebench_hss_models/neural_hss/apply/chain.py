"""HSS maps in 1D, one after the other, with their activations, and the derivative of the whole:

    z_0 = x,      y_k = A_k z_{k-1},      z_k = LeakyReLU_{alpha_k}(y_k)  or  y_k,      k = 1 .. K

In 1D matrices are small, and time goes into the number of operations rather than into arithmetic. So all K maps are one
function to autograd, and its derivative is written down: `sweep` takes A_k over z_{k-1} and A_k^T over the gradient of
y_k, and the gradient of alpha_k is the sum of dz_k y_k where y_k < 0.

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


class Link(NamedTuple):
    """One map: a matrix (with a terms axis of 1 in front), its rows without padding, the slope of what follows."""

    a: Factors
    rows: int
    slope: Tensor | None


class Kept(NamedTuple):
    """What a link keeps for its derivative; ``columns`` without padding, ``y`` if there is a slope."""

    a: Factors
    inner: Coefficients
    columns: int
    y: Tensor | None
    slope: float


def chain(z: Tensor, links: Sequence[Link]) -> Tensor:
    """``(batch, columns of the first link) -> (batch, rows of the last)``"""
    sizes = [(len(link.a.blocks), link.rows) for link in links]
    return _Chain.apply(z, sizes, *(tensor for link in links for tensor in (*link.a.blocks, link.slope)))


class _Chain(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, sizes: list[tuple[int, int]], *tensors: Tensor | None) -> Tensor:
        x, kept, start = z.T, [], 0
        for count, rows in sizes:
            a, alpha = Factors.of([block[0] for block in tensors[start : start + count]]), tensors[start + count]
            inner = coefficients(a, _columns(x, a))
            y = product(a, inner)
            slope = 1.0 if alpha is None else alpha.item()
            kept.append(Kept(a, inner, x.shape[0], None if alpha is None else y, slope))
            x = _points(y if alpha is None else F.leaky_relu(y, slope), rows)
            start += count + 1
        ctx.kept = kept
        ctx.save_for_backward(*tensors)
        return x.T

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gz: Tensor) -> tuple[Tensor | None, ...]:
        _ = ctx.saved_tensors  # an error if a parameter was changed since
        g, gradients = gz.T, []
        for link in reversed(ctx.kept):
            at, alpha = transpose(link.a), None
            p = _columns(g, at)
            if link.y is not None:
                p, alpha = leaky_relu_gradients(p, link.y, link.slope)
            back = coefficients(at, p)
            blocks = block_gradients(link.inner, back).blocks
            gradients.append((*(block.unsqueeze(0) for block in blocks), alpha))
            if link is not ctx.kept[0] or ctx.needs_input_grad[0]:
                g = _points(product(at, back), link.columns)
        gz = g.T if ctx.needs_input_grad[0] else None
        return gz, None, *(gradient for of_link in reversed(gradients) for gradient in of_link)


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
