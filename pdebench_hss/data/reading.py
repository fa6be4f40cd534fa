"""What a task's reader takes from its files (`TaskSpec.read`), as blocks of samples whichever way it gives them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import DataError
from ..base.references import call_target
from ..contract.task import Scale, TaskSpec
from .hdf5 import SPLITS

Pair = tuple[np.ndarray, np.ndarray]


def read_splits(spec: TaskSpec, place: Path, size: Scale, params: Mapping[str, Any]) -> dict[str, Iterator[Pair]]:
    """``{"train": blocks, "test": blocks}``; what is wrong with the files is reported as the task's."""
    assert spec.read is not None
    with _naming(spec.name):
        splits = call_target(spec.read)(place, size, **{**spec.params, **params})
    if missing := [split for split in SPLITS if split not in splits]:
        raise DataError(f"task {spec.name!r}: its reader returned no {missing[0]!r} split, only {', '.join(splits)}")
    return {split: _blocks(spec.name, splits[split]) for split in SPLITS}


def read_whole(spec: TaskSpec, place: Path, size: Scale, params: Mapping[str, Any]) -> dict[str, Pair]:
    """The splits in memory."""
    splits = {split: list(blocks) for split, blocks in read_splits(spec, place, size, params).items()}
    return {split: _joined(blocks) for split, blocks in splits.items()}


def _joined(blocks: list[Pair]) -> Pair:
    if len(blocks) == 1:
        return np.asarray(blocks[0][0]), np.asarray(blocks[0][1])
    return np.concatenate([inputs for inputs, _ in blocks]), np.concatenate([outputs for _, outputs in blocks])


def _blocks(task: str, split: Any) -> Iterator[Pair]:
    """A pair of arrays is one block; anything else that can be iterated over yields blocks."""
    is_pair = isinstance(split, (tuple, list)) and len(split) == 2
    blocks: Iterable[Any] = [split] if is_pair else split
    with _naming(task):
        yield from blocks


@contextlib.contextmanager
def _naming(task: str) -> Iterator[None]:
    """Complaints about files, which a reader raises as `ValueError` or `OSError`, name the task."""
    try:
        yield
    except (ValueError, OSError) as error:
        raise DataError(f"task {task!r}: {error}") from error
