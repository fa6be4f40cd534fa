"""A collapsed HSS matrix with bias and LeakyReLU as one differentiable function on a GPU.

    y = LeakyReLU_slope( [sum_t] D_t x_t + U_t C_t V_t^T x_t + bias )

With g the gradient of the pre-activation, z = V^T x, w = C z and, seen from the other side, zeta = U^T g,
omega = C^T zeta:

    dx = D^T g + V omega      dD = g x^T      dU = g w^T      dV = x omega^T      dC = zeta z^T

leaf by leaf and summed over rows, except dC. The leaves' work is done by the kernels of `kernels`, C by the
matrix product of torch. For the backward pass x, z (r / m of x) and, with an activation, y are kept. The pre-activation
is not: it follows from y if the slope is positive, and is computed again otherwise. This is decided on the GPU, because
reading the slope would make the host wait.

This module needs torch only; Triton is imported when a kernel is first used.
"""

from __future__ import annotations

import importlib.util
import os
from math import ceil
from typing import Any

import torch
from torch import Tensor

from . import probe

PRECISIONS = ("ieee", "tf32x3", "tf32")


def available(device: torch.device, dtype: torch.dtype) -> str | None:
    """Why the kernels can't run there, or None. TRITON_INTERPRET=1 (slow, for tests) runs them on the CPU."""
    if dtype not in (torch.float32, torch.float64):
        return f"the Triton kernels compute in float32 and float64, not in {str(dtype).removeprefix('torch.')}"
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed: pip install 'pdebench-hss[kernels]' (Linux only)"
    if os.environ.get("TRITON_INTERPRET") == "1":
        return None
    if device.type != "cuda" or torch.version.cuda is None:
        return f"the Triton kernels need an NVIDIA GPU, and the tensors are on {device.type!r}"
    major, minor = torch.cuda.get_device_capability(device)
    if (major, minor) < (7, 5):
        return f"the Triton kernels are built for compute capability 7.5 and newer, and this GPU has {major}.{minor}"
    return probe.refusal(device, dtype)


def apply_triton(
    D: Tensor,
    U: Tensor,
    C: Tensor,
    V: Tensor,
    x: Tensor,
    bias: Tensor | None = None,
    slope: Tensor | None = None,
    precision: str = "ieee",
    sum_terms: bool = False,
) -> Tensor:
    """D (terms, leaves, m_out, m_in), U (.., m_out, r), C (terms, leaves * r, leaves * r), V (.., m_in, r);

    x     (rows, 1 or terms, leaves * m_in), or (outer, inner, 1 or terms, ..) where rows are a pair of axes, with
          any strides: so an axis in the middle of a grid is multiplied without a copy
    y     (rows, terms, leaves * m_out); without the axis of terms if they are summed
    bias  broadcastable to a row of y, slope one number
    precision of float32 products of leaves: ieee, tf32x3 (tensor cores, about as exact), tf32 (10 bits of mantissa);
          the product with C obeys torch.backends.cuda.matmul instead
    """
    check(D, U, C, V, x, bias, slope, precision)
    rows = merge_rows(x) if x.ndim == 4 else x.unsqueeze(0)  # (outer, inner, terms, points)
    if bias is not None:
        bias = bias.expand(1 if sum_terms else D.shape[0], D.shape[1] * D.shape[2]).contiguous()
    y = CollapsedHSS.apply(
        D.contiguous(), U.contiguous(), C.contiguous(), V.contiguous(), rows, bias, slope, sum_terms, precision
    )
    if x.ndim == 3:
        y = y.squeeze(0)
    elif rows.shape[:2] != x.shape[:2]:
        y = y.squeeze(0).unflatten(0, x.shape[:2])
    return y.squeeze(-2) if sum_terms else y


def check(
    D: Tensor, U: Tensor, C: Tensor, V: Tensor, x: Tensor, bias: Tensor | None, slope: Tensor | None, precision: str
) -> None:
    if reason := available(x.device, x.dtype):
        raise RuntimeError(reason)
    if precision not in PRECISIONS:
        raise ValueError(f"precision {precision!r} is not one of {', '.join(PRECISIONS)}")
    terms, leaves, m_out, m_in = D.shape
    size = leaves * U.shape[-1]
    expected = {
        "U": (U, (terms, leaves, m_out, U.shape[-1])),
        "V": (V, (terms, leaves, m_in, U.shape[-1])),
        "C": (C, (terms, size, size)),
    }
    for name, (tensor, shape) in expected.items():
        if tensor.shape != shape:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}; with D {tuple(D.shape)} it must have {shape}")
    if x.ndim not in (3, 4) or x.shape[-1] != leaves * m_in or x.shape[-2] not in (1, terms):
        raise ValueError(f"x has shape {tuple(x.shape)} and must end in (1 or {terms} terms, {leaves * m_in} points)")
    if slope is not None and slope.numel() != 1:
        raise ValueError(f"slope must be one number and has {slope.numel()}")
    for factor in (D, U, C, V, bias, slope):
        if factor is not None and (factor.dtype, factor.device) != (x.dtype, x.device):
            raise ValueError(f"x is {x.dtype} on {x.device}, a factor {factor.dtype} on {factor.device}")


class CollapsedHSS(torch.autograd.Function):
    """x (outer, inner, 1 or terms, points) -> (outer, inner, terms, points), terms = 1 if they are summed."""

    @staticmethod
    def forward(
        ctx: Any, D: Tensor, U: Tensor, C: Tensor, V: Tensor, x: Tensor, bias: Tensor | None, slope: Tensor | None,
        sum_terms: bool, precision: str,
    ) -> Tensor:  # fmt: skip
        from . import launch

        y = empty_rows(x, 1 if sum_terms else D.shape[0], D.shape[1] * D.shape[2])
        z = empty_coefficients(x, U)
        if launch.fits_one_launch(D, U):
            kept = z if any(ctx.needs_input_grad) else None
            launch.whole(x, V, C, U, D, bias, slope, y, kept, precision).run()
        else:
            launch.project(x, V, z, precision).run()
            launch.expand(x, torch.bmm(z, C.mT), D, U, bias, slope, y, precision).run()
        ctx.save_for_backward(D, U, C, V, x, bias, slope, z, None if slope is None else y)
        ctx.precision = precision
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        from . import launch

        D, U, C, V, x, bias, slope, z, y = ctx.saved_tensors
        precision = ctx.precision
        need_d, need_u, need_c, need_v, need_x, need_bias, _, _, _ = ctx.needs_input_grad
        w = torch.bmm(z, C.mT)
        if slope is None:
            g, d_slope = gradient, None
            d_bias = g.sum((0, 1)) if need_bias else None
        else:
            g, d_bias, d_slope = through_activation(D, U, C, V, x, bias, slope, w, y, gradient, precision)

        zeta, d_x = empty_coefficients(g, U), None
        one_launch = need_x and launch.fits_one_launch(D, U)
        if one_launch:
            d_x = torch.empty_like(x)
            launch.whole(g, U, C.mT, V, D.mT, None, None, d_x, zeta, precision).run()
        else:
            launch.project(g, U, zeta, precision).run()
        omega = torch.bmm(zeta, C)
        if need_x and not one_launch:
            d_x = torch.empty_like(x)
            launch.expand(g, omega, D.mT, V, None, None, d_x, precision).run()

        d_D = correlate(g, x, D, precision) if need_d else None
        d_U = correlate(g, as_rows(w, x), U, precision) if need_u else None
        d_C = torch.bmm(zeta.mT, z) if need_c else None
        d_V = correlate(x, as_rows(omega, x), V, precision) if need_v else None
        return d_D, d_U, d_C, d_V, d_x, d_bias if need_bias else None, d_slope, None, None


def through_activation(
    D: Tensor, U: Tensor, C: Tensor, V: Tensor, x: Tensor, bias: Tensor | None, slope: Tensor, w: Tensor, y: Tensor,
    gradient: Tensor, precision: str,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of the pre-activation, the bias and the slope."""
    from . import launch

    before = torch.empty_like(y)  # in memory like y, which `empty_rows` made dense
    launch.expand(x, w, D, U, bias, slope, before, precision, only_small_slope=True).run()
    grid = launch.activation_backward_grid(y)
    bias_parts = y.new_empty(grid[0], *y.shape[2:])
    slope_parts = y.new_empty(grid)
    launch.activation_backward(gradient, y, slope, before, bias_parts, slope_parts).run()
    return before, bias_parts.sum(0), slope_parts.sum().reshape(slope.shape)


def correlate(a: Tensor, b: Tensor, weight: Tensor, precision: str) -> Tensor:
    """The gradient of a block-diagonal weight: sum over rows of a b^T, leaf by leaf, in parts that are then added."""
    from . import launch

    terms, leaves = weight.shape[:2]
    rows = a.shape[0] * a.shape[1]
    splits = max(1, min(ceil(rows / launch.ROWS_PER_SPLIT), launch.ENOUGH_PROGRAMS // (terms * leaves)))
    parts = weight.new_empty(splits, *weight.shape)
    launch.correlate(a, b, parts, precision).run()
    return parts.sum(0) if splits > 1 else parts[0]


def empty_coefficients(x: Tensor, weight: Tensor) -> Tensor:
    """``(terms, outer * inner, leaves * r)``"""
    terms, leaves, _, rank = weight.shape
    return x.new_empty(terms, x.shape[0] * x.shape[1], leaves * rank)


def merge_rows(x: Tensor) -> Tensor:
    """One axis of rows instead of two, where memory allows: a program's rows come from `inner`, which may be short."""
    if x.shape[1] == 1 or x.stride(0) == x.shape[1] * x.stride(1):
        return x.flatten(0, 1).unsqueeze(0)
    return x


def as_rows(z: Tensor, x: Tensor) -> Tensor:
    """Coefficients as vectors ``(outer, inner, terms, leaves * r)``; a view."""
    return z.unflatten(1, x.shape[:2]).permute(1, 2, 0, 3)


def empty_rows(x: Tensor, terms: int, points: int) -> Tensor:
    """Memory for ``(outer, inner, terms, points)``, with the same innermost axis in memory as x."""
    outer, inner = x.shape[:2]
    if x.stride(1) == 1 and x.stride(3) != 1:
        return x.new_empty(outer, terms, points, inner).permute(0, 3, 1, 2)
    return x.new_empty(outer, inner, terms, points)
