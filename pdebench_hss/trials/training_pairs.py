"""Where a trial's training samples are: in memory if they fit, else in their file, from which batches are read.

The limit is ``--max-resident``, or else half of the memory that is free, shared by the trials that run at once. Either
way the pairs are the same to the bit (`streaming`), so the limit is in no key. Models that fit themselves are given the
whole set. The same limit decides whether the test split is processed as a whole or in parts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..base import machine
from ..base.files import human_bytes
from ..data.blind import BlindData
from ..data.dataset import Dataset, Split
from ..data.stored import StoredSplit
from ..training.normalization import Normalizer
from ..training.streaming import Pairs, StreamedSet, bytes_in_memory, why_not_streamed
from ..training.windows import TrainSet, prepare

if TYPE_CHECKING:
    from .context import Context


FITS_ITSELF = "the model fits itself to the whole training set"


def limit_of(context: Context) -> int:
    """Bytes that the training samples may take."""
    if context.max_resident:
        return context.max_resident
    at_once = max(1, machine.cores() // (context.threads or torch.get_num_threads())) * context.peers
    return machine.free_memory() // (2 * at_once)


def stay_stored(dataset: Dataset, count: int, context: Context) -> bool:
    """Whether ``count`` samples are too many to be prepared in memory."""
    return bytes_in_memory(dataset, count) > limit_of(context)


def at_once_in_test(dataset: Dataset, limit: int) -> int | None:
    """How many test samples may be in memory with what is made of them; None where all may."""
    count = max(1, limit // bytes_in_memory(dataset, 1))
    return count if count < dataset.size.test else None


def training_pairs(
    samples: BlindData, dtype: torch.dtype, context: Context, batch: int, unroll: int = 1
) -> TrainSet | StreamedSet:
    """For training by batches."""
    if isinstance(samples.train, Split):
        return prepare(samples, dtype, unroll)
    if reason := why_not_streamed(samples.train):
        return whole_set(samples, dtype, context, reason, unroll)
    return StreamedSet(samples.train, dtype, unroll, batch, limit_of(context))


def whole_set(
    samples: BlindData, dtype: torch.dtype, context: Context, reason: str = FITS_ITSELF, unroll: int = 1
) -> TrainSet:
    """All pairs in memory, as models want it that fit themselves; raises `MemoryError` beyond a limit that was set."""
    if not isinstance(samples.train, Split):
        if context.max_resident:
            raise MemoryError(_too_much(samples.train, context, reason))
        samples = replace(samples, train=samples.train.take(np.arange(len(samples.train))))
    return prepare(samples, dtype, unroll)


def _too_much(train: StoredSplit, context: Context, reason: str) -> str:
    needed = bytes_in_memory(train.dataset, len(train))
    return (
        f"{reason}: up to {human_bytes(needed)}, and --max-resident is {human_bytes(context.max_resident)}; "
        "raise it or leave the model out"
    )


class UnreadSet:
    """A training set whose pairs are beyond the limit: some closed forms need its normaliser alone."""

    def __init__(self, samples: BlindData, context: Context) -> None:
        assert isinstance(samples.train, StoredSplit)
        self.task, self.normalizer = samples.task, normalizer_of(samples, context)
        self._too_much = _too_much(samples.train, context, FITS_ITSELF)

    @property
    def inputs(self) -> torch.Tensor:
        raise MemoryError(self._too_much)

    outputs = inputs


def set_for_closed_form(samples: BlindData, context: Context) -> TrainSet | UnreadSet:
    if context.max_resident and isinstance(samples.train, StoredSplit) and not why_not_streamed(samples.train):
        return UnreadSet(samples, context)
    return whole_set(samples, torch.float64, context)


def normalizer_of(samples: BlindData, context: Context) -> Normalizer:
    """For models that learn nothing."""
    if isinstance(samples.train, Split) or why_not_streamed(samples.train):
        return whole_set(samples, torch.float64, context).normalizer
    return StreamedSet(samples.train, torch.float64, 1, 1, limit_of(context)).normalizer


def facts(train: Pairs) -> dict[str, dict[str, int]]:
    """In the form of a record; nothing where all pairs were in memory."""
    return {"streamed": train.facts()} if isinstance(train, StreamedSet) else {}
