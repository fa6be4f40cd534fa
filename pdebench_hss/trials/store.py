"""The store: the directory that holds records.

    records/<key>.json     one per trial, written atomically as soon as the trial ends (`live_records`)
    records/<key>.npz      its arrays: per-sample test errors, the learning curve, three pictures
    records/packed.*       all of these in three files, once a board is finished (`packed_records`, `boards.packing`)
    records/set_aside/     files that were found there and are not records (`validation`); moved by `run`, never read
    attempts/              records of later attempts that ended worse than the one that is kept
    conflicts/1/, 2/ ...   packs of the different results that merged boards state for one trial (`boards.merging`)
    plan.json              the cells that were asked for, so that missing ones can be shown, and the commands
    models/                trained models (`artefacts`)
    predictions/           their predictions, if they were to be kept (`predictions`)
    checkpoints/, logs/    work in progress
    *.csv, *.md            tables, derived from the above at any time

Records are read from both forms alike. Where a key has both, the live files count: they were written later.

Files may come from anybody, so they are validated when they are read. What fails counts as missing, with a warning
that names it.
"""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.collector import collector_paused
from ..base.errors import StoreError
from ..base.files import BadFile, check_writable, remove_stale_temporaries
from ..training.metrics import not_finite
from . import validation
from .artefacts import ModelFiles
from .live_records import LiveRecords
from .pack_writer import finish_install
from .packed_records import PackDamaged, PackedRecords
from .plan_file import Cells, PlanFile, Planned, Shards
from .predictions import PredictionFiles
from .record import FIELDS, Record, claimed, missing
from .status import Status
from .validation import KEY, Invalid, Newer
from .validation import RecordWarning as RecordWarning

if TYPE_CHECKING:
    import numpy as np

    from .trial import Trial

    Entry = tuple[Record, dict[str, np.ndarray]]

SCORES = ("error_test_err", "test_group")  # the arrays that tables need: errors by test sample, and the start of each
SMALL = 4096  # bytes of scores that are cached: less than half a gigabyte for 100,000 records
# A record is replaced only by one that ended at least as well: a forced run that fails or diverges does not remove an
# error from the board, and one that fails does not undo a final status.
WORTH = {Status.OK: 2, Status.SKIPPED: 1, Status.DIVERGED: 1, Status.OVER_BUDGET: 1}


@dataclasses.dataclass(frozen=True)
class Found:
    """What `records/` holds, by key; for a key that is not there, None, or why it can't be known."""

    by_key: dict[str, Record | BadFile]
    unknown: Newer | None = None

    def get(self, key: str) -> Record | BadFile | None:
        return self.by_key.get(key, self.unknown)


class Store:
    """A directory of records. Only the driver writes to it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.records_dir = self.path / "records"
        self.attempts_dir = self.path / "attempts"
        self.conflicts_dir = self.path / "conflicts"
        self.checkpoints_dir = self.path / "checkpoints"
        self.logs_dir = self.path / "logs"
        self.models = ModelFiles(self.path / "models")
        self.predictions = PredictionFiles(self.path / "predictions")
        self.plan_file = PlanFile(self.path / "plan.json")
        self.live = LiveRecords(self.records_dir)
        self.packed = PackedRecords(self.records_dir)
        # Records that were read, the state of their files then, and their `SCORES` where those are small.
        self._known: dict[str, tuple[Any, Record, dict[str, np.ndarray] | None]] = {}

    def prepare(self) -> None:
        """Make the folders, check that they are writable, and remove what killed writers left. The caller must hold the
        lock: files that another run is writing look the same."""
        self._refuse_links()
        for folder in (self.path, self.records_dir, self.checkpoints_dir, self.logs_dir):
            check_writable(folder)
            remove_stale_temporaries(folder)
        for folder in (self.models.folder, self.predictions.folder):
            remove_stale_temporaries(folder)
        self.finish_writes()

    def finish_writes(self) -> None:
        """Do the last step of writers that were killed before it. The caller must hold the lock."""
        self.live.finish_writes()
        finish_install(self.records_dir)
        self.models.finish_writes(self.believed)
        self.predictions.finish_writes(self.believed)

    def _refuse_links(self) -> None:
        own = (self.records_dir, self.attempts_dir, self.conflicts_dir, self.checkpoints_dir, self.logs_dir)
        for folder in (*own, self.models.folder, self.predictions.folder):
            if folder.is_symlink():
                raise StoreError(
                    f"{folder} is a symbolic link; a board holds its own files: put a copy of the folder in its place"
                )

    def keys(self) -> list[str]:
        """The names of all files and lines that claim to be records, sorted."""
        self._refuse_links()
        if damage := self.packed.damage:
            self._warn("", damage)
        return sorted(self.live.keys() | self.packed.keys())

    def get(self, key: str) -> Record | None:
        """The record of a trial, or None; an invalid one is reported and counts as missing."""
        try:
            return self._remembered(key)
        except FileNotFoundError:
            return None
        except BadFile as error:
            self._warn(key, error)
            return None

    def _warn(self, key: str, error: BadFile) -> None:
        kept = "it is kept, and left out" if isinstance(error, Newer) else "it counts as missing"
        name = f"{key} of the pack" if self.packed.has(key) and not self.live.has(key) else f"{key}.json"
        message = f"record {name} in {self.path} can't be used ({error}); {kept}"
        if isinstance(error, PackDamaged):  # one line, not one for each of its records
            message = f"{self.records_dir}: {error}; records that are not found count as missing"
        warnings.warn(message, RecordWarning, stacklevel=3)

    def look(self) -> Found:
        """All that `records/` holds: each record, or why it is invalid, which is also reported."""
        found: dict[str, Record | BadFile] = {}
        with collector_paused():
            for key in self.keys() if self.records_dir.is_dir() else ():
                try:
                    found[key] = self._remembered(key)
                except FileNotFoundError:
                    continue
                except BadFile as error:
                    self._warn(key, error)
                    found[key] = type(error)(*error.args)  # the error itself holds on to all that was read
        damage = self.packed.damage
        return Found(found, damage if isinstance(damage, Newer) else None)

    def _remembered(self, key: str) -> Record:
        return self._recall(key)[0]

    def _recall(self, key: str) -> tuple[Record, dict[str, np.ndarray] | None]:
        """`read`, without reading unchanged files again; arrays that are not small are not cached (None)."""
        live = self.live.state(key)
        state = live if live[0] else (live, self.packed.state())  # a live record counts, whatever a pack holds
        if (known := self._known.get(key)) is not None and known[0] == state:
            return known[1:]
        record, arrays = self.read(key, SCORES[1:])
        scores = {name: arrays[name] for name in SCORES if name in arrays} if record.status is Status.OK else {}
        small = sum(array.nbytes for array in scores.values()) <= SMALL
        self._known[key] = state, record, scores if small else None
        return record, scores

    def read(self, key: str, names: Collection[str] | None = None) -> tuple[Record, dict[str, np.ndarray]]:
        """A record and its arrays: the named ones, all if none is named, or (None) only the errors by test sample of a
        trial that ended well. Raises `BadFile` if it is invalid."""
        try:
            return read_from(self.live, key, names)
        except FileNotFoundError:
            pass
        except BadFile:
            if self.live.has(key):
                raise
        return read_from(self.packed, key, names)  # perhaps just now

    def samples(self, key: str, *names: str) -> dict[str, np.ndarray]:
        """The arrays of a record, or the named ones of them; empty if there are no valid ones."""
        try:
            arrays = self.read(key, names)[1]
        except FileNotFoundError:
            return {}
        except BadFile as error:
            self._warn(key, error)
            return {}
        return {name: array for name, array in arrays.items() if not names or name in names}

    def all(self) -> list[Record]:
        """Every valid record, in the order of keys."""
        if not self.path.is_dir():
            raise StoreError(f"{self.path}: no such directory")
        found = (self.get(key) for key in self.keys())
        return [record for record in found if record is not None]

    # --- writing -----------------------------------------------------------------------------------------------------

    def put(self, record: Record) -> Record | None:
        """Write a record and return None; if an existing one ended better, keep and return that instead.

        The worse one is kept in ``attempts/`` until an attempt ends as well as the record that is shown. If a record
        carries its model, call `keep_model` first.
        """
        kept = self._kept(record.key)
        if kept is not None and WORTH.get(record.status, 0) < WORTH.get(kept.status, 0):
            LiveRecords(self.attempts_dir).write(record)
            self.predictions.drop(record.key)
            return kept
        self.live.write(record)
        self.models.settle(record)
        self.predictions.settle(record)
        self.checkpoint(record.key).unlink(missing_ok=True)
        LiveRecords(self.attempts_dir).remove(record.key)
        return None

    def keep_model(self, record: Record) -> Record:
        """Write the model that a record carries, before `put`; returns the record with its name instead."""
        return dataclasses.replace(self.models.write(record), left={})

    def believed(self, key: str) -> Record | None:
        """A record if there is a valid one; an invalid one is not reported."""
        try:
            return self._remembered(key)
        except (FileNotFoundError, BadFile):
            return None

    def _kept(self, key: str) -> Record | None:
        try:
            return self._remembered(key)
        except Newer as error:
            raise StoreError(f"record {key}.json in {self.path} is kept: {error}") from None
        except (FileNotFoundError, BadFile):
            return None

    def set_aside(self) -> list[str]:
        """Move files that are not valid records to ``records/set_aside``, with a copy of a partly unusable plan; return
        a line for each. The caller must hold the lock. Records of a newer schema stay, and so do invalid ones in a
        pack: they are named, and a new live record will count instead."""
        lines = self.plan_file.set_aside(self.records_dir / "set_aside")
        for key in self.keys():
            try:
                self._remembered(key)
            except (Newer, FileNotFoundError):
                continue
            except BadFile as error:
                if not self.live.has(key):
                    lines.append(f"record {key} of the pack can't be used ({error})")
                    continue
                moved = self.live.set_aside(key, self.records_dir / "set_aside")
                where = ", ".join(f"records/set_aside/{path.name}" for path in moved)
                lines.append(f"record {key}.json can't be used ({error}); set aside as {where}")
        return lines

    def checkpoint(self, key: str) -> Path:
        return self.checkpoints_dir / f"{key}.pt"

    def log(self, key: str) -> Path:
        return self.logs_dir / f"{key}.log"

    # --- the plan ----------------------------------------------------------------------------------------------------

    def plan(self) -> Cells:
        """The cells asked for so far: cell identity -> the trial (with its key) that stands for it now."""
        cells, _, complaints = self.plan_file.read()
        for complaint in complaints:
            warnings.warn(f"plan.json in {self.path} can't be used: {complaint}", RecordWarning, stacklevel=2)
        return cells

    def commands(self) -> list[str]:
        """The commands that asked for these cells, each once, in the order of their first use."""
        return self.plan_file.read()[1]

    def add_to_plan(self, trials: Iterable[Trial], command: str = "", shards: Shards | None = None) -> None:
        """Later plans win: a cell that is asked for again, with a newer model say, is represented by its new trial."""
        self.plan_file.add({trial.cell: Planned(trial.key, trial) for trial in trials}, command, shards)

    def current(self) -> list[Record]:
        """One record per planned cell, ``missing`` where there is none yet; all records if no plan is known."""
        return [record for record, _ in self.entries()]

    def entries(self, *names: str) -> Iterator[tuple[Record, dict[str, np.ndarray]]]:
        """The records of `current`, each with its errors by test sample and the named arrays, from a single read of its
        files."""
        return self._entries(lambda key: self.read(key, names or None))

    def scored(self) -> Iterator[tuple[Record, dict[str, np.ndarray]]]:
        """The same with `SCORES` alone. Files that this store has read and that have not changed are not read again."""
        return self._entries(self._scores)

    def _scores(self, key: str) -> tuple[Record, dict[str, np.ndarray]]:
        record, scores = self._recall(key)
        return (record, scores) if scores is not None else self.read(key, SCORES[1:])

    def _entries(self, read: Callable[[str], Entry]) -> Iterator[Entry]:
        plan = self.plan()
        if not plan:
            yield from self._entries_without_plan(read)
            return
        self._refuse_links()
        for entry in plan.values():
            key, trial = entry.key, entry.trial
            try:
                record, arrays = read(key)
                yield record.with_trial(trial), arrays  # with the labels of the plan
            except FileNotFoundError:
                yield self._without_record(key, trial), {}
            except BadFile as error:
                self._warn(key, error)
                yield missing(key, trial, f"its record can't be used: {error}"), {}

    def _without_record(self, key: str, trial: Trial) -> Record:
        try:
            claims = [read_from(side, key)[0] for side in self.conflicts if side.has(key)]
        except BadFile as error:
            return missing(key, trial, f"its records contradict each other, and one can't be read: {error}")
        if not claims:
            return missing(key, trial)
        return Record(key, trial, Status.CONFLICT, " and ".join(map(claimed, claims)))

    @cached_property
    def conflicts(self) -> list[PackedRecords]:
        """Packs of contradicting records, in the order of their folders; a key is in at least two of them."""
        folders = (self.conflicts_dir / str(number) for number in itertools.count(1))
        return [PackedRecords(folder) for folder in itertools.takewhile(Path.is_dir, folders)]

    def _entries_without_plan(self, read: Callable[[str], Entry]) -> Iterator[Entry]:
        """One record for each place in the tables: where there are several and no plan to choose, the last to end."""
        chosen: dict[Any, Entry] = {}
        for key in self.keys():
            try:
                record, arrays = read(key)
            except FileNotFoundError:
                continue
            except BadFile as error:
                self._warn(key, error)
                continue
            place = record.trial.place
            if place not in chosen or _ended(chosen[place][0]) <= _ended(record):
                chosen[place] = record, arrays
        yield from chosen.values()


def _ended(record: Record) -> float:
    return float(record.provenance.get("ended", 0.0))


def read_from(
    files: LiveRecords | PackedRecords, key: str, names: Collection[str] | None = None
) -> tuple[Record, dict[str, np.ndarray]]:
    """`Store.read` for one of the two forms."""
    if not KEY.fullmatch(key):
        raise Invalid("its name is not a key")
    names = names and validation.with_partners(names)
    fields, sha256 = validation.check_record(files.content(key), key, FIELDS)
    record = Record.from_plain(fields)
    if record.status is Status.OK and (reason := not_finite(record.metrics)):  # older versions called such a trial ok
        record = dataclasses.replace(record, status=Status.DIVERGED, reason=reason)
    if record.status is not Status.OK:
        return record, {} if names is None else _other_arrays(files, key, sha256, names)
    errors = [f"error_{name}" for name in record.metrics]
    arrays = files.arrays(key, sha256, [] if names is not None and not names else [*errors, *(names or ())])
    validation.check_errors(fields, arrays, files.left_out(key))
    validation.check_drawn(arrays)
    if sha256 is None:
        record = dataclasses.replace(record, metrics=validation.means_behind(record.metrics, arrays))
    return record, arrays


def _other_arrays(
    files: LiveRecords | PackedRecords, key: str, sha256: str | None, names: Collection[str]
) -> dict[str, np.ndarray]:
    """The arrays of a trial that did not end well, such as a learning curve; it may have none."""
    try:
        arrays = files.arrays(key, sha256, names)
        validation.check_drawn(arrays)
        return arrays
    except BadFile:
        return {}
