"""What a board's files say about each other. Nothing is trained, made or scored again here: that is `use.verifying`.

    files       plain files inside the board; packs, models and predictions against the hashes that records hold
    records     key against trial, content and arrays against hashes, errors against the errors of test samples
    plan        cells against the keys of their trials
    provenance  the machine's id against the machine, times in order; one content for each recipe of data
    tables      made again from the records: `table_checks`

Every check ends as a `Finding`: confirmed, contradicted, or not checked with the reason.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..base.files import BadFile, files_below, not_plain
from ..base.hashing import digest
from ..trials import predictions
from ..trials.artefacts import NoModel
from ..trials.predictions import NoPredictions
from ..trials.record import Record
from ..trials.store import Store
from ..trials.validation import Newer, RecordWarning
from . import trust
from .findings import CONFIRMED, CONTRADICTED, UNCHECKED, Finding

MACHINE = ("cpu", "cores", "memory_gb", "system", "gpus")  # what the id of a machine is a hash of
CLOCK_SKEW = 86400.0  # seconds that another machine's clock may be ahead


def check_files(store: Store) -> Iterator[Finding]:
    """Everything but the records: what the board is made of, and the files that records name by a hash."""
    strange = sorted((path, why) for path, status in files_below(store.path) if (why := not_plain(status)))
    for path, why in strange:
        yield Finding("files", CONTRADICTED, str(path.relative_to(store.path)), why)
    if strange:
        return  # the rest would follow links
    for pack in (store.packed, *store.conflicts):
        if pack.damage:
            yield Finding("files", CONTRADICTED, str(pack.folder.relative_to(store.path)), str(pack.damage))
        elif pack.keys():
            lost = _lacks_pictures(pack)
            detail = "packed.pictures.npz is not what was packed, or missing" if lost else ""
            yield Finding("files", CONTRADICTED if lost else CONFIRMED, f"{pack.folder.name} (pack)", detail)
    if (store.path / trust.FILE).exists():
        try:
            trust.checks_in(store.path)
        except BadFile as error:
            yield Finding("files", UNCHECKED if isinstance(error, Newer) else CONTRADICTED, trust.FILE, str(error))


def _lacks_pictures(pack: Any) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecordWarning)
        return bool(pack.lacks_pictures())


def check_records(store: Store) -> Iterator[Finding]:
    """Each record with its arrays, and the model and predictions that it names."""
    keys = store.keys()
    cells = {planned.key: planned.trial.words for planned in store.plan().values()}
    for key in keys:
        try:
            record, _ = store.read(key, ())
        except Newer as error:
            yield Finding("records", UNCHECKED, key, str(error), key)
        except (BadFile, FileNotFoundError) as error:
            yield Finding("records", CONTRADICTED, " ".join(filter(None, (cells.get(key), key))), str(error), key)
        else:
            yield Finding("records", CONFIRMED, key)
            yield from _check_provenance(record)
            yield from _check_artefacts(store, record)
    complaints = store.plan_file.read()[2]
    yield from (Finding("plan", CONTRADICTED, "plan.json", complaint) for complaint in complaints)
    if store.plan_file.path.exists() and not complaints:
        yield Finding("plan", CONFIRMED, "plan.json")
    yield from _check_data_hashes(found for key in keys if (found := store.believed(key)) is not None)


def _check_provenance(record: Record) -> Iterator[Finding]:
    machine, started, ended = (record.provenance.get(name) for name in ("hardware", "started", "ended"))
    parts = {name: (machine or {}).get(name) for name in MACHINE}
    if machine and all(name in machine for name in MACHINE) and digest(parts)[:12] != machine.get("id"):
        words = f"its machine's id is {machine.get('id')!r}, and its parts give {digest(parts)[:12]!r}"
        yield Finding("provenance", CONTRADICTED, record.trial.words, words, record.key)
    elif started is not None and ended is not None and not started <= ended <= time.time() + CLOCK_SKEW:
        words = f"it started at {started!r} and ended at {ended!r}, which is before that or still to come"
        yield Finding("provenance", CONTRADICTED, record.trial.words, words, record.key)
    elif machine and started is not None:
        yield Finding("provenance", CONFIRMED, record.key)


def _check_artefacts(store: Store, record: Record) -> Iterator[Finding]:
    if record.artefacts.get("model", {}).get("sha256"):
        yield _check_kept(record, f"models/{record.key}", lambda: store.models.read(record))
    if record.artefacts.get(predictions.KIND, {}).get("sha256"):
        name = f"predictions/{record.key}.h5"
        yield _check_kept(record, name, lambda: predictions.read(store.predictions.path(record), record))


def _check_kept(record: Record, name: str, read: Callable[[], object]) -> Finding:
    """What a record names by its hash is there, and is that."""
    try:
        read()
    except (NoModel, NoPredictions) as error:
        return Finding("files", UNCHECKED, name, str(error))
    except BadFile as error:
        return Finding("files", CONTRADICTED, name, str(error), record.key)
    return Finding("files", CONFIRMED, name)


def _check_data_hashes(records: Iterable[Record]) -> Iterator[Finding]:
    """Records of one recipe were scored on one content."""
    first: dict[str, Record] = {}
    for record in records:
        if (sha256 := record.data.get("sha256")) is None:
            continue
        known = first.setdefault(record.trial.data_id, record)
        if known.data["sha256"] != sha256:
            words = f"its data have the content {sha256[:12]}, those of {known.trial.words} {known.data['sha256'][:12]}"
            yield Finding("provenance", CONTRADICTED, record.trial.words, f"{words}, by one recipe", record.key)
