"""One axis of a field times one matrix, and back: the steps that `modes` is made of.

A field has any shape and strides. None is copied to bring an axis into place:

    DenseStep   (.., d, ..) = (B, d, R) is a stack of B matrices multiplied from the left; where the axis is the last
                one, R = 1, it is one tall matrix (B, d) multiplied from the right
    TreeStep    (d, columns), the other axes being columns in the order in which they lie in memory; the result is a
                view of (e, columns). The field is copied only if the other axes are not contiguous.

Both are a `Step`. ``run`` and ``run_back`` can add to an earlier result inside their products.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from ..matrix.factors import Factors, transpose
from ..matrix.sweep import Coefficients, block_gradients, coefficients, product


class Step(Protocol):
    """What ``prepare`` and ``prepare_back`` return is opaque (`Any`) and passed back to the step."""

    def prepare(self, x: Tensor, /) -> Any: ...

    def run(self, prepared: Any, /, onto: Tensor | None = None) -> Tensor: ...

    def finish(self, y: Tensor, /) -> Tensor: ...

    def prepare_back(self, g: Tensor, /) -> Any: ...

    def block_gradients(self, prepared: Any, back: Any, /) -> Factors: ...

    def run_back(self, back: Any, /, onto: Tensor | None = None) -> Tensor: ...

    def finish_back(self, g: Tensor, /) -> Tensor: ...


class DenseStep:
    """A full matrix ``(e, d)``."""

    def __init__(self, a: Factors, axis: int, shape: torch.Size, out: int) -> None:
        self.weight = a.D[0][0]
        before, after = shape[:axis], shape[axis + 1 :]
        self.inn = (*before, shape[axis], *after)
        self.out = (*before, out, *after)
        self.stack = (before.numel(), -1, after.numel()) if after else (before.numel(), -1)

    def prepare(self, x: Tensor) -> Tensor:
        return x.reshape(self.stack)

    def run(self, x: Tensor, onto: Tensor | None = None) -> Tensor:
        return self._multiply(x, self.weight, onto)

    def finish(self, y: Tensor) -> Tensor:
        return y.view(self.out)

    def block_gradients(self, x: Tensor, g: Tensor) -> Factors:
        gw = torch.mm(g.T, x) if x.dim() == 2 else torch.bmm(g, x.mT).sum(0)
        return Factors((gw.unsqueeze(0),), (), ())

    def run_back(self, g: Tensor, onto: Tensor | None = None) -> Tensor:
        return self._multiply(g, self.weight.T, onto)

    def finish_back(self, g: Tensor) -> Tensor:
        return g.view(self.inn)

    prepare_back = prepare

    @staticmethod
    def _multiply(x: Tensor, w: Tensor, onto: Tensor | None) -> Tensor:
        if x.dim() == 2:
            return torch.mm(x, w.T) if onto is None else onto.addmm_(x, w.T)
        w = w.expand(x.shape[0], -1, -1)
        return torch.bmm(w, x) if onto is None else onto.baddbmm_(w, x)


class TreeStep:
    """An HSS matrix in telescopic form, padded inside to what its leaves hold."""

    def __init__(self, a: Factors, axis: int, shape: torch.Size, out: int) -> None:
        self.a, self.axis, self.shape, self.out = a, axis, shape, out
        self.order: tuple[int, ...] = ()  # of the field's axes in memory, this one taken to the front

    def prepare(self, x: Tensor) -> Coefficients:
        others = [i for i in range(x.dim()) if i != self.axis]
        self.order = (self.axis, *sorted(others, key=x.stride, reverse=True))
        return coefficients(self.a, self._columns(x, self.a.shape[1]))

    def run(self, c: Coefficients, onto: Tensor | None = None) -> Tensor:
        return product(self.a, c, onto)

    def finish(self, y: Tensor) -> Tensor:
        return self._field(y, self.out)

    def prepare_back(self, g: Tensor) -> Coefficients:
        return coefficients(transpose(self.a), self._columns(g, self.a.shape[0]))

    def block_gradients(self, c: Coefficients, back: Coefficients) -> Factors:
        return block_gradients(c, back)

    def run_back(self, back: Coefficients, onto: Tensor | None = None) -> Tensor:
        return product(transpose(self.a), back, onto)

    def finish_back(self, g: Tensor) -> Tensor:
        return self._field(g, self.shape[self.axis])

    def _columns(self, x: Tensor, padded: int) -> Tensor:
        """``(nodes, size, columns)``"""
        x = x.permute(self.order).reshape(x.shape[self.axis], -1)
        if padded > x.shape[0]:
            x = F.pad(x, (0, 0, 0, padded - x.shape[0]))
        return x.unflatten(0, (self.a.D[0].shape[0], -1))

    def _field(self, y: Tensor, points: int) -> Tensor:
        y = y.flatten(0, 1)[:points].view(points, *(self.shape[i] for i in self.order[1:]))
        back = sorted(range(len(self.order)), key=self.order.__getitem__)
        return y.permute(back)
