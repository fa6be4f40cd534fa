"""The numbers that AdamW trains with, and the size of a batch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Optimizer:
    batch: int
    lr: float
    lr_min: float
    weight_decay: float
