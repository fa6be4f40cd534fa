"""Whether the FLOPs of a training step are being counted right now. No torch.

A `flops` budget and the column `flops_step` count a model's own arithmetic, and that must depend neither on the device
nor on what happens to be fastest there. A layer that can be computed in several ways asks `counting()` in its forward
pass and, if so, computes in the form that is charged. Otherwise it costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

# Raise it when what is counted changes: it is part of the key of every trial with a `flops` budget.
# 1: what was executed. 2: a layer that asks `counting` is counted one way, whichever way it is executed.
RULE = 2

_depth = 0


def counting() -> bool:
    return _depth > 0


@contextmanager
def as_counted() -> Iterator[None]:
    global _depth
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
