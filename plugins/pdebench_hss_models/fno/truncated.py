"""A Fourier layer on the kept frequencies alone, in matrix products, with its derivative written by hand.

T maps a field to its kept frequencies, D holds the factor of each of them in the inverse transform of a real field,

    (T v)_k = sum_x v_x exp(-2 pi i (k_1 x_1 / n_1 + ... + k_d x_d / n_d)),
    D_k     = 1 / N for k_d = 0,  2 / N for k_d > 0  (N points; k_d < 0 is the conjugate and not stored),

and T^* is the adjoint of T, where complex numbers are pairs of reals: the real part of the sum with exp(+2 pi i ..).
Then F^-1 = T^* D on spectra that are zero elsewhere, and a layer with the pointwise map W and its bias b,

    y  = T^* D R T v + W v + b,

has, with q = D T g for a gradient g of y, the derivatives

    dv = T^* R^H q + W^T g,      dR_k = sum over samples of conj(T v)_k q_k,      dW = g v^T,      db = N q_0.

T acts on one axis after the other: a real matrix for the last, complex ones for the others, on ever smaller arrays.
Frequencies that the layer drops are never computed, and nothing is padded with zeros. Sums with W v and W^T g are made
inside the products; b is added as N b on the frequency 0, where it costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F


def fourier_layer(v: Tensor, weight: Tensor, bypass: Tensor, bias: Tensor, activate: bool) -> Tensor:
    """``v (batch, in, *grid)`` -> ``(batch, out, *grid)``, optionally followed by gelu.

    ``weight (in, out, *kept)`` is complex, in the order of `kept_frequencies`; ``bypass (out, in)``; ``bias (out,)``.
    """
    return _FourierLayer.apply(v, weight, bypass, bias, activate)


class _FourierLayer(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, v: Tensor, weight: Tensor, bypass: Tensor, bias: Tensor, activate: bool) -> Tensor:
        batch, outputs, grid = v.shape[0], weight.shape[1], v.shape[2:]
        t = transform(tuple(grid), weight.shape[-1], v.dtype, v.device)
        v = v.contiguous()
        spectrum = t.analyse(v, t.last)  # (modes, batch, in)
        mixing = turned(weight.flatten(2).flatten(0, 1)).unflatten(1, weight.shape[:2])  # (modes, in, out)
        mixed = torch.bmm(spectrum, mixing)  # (modes, batch, out)
        mixed[0] += grid.numel() * bias
        y = torch.bmm(bypass.expand(batch, -1, -1), v.flatten(2))  # (batch, out, points)
        t.add_synthesis(mixed, t.last_scaled, onto=y)
        y = y.view(batch, outputs, *grid)
        ctx.t, ctx.kept = t, weight.shape[2:]
        ctx.save_for_backward(v, spectrum, mixing, bypass, y if activate else None)
        return F.gelu(y) if activate else y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # create_graph: torch's `once_differentiable` would let some uses pass, with zeros
            raise RuntimeError("way 'dft' can't be differentiated twice; choose way 'fft'")
        t = ctx.t
        v, spectrum, mixing, bypass, y = ctx.saved_tensors
        g = g.contiguous()
        if y is not None:
            g = torch.ops.aten.gelu_backward(g, y)
        q = t.analyse(g, t.last_scaled)  # (modes, batch, out)
        g = g.flatten(2)  # (batch, out, points)
        gv = None
        if ctx.needs_input_grad[0]:
            gv = torch.bmm(bypass.T.expand(len(g), -1, -1), g)  # (batch, in, points)
            t.add_synthesis(torch.bmm(q, mixing.mH), t.last, onto=gv)
            gv = gv.view_as(v)
        g_mixing = torch.bmm(spectrum.mH, q)  # (modes, in, out)
        g_weight = turned(g_mixing.flatten(1)).view(*mixing.shape[1:], *ctx.kept)
        g_bypass = torch.bmm(g, v.flatten(2).mT).sum(0)
        g_bias = v.shape[2:].numel() * q[0].real.sum(0)
        return gv, g_weight, g_bypass, g_bias, None


def turned(x: Tensor) -> Tensor:
    """A contiguous transpose of a matrix; torch is fast at this in two dimensions only."""
    return x.t().contiguous()


class Transform(NamedTuple):
    """T for one grid, axis by axis."""

    last: Tensor  # (n_d, 2 modes) real: (cos, -sin) for each frequency
    last_scaled: Tensor  # the same times D
    others: Sequence[Tensor]  # (2 modes, n_j) complex: exp(-i ..), for the axes before the last
    adjoints: Sequence[Tensor]  # (n_j, 2 modes), their conjugate transposes

    def analyse(self, v: Tensor, last: Tensor) -> Tensor:
        """``(batch, channels, *grid)`` -> ``(modes, batch, channels)``"""
        z = torch.mm(v.view(-1, last.shape[0]), last)  # (batch channels n_1 .. n_{d-1}, 2 modes)
        z = torch.view_as_complex(z.unflatten(1, (-1, 2)))
        done = z.shape[1]
        for matrix in reversed(self.others):
            z = z.view(-1, matrix.shape[1], done)  # (batch channels .. n_{j-1}, n_j, done)
            z = torch.bmm(matrix.expand(len(z), -1, -1), z)  # n_j -> 2 modes
            done *= matrix.shape[0]
        return turned(z.view(-1, done)).view(done, *v.shape[:2])

    def add_synthesis(self, spectrum: Tensor, last: Tensor, onto: Tensor) -> None:
        """``(modes, batch, channels)`` back to the grid, added to ``onto (batch, channels, points)``."""
        left = len(spectrum)
        z = turned(spectrum.flatten(1))  # (batch channels, modes)
        for matrix in self.adjoints:
            left //= matrix.shape[1]
            z = z.view(-1, matrix.shape[1], left)  # (batch channels .. n_{j-1}, 2 modes, left)
            z = torch.bmm(matrix.expand(len(z), -1, -1), z)  # 2 modes -> n_j
        z = torch.view_as_real(z).view(-1, last.shape[1])  # (batch channels n_1 .. n_{d-1}, 2 modes)
        onto.view(-1, last.shape[0]).addmm_(z, last.T)


@lru_cache(maxsize=64)
@torch.inference_mode(False)
def transform(grid: tuple[int, ...], modes: int, dtype: torch.dtype, device: torch.device) -> Transform:
    """Computed in float64 whatever the precision."""
    one_sided = torch.arange(modes, device="cpu")
    both = torch.cat([one_sided, one_sided - modes])  # the FFT's order: 0 .. modes-1, -modes .. -1
    waves = waves_of(one_sided, grid[-1])  # (modes, n_d)
    last = torch.view_as_real(waves.T.contiguous())  # (n_d, modes, 2)
    scale = torch.full((modes, 1), 2.0 / math.prod(grid), dtype=torch.float64, device="cpu")
    scale[0] /= 2
    others = [waves_of(both, points).to(device, dtype.to_complex()) for points in grid[:-1]]
    return Transform(
        last.flatten(1).to(device, dtype),
        (last * scale).flatten(1).to(device, dtype),
        others,
        [matrix.mH.resolve_conj().contiguous() for matrix in others],
    )


def waves_of(frequencies: Tensor, points: int) -> Tensor:
    """exp(-2 pi i k x / n), ``(frequencies, points)``; k x is reduced first, so that large angles lose no digits."""
    turns = torch.outer(frequencies, torch.arange(points, device="cpu")) % points
    angle = -2 * math.pi / points * turns.double()
    return torch.polar(torch.ones_like(angle), angle)
