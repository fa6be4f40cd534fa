"""What a board's files say about each other. Nothing is trained, made or scored again here: that is `use.verifying`.

    files       plain files inside the board; packs, models and predictions against the hashes that records hold
    records     key against trial, content and arrays against hashes, errors against the errors of test samples
    plan        cells against the keys of their trials
    provenance  the machine's id against the machine, times in order; one content for each recipe of data
    tables      made again from the records, and compared byte by byte

Every check ends as a `Finding`: confirmed, contradicted, or not checked with the reason.
"""

from __future__ import annotations

import csv
import io
import os
import stat
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.errors import PdebenchError
from ..base.files import BadFile
from ..base.hashing import digest
from ..contract.registry import Registry
from ..trials import predictions
from ..trials.artefacts import NoModel
from ..trials.predictions import NoPredictions
from ..trials.record import Record
from ..trials.store import Store
from ..trials.validation import Newer, RecordWarning
from . import trust
from .writing import write_board

CONFIRMED, CONTRADICTED, UNCHECKED = "confirmed", "contradicted", "not checked"
MACHINE = ("cpu", "cores", "memory_gb", "system", "gpus")  # what the id of a machine is a hash of
CLOCK_SKEW = 86400.0  # seconds that another machine's clock may be ahead


@dataclass(frozen=True)
class Finding:
    """What came of one check of one thing.

    key, level, how   of a trial whose result was confirmed or contradicted by scoring or training again (`trust`)
    """

    check: str
    verdict: str
    subject: str
    detail: str = ""
    key: str = ""
    level: str = ""
    how: str = ""


def check_files(store: Store) -> Iterator[Finding]:
    """Everything but the records: what the board is made of, and the files that records name by a hash."""
    strange = list(_strange(store.path))
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


def _strange(folder: Path) -> Iterator[tuple[Path, str]]:
    """Links, pipes and devices: a board holds plain files in plain folders."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        mode = entry.stat(follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            yield Path(entry.path), "it is a symbolic link"
        elif stat.S_ISDIR(mode):
            yield from _strange(Path(entry.path))
        elif not stat.S_ISREG(mode):
            yield Path(entry.path), "it is not a regular file"


def _lacks_pictures(pack: Any) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecordWarning)
        return bool(pack.lacks_pictures())


def check_records(store: Store) -> Iterator[Finding]:
    """Each record with its arrays, and the model and predictions that it names."""
    keys = store.keys()
    for key in keys:
        try:
            record, _ = store.read(key, ())
        except Newer as error:
            yield Finding("records", UNCHECKED, key, str(error), key)
        except (BadFile, FileNotFoundError) as error:
            yield Finding("records", CONTRADICTED, key, str(error), key)
        else:
            yield Finding("records", CONFIRMED, key)
            yield from _check_provenance(record)
            yield from _check_artefacts(store, record)
    complaints = store.plan_file.read()[2]
    yield from (Finding("plan", CONTRADICTED, "plan.json", complaint) for complaint in complaints)
    if store.plan_file.path.exists() and not complaints:
        yield Finding("plan", CONFIRMED, "plan.json")
    yield from _check_data_hashes(found for key in keys if (found := store.believed(key)) is not None)


def cell_of(record: Record) -> str:
    trial = record.trial
    return f"{trial.task_label} {trial.model_label} seed {trial.seed}"


def _check_provenance(record: Record) -> Iterator[Finding]:
    machine, started, ended = (record.provenance.get(name) for name in ("hardware", "started", "ended"))
    parts = {name: (machine or {}).get(name) for name in MACHINE}
    if machine and all(name in machine for name in MACHINE) and digest(parts)[:12] != machine.get("id"):
        words = f"its machine's id is {machine.get('id')!r}, and its parts give {digest(parts)[:12]!r}"
        yield Finding("provenance", CONTRADICTED, cell_of(record), words, record.key)
    elif started is not None and ended is not None and not started <= ended <= time.time() + CLOCK_SKEW:
        words = f"it started at {started!r} and ended at {ended!r}, which is before that or still to come"
        yield Finding("provenance", CONTRADICTED, cell_of(record), words, record.key)
    elif machine and started is not None:
        yield Finding("provenance", CONFIRMED, record.key)


def _check_artefacts(store: Store, record: Record) -> Iterator[Finding]:
    if record.artefacts.get("model", {}).get("sha256"):
        try:
            store.models.read(record)
            yield Finding("files", CONFIRMED, f"models/{record.key}")
        except NoModel as error:
            yield Finding("files", UNCHECKED, f"models/{record.key}", str(error))
        except BadFile as error:
            yield Finding("files", CONTRADICTED, f"models/{record.key}", str(error), record.key)
    if record.artefacts.get(predictions.KIND, {}).get("sha256"):
        try:
            predictions.read(store.predictions.path(record), record)
            yield Finding("files", CONFIRMED, f"predictions/{record.key}.h5")
        except NoPredictions as error:
            yield Finding("files", UNCHECKED, f"predictions/{record.key}.h5", str(error))
        except BadFile as error:
            yield Finding("files", CONTRADICTED, f"predictions/{record.key}.h5", str(error), record.key)


def _check_data_hashes(records: Iterable[Record]) -> Iterator[Finding]:
    """Records of one recipe were scored on one content."""
    first: dict[str, Record] = {}
    for record in records:
        if (sha256 := record.data.get("sha256")) is None:
            continue
        known = first.setdefault(record.trial.data_id, record)
        if known.data["sha256"] != sha256:
            words = f"its data have the content {sha256[:12]}, those of {cell_of(known)} {known.data['sha256'][:12]}"
            yield Finding("provenance", CONTRADICTED, cell_of(record), f"{words}, by one recipe", record.key)


# --- tables -----------------------------------------------------------------------------------------------------------


def check_tables(store: Store, registry: Registry) -> Iterator[Finding]:
    """Tables made again. CSV files of another version may lack columns; those that both have must agree."""
    with tempfile.TemporaryDirectory(prefix="tables-") as name:
        folder = Path(name)
        try:
            made = [path.name for path in write_board(store, registry, folder)[1]]
        except PdebenchError as error:
            yield Finding("tables", UNCHECKED, "all tables", str(error))
            return
        there = [name for name in made if (store.path / name).is_file()]
        differing = [name for name in there if (store.path / name).read_bytes() != (folder / name).read_bytes()]
        yield from (Finding("tables", CONFIRMED, name) for name in there if name not in differing)
        yield from (Finding("tables", UNCHECKED, name, "it is not there") for name in made if name not in there)
        older = False
        for name in sorted(differing, key=lambda name: not name.endswith(".csv")):
            if name.endswith(".csv"):
                finding = _compare_csv(
                    name, *((place / name).read_text("utf-8", "replace") for place in (store.path, folder))
                )
                older = older or finding.verdict == UNCHECKED
            else:
                finding = _compare_text(name, store.path / name, folder / name, older)
            yield finding


def _compare_csv(name: str, stated: str, made: str) -> Finding:
    (header, *rows), (new_header, *new_rows) = (list(csv.reader(io.StringIO(text))) or [[]] for text in (stated, made))
    if len(rows) != len(new_rows):
        return Finding("tables", CONTRADICTED, name, f"it has {len(rows)} rows, the records give {len(new_rows)}")
    common = [column for column in header if column in new_header]
    for number, (row, new) in enumerate(zip(rows, new_rows, strict=True), start=2):
        a, b = dict(zip(header, row, strict=False)), dict(zip(new_header, new, strict=False))
        for column in common:
            if a.get(column) != b.get(column):
                cell = " ".join(b.get(word, "") for word in ("task", "model", "seed")).strip()
                words = f"line {number} ({cell}): {column} is {a.get(column)}, the records give {b.get(column)}"
                return Finding("tables", CONTRADICTED, name, words)
    if header == new_header:
        return Finding("tables", CONTRADICTED, name, "it is spelled otherwise than the records give")
    others = ", ".join(sorted(set(header) ^ set(new_header))[:5])
    return Finding("tables", UNCHECKED, name, f"of another version: the columns that both have agree; others: {others}")


def _compare_text(name: str, stated: Path, made: Path, older: bool) -> Finding:
    if older:
        return Finding("tables", UNCHECKED, name, "the tables are of another version")
    a, b = (path.read_text("utf-8", "replace").splitlines() for path in (stated, made))
    pairs = enumerate(zip([*a, *[""] * len(b)], [*b, *[""] * len(a)], strict=False), start=1)
    line, (ours, theirs) = next(((n, pair) for n, pair in pairs if pair[0] != pair[1]), (1, ("", "")))
    words = f"line {line} is {ours[:60]!r}, the records give {theirs[:60]!r}"
    return Finding("tables", CONTRADICTED, name, words)
