"""HSS maps of one kind in 1D, one after the other, with their activations, and the derivative of the whole:

    z_0 = x,      y_k = A_k z_{k-1},      z_k = LeakyReLU_{alpha_k}(y_k)  or  y_k,      k = 1 .. K

In 1D matrices are small, and time goes into the number of operations rather than into arithmetic. So all K maps are one
function to autograd with the derivative written down: the sweep of `sweep` takes A_k over z_{k-1} and A_k^T over the
gradient of y_k, and the gradient of alpha_k is the sum of dz_k y_k where y_k < 0. Blocks of all maps lie in the same
tensors, which leaves autograd and the optimiser K times fewer of them, and so do their gradients, each written where it
belongs. `expand` builds the roots of all maps at once.

Fields are columns, ``(nodes, size, batch)``, from the first map to the last. z_k takes the place of y_k in memory, as a
positive slope lets y_k be found again. Kept for the derivative are z_{k-1} and the coefficients of the sweeps, 4 r / m
of a field.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from ..matrix.factors import Factors, transpose
from ..matrix.sweep import times
from .activation import gradients_from_result, leaky_relu_gradients, recoverable


class Stack(NamedTuple):
    """The blocks of all maps: by level, then by map. Taken apart once, since a view costs as much as a small sum."""

    D: list[tuple[Tensor, ...]]  # (nodes, size, size) each
    U: list[tuple[Tensor, ...]]  # (nodes, size, r)
    Vt: list[tuple[Tensor, ...]]  # (nodes, r, size)
    nodes: list[int]  # of each level

    @classmethod
    def of(cls, a: Factors) -> Stack:
        d, u, vt = ([block.unbind(0) for block in of] for of in (a.D, a.U, [v.mT for v in a.V]))
        return cls(d, u, vt, [block.shape[1] for block in a.D])


class Swept(NamedTuple):
    """What the sweep of a map leaves at the levels: ``up[i]`` is z_i (``up[0]`` the input), ``down[i]`` is y_{i+1}."""

    up: list[Tensor]
    down: list[Tensor]


class Activation(NamedTuple):
    slope: float
    result: Tensor | None  # the next map keeps it anyway
    argument: Tensor | None  # only where the result does not determine it


def chain(z: Tensor, maps: Factors, slopes: Tensor, active: Sequence[bool]) -> Tensor:
    """``(batch, points) -> (batch, points)`` through square maps, whose matrices are the terms of ``maps``.

    ``slopes`` has one entry for each map that is ``active``, that is followed by LeakyReLU. Rows and columns beyond the
    points are padding.
    """
    return _Chain.apply(z, active, slopes, *maps.blocks)


class _Chain(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, active: Sequence[bool], slopes: Tensor, *blocks: Tensor) -> Tensor:
        a, x = Factors.of(blocks), turned(z)  # (points, batch)
        stack, kept, values = Stack.of(a), [], iter(slopes.tolist())
        for k, is_active in enumerate(active):
            swept = sweep(stack, k, columns(x, a))
            y, activation = product(stack, k, swept), None  # (nodes, size, batch)
            if is_active:
                y, activation = activated(y, next(values))
            kept.append((swept, activation))
            x = points(y, z.shape[1])
        ctx.kept = kept
        ctx.save_for_backward(slopes, *blocks)
        return turned(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gz: Tensor) -> tuple[Tensor | None, ...]:
        slopes, *blocks = ctx.saved_tensors  # an error if a parameter was changed since
        a, g = Factors.of(blocks), turned(gz)  # (points, batch)
        stack, gradients, alphas = Stack.of(transpose(a)), Gradients(a), []
        for k in reversed(range(len(ctx.kept))):
            swept, activation = ctx.kept[k]
            p = columns(g, a)  # (nodes, size, batch)
            if activation is not None:
                p, alpha = through_activation(p, activation)
                alphas.append(alpha)
            back = sweep(stack, k, p)
            gradients.write(k, swept, back)
            if k or ctx.needs_input_grad[0]:
                g = points(product(stack, k, back), gz.shape[1])
        g_slopes = slopes.new_tensor(alphas[::-1]) if alphas else None
        return turned(g) if ctx.needs_input_grad[0] else None, None, g_slopes, *gradients.blocks()


def sweep(a: Stack, k: int, x: Tensor) -> Swept:
    """Map k over ``x (nodes, size, batch)``, without the last and largest step."""
    batch, up = x.shape[-1], [x]
    down: list[Tensor] = []
    for vt, parents in zip(a.Vt, a.nodes[1:], strict=True):
        up.append(times(vt[k], up[-1]).view(parents, -1, batch))  # siblings joined: (nodes / 2, 2r, batch)
    for i in reversed(range(1, len(a.D))):
        y = times(a.D[i][k], up[i])
        if down:
            y = times(a.U[i][k], down[-1], onto=y)
        down.append(y.view(a.nodes[i - 1], -1, batch))  # and parted again: (2 nodes, r, batch)
    return Swept(up, down[::-1])


def product(a: Stack, k: int, c: Swept) -> Tensor:
    """The last step: ``(nodes, size, batch)``"""
    y = times(a.D[0][k], c.up[0])
    return times(a.U[0][k], c.down[0], onto=y) if c.down else y


class Gradients:
    """Of the blocks of all maps. Those of U and V are written transposed: BLAS is quick with the short side first."""

    def __init__(self, a: Factors) -> None:
        self.D = [block.new_empty(block.shape) for block in a.D]
        # In one piece, or BLAS would be called node by node: empty_like keeps the order of a transposed tensor.
        self.Ut, self.Vt = ([block.new_empty(block.mT.shape) for block in of] for of in (a.U, a.V))
        self._parts = [[room.unbind(0) for room in rooms] for rooms in (self.D, self.Ut, self.Vt)]

    def write(self, k: int, forward: Swept, back: Swept) -> None:
        """Those of map k: dD = p z^T, dU = p y^T, dV = z q^T at each level."""
        d, u, v = self._parts
        for room, p, z in zip(d, back.up, forward.up, strict=True):
            torch.bmm(p, z.mT, out=room[k])
        for room, y, p in zip(u, forward.down, back.up, strict=False):
            torch.bmm(y, p.mT, out=room[k])
        for room, q, z in zip(v, back.down, forward.up, strict=False):
            torch.bmm(q, z.mT, out=room[k])

    def blocks(self) -> list[Tensor]:
        return [*self.D, *(u.mT for u in self.Ut), *(v.mT for v in self.Vt)]


def activated(y: Tensor, slope: float) -> tuple[Tensor, Activation]:
    """In the memory of ``y`` if the result determines it."""
    if recoverable(slope):
        F.leaky_relu_(y, slope)
        return y, Activation(slope, result=y, argument=None)
    return F.leaky_relu(y, slope), Activation(slope, result=None, argument=y)


def through_activation(g: Tensor, activation: Activation) -> tuple[Tensor, float]:
    """The gradients of the argument and of the slope."""
    slope, result, argument = activation
    if argument is None:
        assert result is not None
        return gradients_from_result(g, result, slope)
    gx, g_slope = leaky_relu_gradients(g, argument, slope)
    return gx, g_slope.item()


def turned(x: Tensor) -> Tensor:
    """The transpose in its own memory: slim blocks times a field that lies across take much longer."""
    return x.t().contiguous()


def columns(x: Tensor, a: Factors) -> Tensor:
    """``(points, batch) -> (nodes, size, batch)``, padded to the columns of A."""
    _, nodes, _, size = a.D[0].shape
    n, batch = x.shape
    if nodes * size > n:
        x = F.pad(x, (0, 0, 0, nodes * size - n))
    return x.view(nodes, size, batch)


def points(y: Tensor, n: int) -> Tensor:
    """The inverse of `columns`."""
    nodes, size, batch = y.shape
    y = y.view(nodes * size, batch)
    return y[:n] if nodes * size > n else y
