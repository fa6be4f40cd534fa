"""The state of a training run as a file: weights, optimiser, random numbers, and what was spent so far.

A checkpoint that is damaged or belongs to another network is never used: its trial starts from zero.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..base import storage
from .trial_device import random_state, set_random_state

CPU = torch.device("cpu")
DIGEST_BYTES = hashlib.sha256().digest_size


def write(
    place: str | Path,
    module: nn.Module,
    adamw: torch.optim.Optimizer,
    state: Mapping[str, Any],
    device: torch.device = CPU,
) -> None:
    content = {
        "module": module.state_dict(),
        "optimizer": adamw.state_dict(),
        "rng": random_state(device),
        **state,
    }
    blob = io.BytesIO()
    torch.save(content, blob)
    storage.write(place, hashlib.sha256(blob.getbuffer()).digest() + blob.getvalue())


def read(place: str | Path) -> dict[str, Any] | None:
    """The content of a checkpoint; None if there is none that can be read."""
    stored = storage.read(place)
    if stored is None:
        return None
    found, blob = stored[:DIGEST_BYTES], stored[DIGEST_BYTES:]
    if hashlib.sha256(blob).digest() != found:  # torch.load does not check what it reads
        print(f"checkpoint {_name(place)} can't be used (it is damaged); starting from zero")
        return None
    return torch.load(io.BytesIO(blob), weights_only=True, map_location="cpu")


def restore(
    place: str | Path,
    content: Mapping[str, Any],
    module: nn.Module,
    adamw: torch.optim.Optimizer,
    device: torch.device = CPU,
) -> bool:
    """Load a checkpoint that was read; false, and nothing is changed, if it is of another network or device."""
    if _shapes(content["module"]) != _shapes(module.state_dict()):
        print(f"checkpoint {_name(place)} can't be used (it is of another network); starting from zero")
        return False
    try:
        set_random_state(device, content["rng"])
    except ValueError as error:
        print(f"checkpoint {_name(place)} can't be used (it has {error}); starting from zero")
        return False
    module.load_state_dict(content["module"])
    adamw.load_state_dict(content["optimizer"])
    return True


def _name(place: str | Path) -> str:
    return str(place).rpartition("/")[2]


def _shapes(state: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in state.items()}
