"""The version of what the core does to every model: how it trains and how it evaluates. No torch."""

from __future__ import annotations

# Raise it when a change to the training loop, or to evaluation, can change a result: it is part of every trial's key.
PROTOCOL = 1
