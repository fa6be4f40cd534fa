"""The best symmetric linear map, in closed form: what self-adjointness buys without any other structure.

With inputs as rows of X (n x p) and outputs as rows of Y (n x p),

    W = argmin ||X W - Y||^2 + r ||W||^2    over  W = W^T,        X = U S V^T (thin SVD),  B = U^T Y.

Let P = I - V V^T project on what no input reaches, and write W = V K V^T + P C V^T + V C^T P + P M P. The residual is
||S K - B V||^2 + ||S C^T - B P||^2 + what U can't explain; M is not in it, so M = 0. C is free: row i of C^T is that of
B P times s_i / (s_i^2 + 2 r), the 2 because C stands in W twice. K is symmetric, and setting the derivative to zero is
a Sylvester equation whose matrices are diagonal, S^2 K + K S^2 + 2 r K = S B V + (B V)^T S, so

    K_ij = (s_i D_ij + s_j D_ji) / (s_i^2 + s_j^2 + 2 r),     D = B V.

Without symmetry K_ij would be D_ij / s_i: a direction that the data show faintly (small s_i) is known only as well as
that; with symmetry it is known through every direction j that they show well. And V C^T P answers for inputs outside
the span of the training inputs, about which plain least squares say nothing. No p x p matrix is formed.

The ridge is the candidate with the smallest error on a quarter of the training samples; then all samples are fitted.
Inputs and outputs are measured from the physical zero, which a linear PDE's operator fixes. Fields scaled by one number
stay the images of a symmetric map.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from pdebench_hss import TaskInfo

from .linear import physical_zero
from .ridge import RIDGES, check_memory, truncated_svd


class LinearSymmetric(nn.Module):
    """Fits itself: W = V K V^T + V C^T + C V^T, with C already projected."""

    zero_in: Tensor  # (p,): the flattened input that ...
    zero_out: Tensor  # (p,): ... maps to this output
    basis: Tensor  # V, (p, rank)
    inner: Tensor  # K, (rank, rank)
    outer: Tensor  # C, (p, rank)
    ridge: Tensor  # ()

    def __init__(self, task: TaskInfo) -> None:
        super().__init__()
        self.shape_out = (task.out_channels, *task.grid)
        p = math.prod(self.shape_out)
        shapes = {"zero_in": (p,), "zero_out": (p,), "basis": (p, 0), "inner": (0, 0), "outer": (p, 0), "ridge": ()}
        for name, shape in shapes.items():
            self.register_buffer(name, torch.zeros(shape, dtype=torch.float64))

    def fit(self, train: Any) -> None:
        x, y = train.inputs.flatten(1), train.outputs.flatten(1)  # (n, p) each
        check_memory(len(x), x.shape[1], y.shape[1])
        self.zero_in = physical_zero(train.normalizer.inputs, train.inputs)
        self.zero_out = physical_zero(train.normalizer.outputs, train.outputs)
        x, y = x - self.zero_in, y - self.zero_out
        self.ridge = held_out_ridge(x, y)
        self.basis, self.inner, self.outer = Fit(x, y).at(self.ridge)

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(1).to(self.basis.dtype) - self.zero_in  # (batch, p)
        y = apply(flat, self.basis, self.inner, self.outer) + self.zero_out
        return y.unflatten(1, self.shape_out).to(x.dtype)

    def coefficient_count(self) -> int:
        """Degrees of freedom of such a W: K, C, and the choice of V's span; p (p + 1) / 2 for rank p."""
        p, rank = self.basis.shape
        return rank * (rank + 1) // 2 + 2 * rank * (p - rank)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """The rank is known only after a fit: take the stored shapes (and order in memory, for the same rounding)."""
        for name in ("basis", "inner", "outer"):
            stored = state_dict.get(prefix + name)
            if stored is not None:
                current = getattr(self, name)
                setattr(self, name, torch.empty_like(stored, dtype=current.dtype, device=current.device))
        super()._load_from_state_dict(state_dict, prefix, *args)


def apply(x: Tensor, basis: Tensor, inner: Tensor, outer: Tensor) -> Tensor:
    """Rows of x times W: (m, p) -> (m, p)."""
    seen = x @ basis  # (m, rank)
    return (seen @ inner + x @ outer) @ basis.T + seen @ outer.T


class Fit:
    """What the fits of one training set share, whatever their ridge."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        u, self.s, self.basis = truncated_svd(x)
        projected = u.T @ y  # B, (rank, p)
        self.seen = projected @ self.basis  # D, (rank, rank)
        self.unseen = projected - self.seen @ self.basis.T  # B P, (rank, p)

    def at(self, ridge: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """V, K and C."""
        s, squares = self.s, self.s.square()
        pairs = s[:, None] * self.seen
        inner = (pairs + pairs.T) / (squares[:, None] + squares + 2 * ridge)
        outer = self.unseen.T * (s / (squares + 2 * ridge))  # (p, rank)
        return self.basis, inner, outer


def held_out_ridge(x: Tensor, y: Tensor) -> Tensor:
    """The candidate that predicts every fourth sample best when fitted to the others; 0 if there are too few."""
    held = torch.arange(len(x)) % 4 == 3  # spread out: pairs of rollout tasks come ordered in time
    if not held.any():
        return x.new_zeros(())
    fit = Fit(x[~held], y[~held])
    if fit.s.numel() == 0:
        return x.new_zeros(())
    ridges = fit.s[0] ** 2 * torch.tensor(RIDGES, dtype=x.dtype)
    errors = [(apply(x[held], *fit.at(ridge)) - y[held]).square().sum() for ridge in ridges]
    return ridges[torch.stack(errors).argmin()]
