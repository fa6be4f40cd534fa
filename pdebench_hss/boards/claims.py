"""Claims: what the records of several boards state about one trial, and which of them counts.

A claim's *result* is the status, the data and the error of every test sample; times and the machine are not part of it.
Claims are worth

    2   ok, diverged, over budget: a result
    1   skipped
    0   failed, timed out, out of memory: perhaps the machine's fault

and only those of the highest worth count. Of claims with one result the earliest is kept, so that a trial that ran
twice is there once. Different results are a conflict: one claim for each is kept. All of this is a minimum or a union
over a set, so neither order nor grouping of boards matters.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import StoreError
from ..base.files import BadFile
from ..base.hashing import digest
from ..trials.live_records import LiveRecords
from ..trials.packed_records import PackedRecords
from ..trials.record import Record, claimed
from ..trials.status import Status
from ..trials.store import Store, read_from

Files = LiveRecords | PackedRecords
RESULTS = (Status.OK, Status.DIVERGED, Status.OVER_BUDGET)


@dataclass(frozen=True)
class Claim:
    """A record in one of several boards, by what must be known of it to choose.

    order    decides between claims with one result: the start of the trial, then the content of the record
    data     the recipe and the content of its data; empty if it has none
    """

    board: Path
    files: Files
    key: str
    result: str
    worth: int
    order: tuple[float, str]
    words: str
    data: tuple[str, str] | tuple[()]


def result_of(record: Record, errors: np.ndarray | None) -> str:
    """A hash of a record's result; ``errors`` are those of its test samples (``error_test_err``), if it has any."""
    stated = [repr(record.metrics.get(name)) for name in ("test_err", "val_err")]
    samples = "" if errors is None else hashlib.sha256(np.ascontiguousarray(errors, "<f8").tobytes()).hexdigest()
    return digest([record.key, record.status.value, record.data.get("sha256"), *stated, samples])


def claims_of(store: Store) -> list[Claim]:
    """All records of a board, those in conflict too. One that can't be used is an error: merging must lose nothing."""
    places: list[tuple[Files, str]] = [
        (store.live if store.live.has(key) else store.packed, key) for key in _keys(store)
    ]
    places += [(side, key) for side in store.conflicts for key in sorted(side.keys())]
    return [_claim(store.path, files, key) for files, key in places]


def _keys(store: Store) -> list[str]:
    for pack in (store.packed, *store.conflicts):
        if pack.damage:
            raise StoreError(f"{pack.folder}: {pack.damage}; mend the board before it is merged")
    return store.keys()


def _claim(board: Path, files: Files, key: str) -> Claim:
    try:
        record, arrays = read_from(files, key)
        content = json.dumps(files.content(key), sort_keys=True)
    except (BadFile, FileNotFoundError) as error:
        advice = f"see `pdebench-hss verify {board}`; `run` sets such records aside and makes them again"
        raise StoreError(f"record {key} in {board} can't be merged ({error}); {advice}") from None
    sha256 = record.data.get("sha256")
    return Claim(
        board,
        files,
        key,
        result_of(record, arrays.get("error_test_err")),
        2 if record.status in RESULTS else int(record.status is Status.SKIPPED),
        (float(record.provenance.get("started") or 0.0), hashlib.sha256(content.encode()).hexdigest()),
        f"{record.trial.words}: {claimed(record)}",
        (record.trial.data_id, sha256) if sha256 else (),
    )


def chosen(claims: Iterable[Claim]) -> list[Claim]:
    """Of all claims about one trial those that count, in their order: one, or one for each of different results."""
    claims = list(claims)
    best = max(claim.worth for claim in claims)
    kept: dict[Any, Claim] = {}
    for claim in claims:
        result = claim.result if best == 2 else ""  # failures and skips don't contradict each other
        if claim.worth == best and (result not in kept or _before(claim, kept[result])):
            kept[result] = claim
    return sorted(kept.values(), key=lambda claim: (claim.order, claim.result))


def _before(a: Claim, b: Claim) -> bool:
    """Of two copies of one record that with more arrays and with pictures comes first: a pack may have dropped them."""
    return _whole(a) < _whole(b) if a.order == b.order else a.order < b.order


def _whole(claim: Claim) -> tuple[int, bool]:
    return len(claim.files.left_out(claim.key)), not _has_pictures(claim)


def _has_pictures(claim: Claim) -> bool:
    try:
        return "picture_index" in read_from(claim.files, claim.key, ("picture_index",))[1]
    except BadFile:
        return False
