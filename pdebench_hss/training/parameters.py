"""Parameters: counted as reals and as entries, without allocating them, and matched to a target by the size knob."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ..base.errors import UsageError
from ..contract.model import ModelSpec
from ..contract.task import TaskInfo

LARGEST_KNOB = 1 << 16
SCAN = 256  # how far apart two accepted values may be


@dataclass(frozen=True)
class Count:
    """``real`` counts degrees of freedom (a complex number has two), ``numel`` counts entries."""

    real: int
    numel: int


def count_parameters(module: Any) -> Count:
    if not isinstance(module, nn.Module):
        return Count(0, 0)
    parameters = list(module.parameters())
    numel = sum(p.numel() for p in parameters)
    return Count(numel + sum(p.numel() for p in parameters if p.is_complex()), numel)


def count_fitted(module: Any) -> Count:
    """The count of a fitted closed form. Its size follows from the data, so it is not known before.

    A model that stores more than it chose states the number with a method ``coefficient_count() -> int`` (a matrix of
    some rank kept as two factors, say). Otherwise its parameters count, or its floating-point buffers if it has none.
    """
    if not hasattr(module, "fit"):
        return count_parameters(module)
    if hasattr(module, "coefficient_count"):
        stated = int(module.coefficient_count())
        return Count(stated, stated)
    count = count_parameters(module)
    if count.numel or not isinstance(module, nn.Module):
        return count
    kept = [b for b in module.state_dict().values() if b.is_floating_point() or b.is_complex()]
    numel = sum(b.numel() for b in kept)
    return Count(numel + sum(b.numel() for b in kept if b.is_complex()), numel)


def kind_on_meta(spec: ModelSpec, task: TaskInfo, hparams: Mapping[str, Any]) -> type | None:
    """The class of what ``build`` returns; None if that can't be known without allocating it."""
    try:
        with torch.device("meta"):
            return type(spec.make(task, hparams))
    except Exception:  # the trial will report why
        return None


def count_on_meta(spec: ModelSpec, task: TaskInfo, hparams: Mapping[str, Any]) -> Count:
    """The count of a model that is never allocated."""
    with torch.device("meta"):
        return count_parameters(spec.make(task, hparams))


def match_parameters(spec: ModelSpec, task: TaskInfo, hparams: Mapping[str, Any], target: int) -> dict[str, Any]:
    """The hyper-parameters with the size knob turned to the reachable count closest to ``target``.

    Counts grow with the knob, so doubling and bisection find the crossing. Values that the model refuses (a width that
    its heads don't divide, say) are skipped.
    """
    knob = spec.size_knob
    if knob is None:
        if count_on_meta(spec, task, hparams).real == 0:
            return dict(hparams)  # nothing to match: the size of such a closed form follows from the data
        raise UsageError(f"--match-params: model {spec.name!r} declares no size_knob")

    counts: dict[int, int | None] = {}

    def size(value: int) -> int | None:
        if value not in counts:
            try:
                counts[value] = count_on_meta(spec, task, {**hparams, knob: value}).real
            except (ValueError, RuntimeError, AssertionError):
                counts[value] = None
        return counts[value]

    smallest = _first_valid(size, 1)
    if smallest is None:
        raise UsageError(f"--match-params: model {spec.name!r}: no size between 1 and {SCAN} can be built")
    low = high = smallest
    while (size(high) or 0) < target and high < LARGEST_KNOB:
        # Above some largest value (modes of a grid, say) nothing can be built: then the answer is below 2 high.
        low, high = high, _first_valid(size, 2 * high) or 2 * high
        if size(high) is None:
            break
    while high - low > 1:
        middle = (low + high) // 2
        probe = next((v for v in range(middle, high) if size(v) is not None), None)
        if probe is None:
            high = middle
        elif (size(probe) or 0) < target:
            low = probe
        else:
            high = probe if probe < high else middle
    valid = {value: count for value, count in counts.items() if count is not None}
    best = min(valid, key=lambda value: (abs(valid[value] - target), value))
    return {**hparams, knob: best}


def _first_valid(size: Callable[[int], int | None], start: int) -> int | None:
    return next((value for value in range(start, start + SCAN) if size(value) is not None), None)
