"""Do the Triton kernels work here? Checked once per process: a version known to compile them, and one small test.

float64 products need Triton 3.5 (benchmarks/triton_versions.py: 3.0 to 3.4 refuse them or fail in the compiler), which
torch includes from 2.9 on. Only a launch shows whether the GPU, its driver and the compiler work together.
"""

from __future__ import annotations

from functools import lru_cache

import torch

OLDEST = (3, 5)


def refusal(device: torch.device, dtype: torch.dtype) -> str | None:
    """Why not to use the kernels on this device, or None."""
    import triton

    return too_old(triton.__version__) or _try(str(device), dtype)


def too_old(version: str) -> str | None:
    if tuple(int(part) for part in version.split(".")[:2]) >= OLDEST:
        return None
    oldest = ".".join(map(str, OLDEST))
    return f"Triton {version} is too old for the kernels: it must be {oldest} or newer, which torch 2.9 and newer bring"


@lru_cache
def _try(device: str, dtype: torch.dtype) -> str | None:
    """Launch the kernels on a matrix with every kind of remainder, and compare."""
    try:
        worst = try_kernels(torch.device(device), dtype)
    except Exception as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        return f"the Triton kernels fail on this machine in {_name(dtype)}: {type(error).__name__}: {first[:200]}"
    limit = 1e-4 if dtype == torch.float32 else 1e-10
    if not worst < limit:
        return (
            f"the Triton kernels are wrong on this machine in {_name(dtype)}: off by {worst:.1e}, {limit:.0e} allowed"
        )
    return None


def try_kernels(device: torch.device, dtype: torch.dtype) -> float:
    """The largest difference from torch, forward and backward, for one launch and for several."""
    from .layer import CollapsedHSS

    worst = 0.0
    for terms in (1, 2):
        generator = torch.Generator().manual_seed(terms)
        shapes = ((terms, 2, 9, 7), (terms, 2, 9, 3), (terms, 6, 6), (terms, 2, 7, 3), (1, 5, 1, 14))
        tensors = [torch.randn(shape, generator=generator).to(device, dtype).requires_grad_() for shape in shapes]
        ours = CollapsedHSS.apply(*tensors, None, None, True, "ieee")
        theirs = written_out(*tensors)
        weights = torch.linspace(-1, 1, ours.numel(), device=device, dtype=dtype).view_as(ours)
        pairs = zip(
            (ours, *torch.autograd.grad(ours, tensors, weights)),
            (theirs, *torch.autograd.grad(theirs, tensors, weights)),
            strict=True,
        )
        worst = max(worst, *((a - b).abs().max().item() / (1 + b.abs().max().item()) for a, b in pairs))
    return worst


def written_out(D: torch.Tensor, U: torch.Tensor, C: torch.Tensor, V: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """sum_t (D_t + U_t C_t V_t^T) x with the matrices written out; x (outer, inner, 1, points)."""
    matrices = [
        torch.block_diag(*d) + torch.block_diag(*u) @ c @ torch.block_diag(*v).T
        for d, u, c, v in zip(D, U, C, V, strict=True)
    ]
    return x @ torch.stack(matrices).sum(0).T


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
