"""The best linear map from inputs to outputs, in closed form.

With the training inputs as rows of X (n x p) and the outputs as rows of Y (n x q), ridge regression

    W(r) = argmin ||X W - Y||^2 + r ||W||^2,      X = U S V^T  (thin SVD)
         = V diag(s / (s^2 + r)) U^T Y            r -> 0: minimum-norm least squares

never needs a p x p or n x n matrix beyond min(n, p): W is kept as the pair V (p x rank), diag(..) U^T Y (rank x q).
Singular values below max(n, p) eps s_max are rounding, not data, and are dropped. The ridge r is the one with the
smallest leave-one-out error on the training set, for which

    y_i - (prediction of y_i by a fit without i) = [(K + r I)^-1 Y]_i / [(K + r I)^-1]_ii,      K = X X^T

is exact (Allen's PRESS); r = 0 is one of the candidates. Where the PDE is linear the map fixes zero, so X and Y
are measured from the physical zero; elsewhere from the training mean, i.e. the fit has an intercept.
"""

from __future__ import annotations

import math
import os
from typing import Any

import torch
from torch import Tensor, nn

from pdebench_hss import TaskInfo

RIDGES = (0.0, *(10.0**k for k in range(-20, 3)))  # relative to the largest eigenvalue of K


class Linear(nn.Module):
    """Fits itself: minimum-norm ridge regression with the ridge chosen by leave-one-out."""

    zero_in: Tensor  # (in_channels, *grid) or broadcastable: the input that ...
    zero_out: Tensor  # ... maps to this output
    basis: Tensor  # (p, rank)
    coefficients: Tensor  # (rank, q)
    ridge: Tensor  # ()

    def __init__(self, task: TaskInfo) -> None:
        super().__init__()
        self.through_zero = task.linear
        self.shape_out = (task.out_channels, *task.grid)
        points = math.prod(task.grid)
        p, q = task.in_channels * points, task.out_channels * points
        for name, shape in {
            "zero_in": (p,),
            "zero_out": (q,),
            "basis": (p, 0),
            "coefficients": (0, q),
        }.items():
            self.register_buffer(name, torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("ridge", torch.zeros((), dtype=torch.float64))

    def fit(self, train: Any) -> None:
        x, y = train.inputs.flatten(1), train.outputs.flatten(1)  # (n, p), (n, q)
        check_memory(len(x), x.shape[1], y.shape[1])
        if self.through_zero:
            self.zero_in = physical_zero(train.normalizer.inputs, train.inputs)
            self.zero_out = physical_zero(train.normalizer.outputs, train.outputs)
        else:
            self.zero_in, self.zero_out = x.mean(dim=0), y.mean(dim=0)
        u, s, vt = truncated_svd(x - self.zero_in)
        y = y - self.zero_out
        self.ridge = choose_ridge(u, s, y, intercept=not self.through_zero)
        self.basis = vt.T  # (p, rank)
        self.coefficients = (s / (s**2 + self.ridge))[:, None] * (u.T @ y)  # (rank, q)

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(1).to(self.basis.dtype) - self.zero_in  # (batch, p)
        y = flat @ self.basis @ self.coefficients + self.zero_out  # (batch, q)
        return y.unflatten(1, self.shape_out).to(x.dtype)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """The rank is known only after a fit: take the stored shapes."""
        for name in ("basis", "coefficients"):
            stored = state_dict.get(prefix + name)
            if stored is not None:
                setattr(self, name, getattr(self, name).new_empty(stored.shape))
        super()._load_from_state_dict(state_dict, prefix, *args)


def physical_zero(units: Any, fields: Tensor) -> Tensor:
    """The normalised field that is zero in physical units, flattened: -shift / scale per channel."""
    value = -torch.as_tensor(units.shift) / torch.as_tensor(units.scale)
    per_channel = value.to(fields).reshape(-1, *(1,) * (fields.dim() - 2))  # (channels, 1, ...)
    return per_channel.expand(fields.shape[1:]).flatten()


def truncated_svd(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Thin SVD without the singular values that are rounding errors of the largest."""
    u, s, vt = torch.linalg.svd(x, full_matrices=False)
    tolerance = max(x.shape) * torch.finfo(x.dtype).eps * s[0]
    rank = int((s > tolerance).sum())
    return u[:, :rank], s[:rank], vt[:rank]


def choose_ridge(u: Tensor, s: Tensor, y: Tensor, intercept: bool) -> Tensor:
    """The candidate with the smallest sum of squared leave-one-out errors."""
    if s.numel() == 0:
        return y.new_zeros(())
    if y.shape[1] > y.shape[0]:
        y = torch.linalg.qr(y.T, mode="r").R.T  # (n, n): the same lengths of row combinations, fewer columns
    ridges = s[0] ** 2 * torch.tensor(RIDGES, dtype=s.dtype, device=s.device)
    errors = [leave_one_out(u, s, y, ridge, intercept).square().sum() for ridge in ridges]
    return ridges[torch.stack(errors).argmin()]


def leave_one_out(u: Tensor, s: Tensor, y: Tensor, ridge: Tensor, intercept: bool) -> Tensor:
    """Errors (n, q) of predicting each sample from the others.

    r (K + r I)^-1 = r U diag(1 / (s^2 + r)) U^T + N, with N = I - U U^T the projection on what X can't explain.
    An unpenalised intercept explains constants, N = I - U U^T - 1 1^T / n. Where N_ii is rounding (sample i is
    alone in its direction, or n <= p), row i of N is zero and r cancels in the quotient, also for r = 0.
    """
    n = len(u)
    unexplained = y - u @ (u.T @ y)  # N y, (n, q)
    share = 1.0 - u.square().sum(dim=1)  # N_ii, (n,)
    if intercept:
        unexplained = unexplained - y.mean(dim=0)
        share = share - 1.0 / n
    damped = u / (s**2 + ridge)  # (n, rank)
    inverse_y, inverse_diagonal = damped @ (u.T @ y), (damped * u).sum(dim=1)
    return torch.where(
        (share > 1e3 * torch.finfo(u.dtype).eps)[:, None],
        (unexplained + ridge * inverse_y) / (share + ridge * inverse_diagonal)[:, None],
        inverse_y / inverse_diagonal[:, None],
    )


def working_bytes(n: int, p: int, q: int) -> int:
    """Memory that a fit takes beyond its data: centred copies, the SVD's factors, residuals, coefficients."""
    rank = min(n, p)
    return 8 * (2 * n * p + 2 * rank * (n + p) + 2 * n * q + rank * q)


def check_memory(n: int, p: int, q: int) -> None:
    if not hasattr(os, "sysconf"):  # Windows does not tell
        return
    available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    needed = working_bytes(n, p, q)
    if needed > available:
        raise MemoryError(
            f"linear: {n} samples of {p} inputs and {q} outputs need {needed / 2**30:.0f} GiB, this machine "
            f"has {available / 2**30:.0f} GiB; use fewer training samples"
        )
