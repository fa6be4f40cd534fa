"""The best linear map from inputs to outputs, in closed form (the algebra is in `ridge`).

Where the PDE is linear its solution operator fixes zero, so inputs and outputs are measured from the physical zero and
few samples go far: n samples of a forcing with n degrees of freedom determine the operator. Elsewhere they are
measured from the training mean, i.e. the fit has an intercept.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from pdebench_hss import TaskInfo

from .ridge import check_memory, choose_ridge, truncated_svd


class Linear(nn.Module):
    """Fits itself: minimum-norm ridge regression with the ridge chosen by leave-one-out."""

    zero_in: Tensor  # (p,): the flattened input that ...
    zero_out: Tensor  # (q,): ... maps to this output
    basis: Tensor  # (p, rank)
    coefficients: Tensor  # (rank, q)
    ridge: Tensor  # ()

    def __init__(self, task: TaskInfo) -> None:
        super().__init__()
        self.through_zero = task.linear
        self.shape_out = (task.out_channels, *task.grid)
        points = math.prod(task.grid)
        p, q = task.in_channels * points, task.out_channels * points
        shapes = {"zero_in": (p,), "zero_out": (q,), "basis": (p, 0), "coefficients": (0, q), "ridge": ()}
        for name, shape in shapes.items():
            self.register_buffer(name, torch.zeros(shape, dtype=torch.float64))

    def fit(self, train: Any) -> None:
        x, y = train.inputs.flatten(1), train.outputs.flatten(1)  # (n, p), (n, q)
        check_memory(len(x), x.shape[1], y.shape[1])
        if self.through_zero:
            self.zero_in = physical_zero(train.normalizer.inputs, train.inputs)
            self.zero_out = physical_zero(train.normalizer.outputs, train.outputs)
        else:
            self.zero_in, self.zero_out = x.mean(dim=0), y.mean(dim=0)
        u, s, self.basis = truncated_svd(x - self.zero_in)
        y = y - self.zero_out
        self.ridge = choose_ridge(u, s, y, intercept=not self.through_zero)
        self.coefficients = (u * (s / (s**2 + self.ridge))).T @ y

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(1).to(self.basis.dtype) - self.zero_in  # (batch, p)
        y = flat @ self.basis @ self.coefficients + self.zero_out  # (batch, q)
        return y.unflatten(1, self.shape_out).to(x.dtype)

    def coefficient_count(self) -> int:
        """Degrees of freedom of a p x q matrix of this rank, p q if it is full, and of the intercept."""
        rank, p, q = self.basis.shape[1], len(self.zero_in), len(self.zero_out)
        return rank * (p + q - rank) + (0 if self.through_zero else q)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """The rank is known only after a fit: take the stored shapes (and order in memory, for the same rounding)."""
        for name in ("basis", "coefficients"):
            stored = state_dict.get(prefix + name)
            if stored is not None:
                current = getattr(self, name)
                setattr(self, name, torch.empty_like(stored, dtype=current.dtype, device=current.device))
        super()._load_from_state_dict(state_dict, prefix, *args)


def physical_zero(units: Any, fields: Tensor) -> Tensor:
    """The normalised field that is zero in physical units, flattened: -shift / scale per channel."""
    value = -torch.as_tensor(units.shift) / torch.as_tensor(units.scale)
    per_channel = value.to(fields).reshape(-1, *(1,) * (fields.dim() - 2))  # (channels, 1, ...)
    return per_channel.expand(fields.shape[1:]).flatten()
