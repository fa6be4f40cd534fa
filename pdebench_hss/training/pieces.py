"""A batch computed in pieces whose gradients are added: the same step to rounding, in the cache and in less memory.

With n_i of the n samples in piece i, and g_i the gradient of the mean over the piece,

    loss = sum_i (n_i / n) loss_i,        g = sum_i (n_i / n) g_i

before clipping and the optimiser see it. How large a piece is follows from sizes (`footprint`) and never from a
measurement of time or of the machine, so a trial has the same pieces, and the same bits, wherever it runs.

For the cache, on a CPU: where a whole batch keeps more than `LARGE` bytes for its backward pass, a piece is the largest
power of two of samples that keep at most `CACHE` bytes plus the bytes of the weights, because each piece reads the
weights and writes their gradients. A batch stays whole where pieces would repeat more than `REPEATED` of the
arithmetic: what a model computes once per step, whatever the batch, each piece would compute again.

For memory, on any device: with a limit (``--max-memory``) a piece also has to fit in it.

A batch also stays whole where its parts don't add up to it (`splitting`), where the model says ``pieces = False``, and
where it has a loss of its own without saying ``pieces = True``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..base.devices import DEFAULT_PRECISION
from ..base.files import human_bytes
from ..contract.traits import has_own_loss, may_be_split
from . import footprint
from .footprint import FEWEST, USUAL, Footprint, Sizes
from .graphs import Step
from .objective import Objective
from .splitting import why_not_split
from .trial_device import kept_random_state

# Chosen once by benchmarks/pieces.py (docs/kernels.md) and fixed: if they were read from the machine, the same trial
# would give other bits elsewhere.
CACHE = 48 * 2**20
LARGE = 2 * CACHE
REPEATED = 1 / 16
LIBRARIES = 96 * 2**20  # memory of torch's code and workspaces, allocated on first use
SMALLEST = 2  # samples of a piece: several libraries are slow with one


@dataclass(frozen=True)
class Pieces:
    """How the batches of a trial are computed: at most ``samples`` at a time; None means whole."""

    samples: int | None
    why: str
    sample_bytes: int | None = None  # kept for the backward pass; None where it was not needed

    def facts(self, batch: int) -> dict[str, Any]:
        """In the form of a record."""
        known = {} if self.sample_bytes is None else {"sample_bytes": self.sample_bytes}
        return {"samples": self.samples or batch, "batch": batch, "why": self.why, **known}


def whole(why: str, sample_bytes: int | None = None) -> Pieces:
    return Pieces(None, f"whole: {why}", sample_bytes)


def choose(
    objective: Objective,
    batch: int,
    device: torch.device,
    *,
    precision: str = DEFAULT_PRECISION,
    room: int | None = None,
) -> Pieces:
    """For batches of at most this many samples, in ``room`` bytes besides weights and data if that is limited.

    A copy is measured, so the model does not change. Raises `MemoryError` if no piece fits.
    """
    declared = _declared(type(objective.module))
    if room is None:
        if device.type != "cpu":
            return whole(f"a {device.type} has no cache to fit")
        if batch < 2 * SMALLEST:
            return whole(f"{batch} samples are too few to split")
        if declared:
            return whole(declared)
    try:
        twin = objective.of(copy.deepcopy(objective.module).train())
    except (TypeError, RuntimeError) as error:  # models that hold a handle or a graph can't be copied
        return whole(f"the model can't be copied, to see what a sample takes ({type(error).__name__})")
    sizes = USUAL if room is None else FEWEST
    index = torch.arange(sizes[1]) % len(objective.train)  # some are repeated if there are too few
    x, y = (t.to(device) for t in objective.train.pairs(index))
    with kept_random_state(device):
        each = _kept_by_a_sample(twin, x, y, batch, precision, sizes)
        if room is None and batch * each <= LARGE:
            return whole(FITS, each)
        takes = footprint.measure(twin, x, y, precision, sizes)
        size, why = size_of(takes, batch, sum(p.nbytes for p in twin.module.parameters()), device, room)
        if size is None:
            return whole(why, each)
        reason = declared or why_not_split(twin, x, y, device)
    if reason is None:
        return Pieces(size, why, each)
    if room is not None and takes.peak.at(batch) > room:
        raise MemoryError(f"{_too_much(takes, batch, room)}, and the batch can't be computed in pieces: {reason}")
    return whole(reason, each)


FITS = "what a batch keeps for its backward pass fits in the cache"


def room_in(limit: int, objective: Objective, fields: int, device: torch.device) -> int:
    """What a limit in bytes leaves for activations.

    Training pairs and weights with gradients and two moments are subtracted; on a CPU also the original fields
    of the pairs, in bytes, and the libraries' own memory.
    """
    weights = sum(p.nbytes for p in objective.module.parameters())
    held = objective.train.nbytes + 4 * weights
    if device.type == "cpu":
        held += fields + LIBRARIES
    if held >= limit:
        raise MemoryError(
            f"data, weights and libraries take {human_bytes(held)} of --max-memory {human_bytes(limit)}: raise it"
        )
    return limit - held


def size_of(
    takes: Footprint, batch: int, weights: int, device: torch.device, room: int | None
) -> tuple[int | None, str]:
    """Samples of a piece, or None if the batch stays whole, and the reason. ``weights`` in bytes."""
    size, why = for_cache(takes, batch, weights) if device.type == "cpu" else (None, f"a {device.type} has no cache")
    if room is None or takes.peak.at(min(size or batch, batch)) <= room:
        return size, why
    largest = _power_of_two(takes.peak.most(room))
    if largest < SMALLEST:  # as many samples as the measurement itself needs
        raise MemoryError(f"{_too_much(takes, SMALLEST, room)}; raise --max-memory")
    return largest, f"for --max-memory: {_too_much(takes, batch, room)}"


def for_cache(takes: Footprint, batch: int, weights: int) -> tuple[int | None, str]:
    if batch * takes.kept.each <= LARGE:
        return None, FITS
    size = max(SMALLEST, _power_of_two((CACHE + weights) / takes.kept.each))
    if size >= batch:
        return None, FITS
    if takes.flops.fixed > REPEATED * size * takes.flops.each:
        share = 100 * takes.flops.fixed / (takes.flops.fixed + size * takes.flops.each)
        return None, f"{share:.0f} % of the arithmetic of {size} samples does not depend on how many there are"
    return size, f"for the cache: a sample keeps {human_bytes(takes.kept.each)}"


def in_pieces(step: Step, samples: int | None, unshared: Callable[[], AbstractContextManager[Any]]) -> Step:
    """The step of a batch as the steps of its pieces, whose sizes differ by at most one sample."""
    if samples is None:
        return step

    def step_by_step(x: Tensor, y: Tensor, weight: float) -> Tensor:
        count = -(-len(x) // samples)
        *firsts, last = zip(x.tensor_split(count), y.tensor_split(count), strict=True)
        with unshared():
            losses = [step(a, b, weight * (len(a) / len(x))) for a, b in firsts]
        losses.append(step(*last, weight * (len(last[0]) / len(x))))
        return torch.stack(losses).sum()

    return step_by_step


def sizes_in(n: int, samples: int | None) -> set[int]:
    """The sizes of the pieces of n samples."""
    count = -(-n // (samples or n))
    return {n // count, -(-n // count)}


def _declared(model: type) -> str | None:
    """Why a batch must stay whole as far as the model's class says, or None."""
    if may_be_split(model) is False:
        return "the model says pieces = False"
    if has_own_loss(model) and not may_be_split(model):
        return "it has its own loss, and does not say pieces = True"
    return None


def _kept_by_a_sample(objective: Objective, x: Tensor, y: Tensor, batch: int, precision: str, sizes: Sizes) -> int:
    """Bytes kept for the backward pass; an upper bound where the batch is small anyway."""
    # The first call also fills the model's caches.
    few = footprint.kept_bytes(objective, x[: sizes[0]], y[: sizes[0]], precision)
    if batch * few / sizes[0] <= LARGE:
        return few // sizes[0]
    return round(footprint.line_through(lambda n: footprint.kept_bytes(objective, x[:n], y[:n], precision), sizes).each)


def _power_of_two(limit: float) -> int:
    """The largest power of two up to a limit; 0 if there is none."""
    return 1 << (int(limit).bit_length() - 1) if limit >= 1 else 0


def _too_much(takes: Footprint, samples: int, room: int) -> str:
    needed, left = human_bytes(takes.peak.at(samples)), human_bytes(max(0, room))
    return f"a batch of {samples} takes {needed} and there is room for {left}"
