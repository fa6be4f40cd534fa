"""Are arrays fit for a benchmark? One pass over their files that looks for what would falsify it silently.

* a value that is not finite: refused;
* a test sample whose inputs are those of a train sample: refused, a model would be scored on what it has seen;
* outputs that are the same number everywhere: refused, there is nothing to learn;
* a channel that is the same number everywhere, copies within train or test: said, and allowed.

Copies are found by fingerprints (the sum of a sample's words, as fast as memory) and, where two agree, by SHA-256.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ..base.errors import UsageError
from ..base.files import human_bytes, write_text
from ..base.hashing import digest
from ..base.places import cache_dir
from ..contract.task import TaskSpec
from .arrays import Arrays
from .sources import Source

RULES = 1  # raised when an inspection looks for something else
SHOWN = 3  # pairs of copies in a message
Progress = Callable[[int, int], None]  # samples done, samples in all


@dataclass(frozen=True)
class Findings:
    """What is worth saying of arrays that may be used."""

    samples: int
    bytes: int
    notes: list[str] = field(default_factory=list)
    copies: int = 0  # of samples on the same side of the split


def inspect(
    spec: TaskSpec, source: Source, duplicates: bool = False, progress: Progress = lambda done, total: None
) -> Findings:
    """Look at all samples, once for each content of the files; raises `UsageError` for what can't be used."""
    options = next(iter(spec.scales.values())).options
    layout = {key: value for key, value in options.items() if key != "strides"}
    note = cache_dir() / "inspections" / f"{digest([RULES, source.id, layout, duplicates])[:20]}.json"
    with contextlib.suppress(OSError, ValueError, TypeError):
        return Findings(**json.loads(note.read_text()))
    with contextlib.ExitStack() as stack:
        findings = _look(spec.name, Arrays(source.path, options, stack), duplicates, progress)
    with contextlib.suppress(OSError):  # it would be made again
        write_text(note, json.dumps(asdict(findings)))
    return findings


def _look(name: str, arrays: Arrays, duplicates: bool, progress: Progress) -> Findings:
    count = arrays.axes["inputs"].count
    low = {role: np.full(axes.channels, np.inf) for role, axes in arrays.axes.items()}
    high = {role: np.full(axes.channels, -np.inf) for role, axes in arrays.axes.items()}
    prints = np.empty(count, np.uint64)
    for numbers in arrays.blocks(np.arange(count)):
        for role, axes in arrays.axes.items():
            block = arrays.block(role, numbers)  # (n, [time], channels, *grid)
            start = block[:, 0] if axes.frames else block
            if role == "inputs":
                prints[numbers] = fingerprints(start)
            smallest, largest = _extremes(block, 2 if axes.frames else 1)  # (channels,)
            if not np.isfinite([smallest, largest]).all():
                raise UsageError(_not_finite(f"{role} {arrays.options['places'][role]}", block, numbers))
            low[role], high[role] = np.minimum(low[role], smallest), np.maximum(high[role], largest)
        progress(int(numbers[-1]) + 1, count)
    notes = _constants(name, arrays, low, high)
    copies = _copies(name, arrays, prints, duplicates, notes)
    return Findings(count, sum(map(arrays.bytes_of, arrays.stored)) * count, notes, copies)


def _extremes(block: np.ndarray, channel_axis: int) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest value of each channel; a NaN is both."""
    others = tuple(axis for axis in range(block.ndim) if axis != channel_axis)
    return block.min(axis=others), block.max(axis=others)


def _not_finite(what: str, block: np.ndarray, numbers: np.ndarray) -> str:
    place = tuple(int(i) for i in np.argwhere(~np.isfinite(block))[0])
    bad = int((~np.isfinite(block)).any(axis=tuple(range(1, block.ndim))).sum())
    more = f" (and {bad - 1} more near it)" if bad > 1 else ""
    value = float(block[place])
    where = f"sample {numbers[place[0]]}{more}, index {place[1:]} of (channel, point)"
    return f"{what}: {value} in {where}; mend the file or leave such samples out"


def _constants(name: str, arrays: Arrays, low: dict[str, Any], high: dict[str, Any]) -> list[str]:
    notes = []
    for role in low:
        flat = np.flatnonzero(low[role] == high[role])
        if role == list(low)[-1] and len(flat) == len(low[role]):
            raise UsageError(f"{name}: {role} are {low[role][0]:g} everywhere; there is nothing to learn")
        notes += [f"{role} channel {channel} is {low[role][channel]:g} everywhere" for channel in flat]
    return notes


# --- copies ----------------------------------------------------------------------------------------------------------


def fingerprints(samples: np.ndarray) -> np.ndarray:
    """A number for each sample, the same for the same content whatever the order of its axes in the file."""
    flat = np.ascontiguousarray(samples).reshape(len(samples), -1)
    words = (
        flat.view(f"u{flat.dtype.itemsize}") if flat.dtype.itemsize in (4, 8) else flat.astype(np.float32).view("u4")
    )
    return np.add.reduce(words, axis=1, dtype=words.dtype).astype(np.uint64)  # wraps


def _copies(name: str, arrays: Arrays, prints: np.ndarray, allowed: bool, notes: list[str]) -> int:
    """How many samples are copies of another on their side; copies across the split are refused, or noted."""
    train, test = arrays.split()
    side = {**dict.fromkeys(map(int, train), "train"), **dict.fromkeys(map(int, test), "test")}
    values, counts = np.unique(prints, return_counts=True)
    suspects = np.flatnonzero(np.isin(prints, values[counts > 1]))
    across: list[tuple[int, int]] = []
    within = 0
    for group in _same(arrays, (int(number) for number in suspects if int(number) in side)):
        sides = {which: [number for number in group if side[number] == which] for which in ("train", "test")}
        within += sum(max(0, len(members) - 1) for members in sides.values())
        across += [(number, sides["train"][0]) for number in sides["test"] if sides["train"]]
    if across:
        pairs = ", ".join(f"{a} = {b}" for a, b in across[:SHOWN]) + (", ..." if len(across) > SHOWN else "")
        said = f"{len(across)} test sample{'s' * (len(across) > 1)} with the inputs of a train sample ({pairs})"
        if not allowed:
            fix = "leave them out, keep copies together with --split-by, or say --allow-duplicates"
            raise UsageError(f"{name}: {said}; a model would be scored on what it has seen: {fix}")
        notes.append(said)
    return within


def _same(arrays: Arrays, numbers: Iterable[int]) -> list[list[int]]:
    """Groups of samples with the same inputs, bit for bit."""
    found: dict[bytes, list[int]] = {}
    for number in numbers:
        sample = arrays.block("inputs", np.array([number]))[0]
        start = sample[0] if arrays.rollout else sample
        found.setdefault(hashlib.sha256(np.ascontiguousarray(start).data).digest(), []).append(number)
    return [group for group in found.values() if len(group) > 1]


# --- in words --------------------------------------------------------------------------------------------------------


def sentence(spec: TaskSpec, findings: Findings) -> str:
    """What was understood, said back."""
    size = spec.scales[list(spec.scales)[-1]]
    grid = " x ".join(map(str, size.grid))
    kind = "trajectories" if spec.rollout else "pairs"
    steps = f", {size.steps + 1} frames" if spec.rollout else ""
    channels = f"{spec.in_channels} channel{'s' * (spec.in_channels != 1)}"
    if not spec.rollout:
        channels = f"{spec.in_channels} -> {spec.out_channels} channel{'s' * (spec.out_channels != 1)}"
    copies = f"{findings.copies} copies within a side of the split" if findings.copies else "no duplicates"
    clean = f"{copies}, all finite" if not any("test sample" in note for note in findings.notes) else "all finite"
    return (
        f"{spec.name}: {findings.samples} {kind}, {channels} on {grid}{steps} ({spec.dtype}, "
        f"{human_bytes(findings.bytes)}); {size.train} train / {size.test} test; {clean}."
    )
