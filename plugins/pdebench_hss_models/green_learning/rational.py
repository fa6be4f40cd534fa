"""Rational activation of type (3, 2) with learned coefficients (Boulle, Nakatsukasa and Townsend 2020).

    r(x) = p(x) / q(x),   p(x) = p0 x^3 + p1 x^2 + p2 x + p3,   q(x) = q0 x^2 + q1 x + q2

It starts as the best approximation of ReLU of its type. With millions of pairs of points memory is the limit, so only
the input is kept for the backward pass, which computes the rest again,

    dr/dx = (p' - r q') / q,      dr/dp_k = x^(3-k) / q,      dr/dq_k = -r x^(2-k) / q.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

RELU_NUMERATOR = (1.1915, 1.5957, 0.5, 0.0218)
RELU_DENOMINATOR = (2.383, 0.0, 1.0)


class Rational(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.numerator = nn.Parameter(torch.tensor(RELU_NUMERATOR))
        self.denominator = nn.Parameter(torch.tensor(RELU_DENOMINATOR))

    def forward(self, x: Tensor) -> Tensor:
        return RationalFunction.apply(x, self.numerator, self.denominator)


class RationalFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, p: Tensor, q: Tensor) -> Tensor:
        ctx.save_for_backward(x, p, q)
        return polynomial(x, p).div_(polynomial(x, q))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, p, q = ctx.saved_tensors
        denominator = polynomial(x, q)
        r = polynomial(x, p).div_(denominator)
        slope_q = polynomial(x, q[:2] * q.new_tensor([2.0, 1.0])).mul_(r)  # r q'
        slope_p = polynomial(x, p[:3] * p.new_tensor([3.0, 2.0, 1.0]))  # p'
        g = torch.div(grad, denominator, out=denominator)
        grad_x = slope_p.sub_(slope_q).mul_(g)
        grad_q = moments_(r.mul_(g).neg_(), x, 2)
        grad_p = moments_(g, x, 3)
        return grad_x, grad_p, grad_q


def polynomial(x: Tensor, coefficients: Tensor) -> Tensor:
    """Horner's rule, highest power first; in place, as each temporary would cost as much as the sum."""
    value = (x * coefficients[0]).add_(coefficients[1])
    for c in coefficients[2:]:
        value.mul_(x).add_(c)
    return value


def moments_(weights: Tensor, x: Tensor, degree: int) -> Tensor:
    """The sums of weights * x^k for k = degree, ..., 0; destroys the weights."""
    sums = [weights.sum()]
    for _ in range(degree):
        sums.append(weights.mul_(x).sum())
    return torch.stack(sums[::-1])
