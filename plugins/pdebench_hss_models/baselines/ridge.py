"""Ridge regression for matrices of any shape, and the ridge that predicts left-out samples best.

With inputs as rows of X (n x p) and outputs as rows of Y (n x q),

    W(r) = argmin ||X W - Y||^2 + r ||W||^2,      X = U S V^T  (thin SVD)
         = V diag(s / (s^2 + r)) U^T Y            r -> 0: minimum-norm least squares

needs no p x p matrix when samples are fewer than inputs, and no n x n matrix when they are more: W is kept as the pair
V (p x rank), diag(..) U^T Y (rank x q). Singular values below max(n, p) eps s_max are rounding, not data, and are
dropped. The ridge is the one with the smallest leave-one-out error on the training set, for which

    y_i - (prediction of y_i by a fit without i) = [(K + r I)^-1 Y]_i / [(K + r I)^-1]_ii,      K = X X^T

is exact (Allen's PRESS); r = 0 is one of the candidates.
"""

from __future__ import annotations

import os

import torch
from torch import Tensor

RIDGES = (0.0, *(10.0**k for k in range(-20, 3)))  # candidates, relative to the largest eigenvalue of K
MOST_LEFT_OUT = (
    4096  # of more samples, so many evenly spaced ones are left out in turn; each is predicted by all others
)
BLOCK = 512  # rows worked on at a time


def truncated_svd(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """U (n, rank), s (rank,), V (p, rank) without the singular values that are rounding errors of the largest."""
    if x.shape[0] < x.shape[1]:
        v, r = torch.linalg.qr(x.T)  # (p, n), (n, n): a long SVD would take more copies of X than a QR
        u, s, wt = torch.linalg.svd(r.T)  # x = r^T v^T = u s (v w)^T
        for rows in v.split(BLOCK):
            rows.copy_(rows @ wt.T)
    else:
        u, s, vt = torch.linalg.svd(x, full_matrices=False)
        v = vt.T
    rank = int((s > max(x.shape) * torch.finfo(x.dtype).eps * s[0]).sum())
    return u[:, :rank], s[:rank], v[:, :rank]


def choose_ridge(u: Tensor, s: Tensor, y: Tensor, intercept: bool) -> Tensor:
    """The candidate with the smallest sum of squared leave-one-out errors."""
    if s.numel() == 0:
        return y.new_zeros(())
    if y.shape[1] > y.shape[0]:
        y = torch.linalg.qr(y.T, mode="r").R.T  # (n, n): all combinations of rows keep their lengths
    ridges = s[0] ** 2 * torch.tensor(RIDGES, dtype=s.dtype, device=s.device)
    projected = u.T @ y  # (rank, q)
    total = torch.zeros_like(ridges)
    for some in torch.arange(0, len(u), -(-len(u) // MOST_LEFT_OUT), device=u.device).split(BLOCK):
        left_out = (u[some], s, y[some], projected)
        total += torch.stack([leave_one_out(*left_out, r, intercept, len(u)).square().sum() for r in ridges])
    return ridges[total.argmin()]


def leave_one_out(u: Tensor, s: Tensor, y: Tensor, projected: Tensor, ridge: Tensor, intercept: bool, n: int) -> Tensor:
    """Errors (m, q) of predicting each of m samples from all n - 1 others.

    ``u`` (m, rank) and ``y`` (m, q) are the rows of these samples, ``projected`` is U^T Y of all; with an intercept Y
    has mean zero. The formula is

        r (K + r I)^-1 = r U diag(1 / (s^2 + r)) U^T + N,     N = I - U U^T,     with an intercept N = .. - 1 1^T / n

    where N projects on what X can't explain. Where N_ii is rounding (sample i is alone in its direction, or n <= p),
    row i of N is zero and r cancels in the quotient, also for r = 0.
    """
    unexplained = y - u @ projected  # N Y, (m, q)
    share = 1.0 - u.square().sum(dim=1) - (1.0 / n if intercept else 0.0)  # N_ii, (m,)
    damped = u / (s**2 + ridge)  # (m, rank)
    inverse_y, inverse_diagonal = damped @ projected, (damped * u).sum(dim=1)
    return torch.where(
        (share > 1e3 * torch.finfo(u.dtype).eps)[:, None],
        (unexplained + ridge * inverse_y) / (share + ridge * inverse_diagonal)[:, None],
        inverse_y / inverse_diagonal[:, None],
    )


def working_bytes(n: int, p: int, q: int) -> int:
    """The most memory that a fit takes beyond its data, in float64 (a bound that measurements stay below).

    First X about its zero and its copy inside LAPACK, for n >= p also U, V and their workspace; then U, V, Y about its
    zero, and a copy of Y for the leave-one-out errors or the coefficients. Blocks of rows are negligible.
    """
    factors = 2 * n * p if n < p else 3 * n * p + 4 * p * p
    fitting = min(n, p) * (n + p) + 2 * n * q
    return 8 * max(factors, fitting) + 2**28


def check_memory(n: int, p: int, q: int) -> None:
    """Refuse what would not fit, before anything is computed."""
    if not hasattr(os, "sysconf"):  # Windows does not tell
        return
    available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    needed = 8 * n * (p + q) + working_bytes(n, p, q)
    if needed > available:
        raise MemoryError(
            f"linear: {n} samples of {p} inputs and {q} outputs need {needed / 2**30:.0f} GiB, this machine "
            f"has {available / 2**30:.0f} GiB; use fewer training samples"
        )
