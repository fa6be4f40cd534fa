"""Muon (Jordan et al. 2024): the momentum of a weight matrix is made orthogonal before it is subtracted.

    M <- beta M + G,      W <- W - lr sqrt(max(1, rows / columns)) O,      O ~ U V^T  for  G + beta M = U S V^T

so every direction of a matrix learns at one rate, whatever the size of its gradient. U V^T comes from five steps of

    X <- a X + (b A + c A^2) X,     A = X X^T,     (a, b, c) = (3.4445, -4.7750, 2.0315)

which brings singular values from (0, 1] to about 1 (0.7 to 1.2), with products of matrices only. Weights that are not
matrices (biases) take Adam's step. Weights of more than two axes are matrices of their first axis and the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
TURNS = 5


class Muon(torch.optim.Optimizer):
    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float = 2e-2,
        adam_lr: float = 1e-3,
        momentum: float = 0.95,
        betas: tuple[float, float] = (0.9, 0.99),
    ) -> None:
        parameters = list(parameters)
        groups: list[dict[str, Any]] = [
            {"params": [p for p in parameters if p.ndim >= 2], "lr": lr, "matrices": True},
            {"params": [p for p in parameters if p.ndim < 2], "lr": adam_lr, "matrices": False},
        ]
        super().__init__([group for group in groups if group["params"]], {"momentum": momentum, "betas": betas})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:
        if closure is not None:
            raise ValueError("Muon needs no closure")
        for group in self.param_groups:
            change = self._orthogonal if group["matrices"] else self._adam
            for p in group["params"]:
                if p.grad is not None:
                    p.sub_(group["lr"] * change(p, group))

    def _orthogonal(self, p: nn.Parameter, group: dict[str, Any]) -> Tensor:
        state, beta = self.state[p], group["momentum"]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(p)
        state["momentum"].mul_(beta).add_(p.grad)
        looked_ahead = p.grad.add(state["momentum"], alpha=beta).flatten(1)  # (rows, columns), as Nesterov's
        rows, columns = looked_ahead.shape
        return (max(1.0, rows / columns) ** 0.5 * orthogonalised(looked_ahead)).view_as(p)

    def _adam(self, p: nn.Parameter, group: dict[str, Any]) -> Tensor:
        state, (one, two) = self.state[p], group["betas"]
        if "step" not in state:
            state.update(step=torch.zeros(()), mean=torch.zeros_like(p), square=torch.zeros_like(p))
        state["step"] += 1
        state["mean"].lerp_(p.grad, 1 - one)
        state["square"].lerp_(p.grad.square(), 1 - two)
        count = state["step"].item()
        mean, square = state["mean"] / (1 - one**count), state["square"] / (1 - two**count)
        return mean / (square.sqrt() + 1e-8)


def orthogonalised(matrix: Tensor) -> Tensor:
    """U V^T of a matrix U S V^T, to a few tenths."""
    a, b, c = COEFFICIENTS
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if tall else matrix  # the smaller product
    x = x / (x.norm() + 1e-7)  # Frobenius: singular values are at most 1
    for _ in range(TURNS):
        squares = x @ x.T
        x = a * x + (b * squares + c * squares @ squares) @ x
    return x.T if tall else x
