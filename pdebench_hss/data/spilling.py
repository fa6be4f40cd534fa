"""Arrays that may be larger than memory: written block by block to a file without a name, and mapped from there.

What is mapped looks like any array, and takes no memory that the system could not have back: it drops pages of a file
when it needs the room, and reads them again. Without a name, nothing is left of the file however its process ends. It
lies in the data cache: temporary folders are often held in memory.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from .dataset import Split, data_dir
from .stored import StoredSplit


def unnamed_file() -> IO[bytes]:
    place = data_dir()
    return tempfile.TemporaryFile(dir=place if os.access(place, os.W_OK) else None)


def spilled(blocks: Iterable[np.ndarray], count: int) -> np.ndarray:
    """Blocks of ``count`` samples in all, as one array."""
    with unnamed_file() as file:
        write(file, blocks, count)
        return mapped(file)


def spilled_split(stored: StoredSplit, at_once: int) -> Split:
    """Inputs and outputs, of which ``at_once`` samples are read at a time."""
    inputs = spilled((block.inputs for block in stored.blocks(at_once)), len(stored))
    return Split(inputs, spilled((block.outputs for block in stored.blocks(at_once)), len(stored)))


def write(file: IO[bytes], blocks: Iterable[np.ndarray], count: int) -> None:
    """In the format of ``.npy``."""
    written = 0
    kind: tuple[Any, ...] = ()
    for block in blocks:
        if not kind:
            facts = {"descr": npy.dtype_to_descr(block.dtype), "fortran_order": False}
            npy.write_array_header_1_0(file, {**facts, "shape": (count, *block.shape[1:])})
            kind = (block.dtype, block.shape[1:])
        if (block.dtype, block.shape[1:]) != kind:
            raise ValueError(f"{block.dtype} {block.shape[1:]} of a sample follows {kind[0]} {kind[1]}")
        written += len(block)
        file.write(np.ascontiguousarray(block).data)
    if written != count:
        raise ValueError(f"{written} samples in place of {count}")
    file.flush()


def mapped(file: IO[bytes]) -> np.ndarray:
    """What was written; whoever changes it changes a copy of the page."""
    file.seek(0)
    npy.read_magic(file)
    shape, _, dtype = npy.read_array_header_1_0(file)
    return np.asarray(np.memmap(file, dtype, "c", file.tell(), shape))
