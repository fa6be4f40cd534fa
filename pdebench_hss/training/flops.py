"""FLOPs of one training step, counted by torch's dispatcher, plus what that leaves out by default.

torch counts matrix products and convolutions. Three corrections matter for neural operators: FFTs aren't counted at all
(here: 5 N log2 N real operations per complex transform of N points, half of it for real data), a product of complex
matrices is counted like a real one (it takes four real products), and one that is added to a matrix in place is not
counted. Pointwise work is left out, as is customary. What is computed twice to save memory is counted twice.

`count` counts what is executed; `count_step` what a training step is charged with (see `counting`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from .counting import as_counted

aten = torch.ops.aten


def _fft(shape: Sequence[int], dims: Sequence[int], real: bool) -> int:
    points = math.prod(shape)
    length = math.prod(shape[d] for d in dims)
    return int((2.5 if real else 5.0) * points * math.log2(max(length, 2)))


def _r2c(x: Tensor, dims: Sequence[int], *_: Any, **__: Any) -> int:
    return _fft(x.shape, dims, real=True)


def _c2c(x: Tensor, dims: Sequence[int], *_: Any, **__: Any) -> int:
    return _fft(x.shape, dims, real=False)


def _c2r(x: Tensor, dims: Sequence[int], normalization: int, last: int, *_: Any, **__: Any) -> int:
    shape = list(x.shape)
    shape[dims[-1]] = last
    return _fft(shape, dims, real=True)


def _complex_aware(operation: Any) -> Callable[..., int]:
    """torch's own formula, times four where the operands are complex."""
    formula = flop_registry[operation]

    def count(*arguments: Any, **keywords: Any) -> int:
        tensors = [a for a in arguments if isinstance(a, Tensor)]
        factor = 4 if any(t.is_complex() for t in tensors) else 1
        return factor * formula(*arguments, **keywords)

    return count


def _raw(formula: Callable[..., int]) -> Callable[..., int]:
    formula._get_raw = True  # type: ignore[attr-defined]  # asks the counter for tensors, not shapes
    return formula


FORMULAS = {
    aten._fft_r2c: _raw(_r2c),
    aten._fft_c2c: _raw(_c2c),
    aten._fft_c2r: _raw(_c2r),
    **{op: _raw(_complex_aware(op)) for op in (aten.mm, aten.addmm, aten.bmm, aten.baddbmm)},
    aten.addmm_: _raw(_complex_aware(aten.addmm)),
    aten.baddbmm_: _raw(_complex_aware(aten.baddbmm)),
}


def count(function: Callable[[], Any]) -> float:
    """FLOPs of one call, as it is executed."""
    with FlopCounterMode(display=False, custom_mapping=FORMULAS) as counter:
        function()
    return float(counter.get_total_flops())


def count_step(function: Callable[[], Any]) -> float:
    """FLOPs of one call, with every layer in the form in which it is charged."""
    with as_counted():
        return count(function)
