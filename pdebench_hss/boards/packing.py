"""Pack a finished board: the files of its records, two per trial, become three.

Nothing that tables are made from changes: records, errors by test sample and learning curves stay the same to the last
bit. Pictures are kept for one trial per row of the leaderboard, the first seed that ended well, in a small form
(`trials.small_pictures`); the others are dropped. Errors by test sample are kept of every metric, or of the board's own
error alone (`OWN_ERRORS`): twenty metrics of hundreds of samples are most of a large board's bytes.

    records of both forms -> new pack -> read back and compared -> in place of the old one -> live files are removed

So a kill at any moment loses nothing. Live files of invalid records are named and stay. Models become one file
(`trials.artefacts`), or are left out.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import StoreError, UsageError
from ..base.files import BadFile, check_writable, remove_stale_temporaries
from ..trials.live_records import LiveRecords
from ..trials.lock import BoardLock
from ..trials.pack_writer import PackWriter, install
from ..trials.packed_records import INDEX, PICTURES, SAMPLES, PackedRecords
from ..trials.small_pictures import PICTURE, SmallPictures, shrink
from ..trials.status import Status
from ..trials.store import Store, read_from
from ..trials.validation import Newer, RecordWarning

Files = LiveRecords | PackedRecords
OWN_ERRORS = tuple(f"error_{name}" for name in ("test_err", "val_err", "relative_l2"))  # intervals, ranks and checks


@dataclass(frozen=True)
class Packed:
    """What packing did: records, pictures and models in the pack, files and bytes in ``records/`` before and after."""

    records: int
    pictures: int
    models: int
    before: tuple[int, int]
    after: tuple[int, int]


@dataclass(frozen=True)
class _Source:
    """Which form a record is packed from, and the facts that decide whether it keeps its pictures."""

    files: Files
    row: Any
    seed: int
    has_pictures: bool


def pack(store: Store, pictures: bool = True, models: bool = True, all_errors: bool = True) -> Packed:
    """Pack a board; a packed one with newer live records is packed again with them. Without ``all_errors`` only
    `OWN_ERRORS` are kept by sample. The same records give the same bytes."""
    found = store.keys()  # refuses links
    if isinstance(store.packed.damage, Newer):
        raise StoreError(f"{store.path}: {store.packed.damage}; pack it with that version")
    if not found:
        raise UsageError(f"{store.path} holds no records; make some with: pdebench-hss run --out {store.path} ...")
    check_writable(store.records_dir, "Nothing was packed.")
    with BoardLock(store.path):
        before = _size(store)
        remove_stale_temporaries(store.records_dir)
        store.finish_writes()
        keys = store.keys()
        sources = {key: source for key in keys if (source := _source(store, key))}
        if not sources:
            raise StoreError(f"no record in {store.path} can be read by this version; it is left as it is")
        shown = _shown(sources) if pictures else set()
        if _is_news(store, sources, pictures, all_errors):
            _keep_damaged(store, sources)
            _write(store, sources, shown, all_errors)
        store.live.remove_arrays_without_record()
        kept = store.models.pack({key: record for key in sources if (record := store.believed(key))}) if models else 0
        if not models:
            store.models.remove_all()
        store.plan_file.tidy()
        return Packed(len(sources), len(shown), kept, before, _size(store))


def _source(store: Store, key: str) -> _Source | None:
    """The form that the record of a key is packed from; None if neither is valid."""
    for files in (store.live, store.packed):
        try:
            record, arrays = read_from(files, key, ())
            if not arrays and files.has_arrays(key):
                raise BadFile("its arrays can't be used")
        except FileNotFoundError:
            continue
        except BadFile as error:
            if isinstance(error, Newer) and files is store.packed:
                raise StoreError(f"record {key} in {store.path} is {error}; pack it with that version") from None
            stays = "it stays where it is" if files is store.live else "it is left out"
            message = f"record {key} in {store.path} can't be packed ({error}); {stays}"
            warnings.warn(message, RecordWarning, stacklevel=2)
        else:
            has_pictures = record.status is Status.OK and "picture_index" in arrays
            return _Source(files, replace(record.trial, seed=0).place, record.trial.seed, has_pictures)
    return None


def _shown(sources: Mapping[str, _Source]) -> set[str]:
    """The trials that keep their pictures: of each row the first seed that ended well and has some."""
    first: dict[Any, tuple[int, str]] = {}
    for key, source in sources.items():
        if source.has_pictures:
            first[source.row] = min(first.get(source.row, (2**63, "")), (source.seed, key))
    return {key for _, key in first.values()}


def _is_news(store: Store, sources: Mapping[str, _Source], pictures: bool, all_errors: bool) -> bool:
    """Whether a new pack would differ from the old one. If not, the old one stays, however it was compressed."""
    _, old_pictures = store.packed.hashes() or ("", "")
    drops_pictures = bool(old_pictures) and not pictures
    is_whole = not store.packed.damage and set(sources) == store.packed.keys()
    if drops_pictures or not is_whole or any(source.files is store.live for source in sources.values()):
        return True
    return not all_errors and any(_is_dropped(name) for key in sources for name in store.packed.array_names(key))


def _is_dropped(name: str) -> bool:
    """Whether an array is left out of a pack that keeps the board's own errors alone."""
    return name.startswith("error_") and name not in OWN_ERRORS


def _keep_damaged(store: Store, sources: Mapping[str, _Source]) -> None:
    """Keep the files of a partly damaged pack unchanged in ``records/set_aside``."""
    if not store.packed.damage and store.packed.keys() <= set(sources) and not store.packed.lacks_pictures():
        return
    folder = store.records_dir / "set_aside"
    for name in (INDEX, SAMPLES, PICTURES):
        path = store.records_dir / name
        if path.is_file() and not path.is_symlink():
            folder.mkdir(exist_ok=True)
            shutil.copyfile(path, _free(folder / name))
    message = f"the pack in {store.path} is damaged; its files as they were are kept in records/set_aside"
    warnings.warn(message, RecordWarning, stacklevel=2)


def _free(path: Path) -> Path:
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{number}.{path.name}")
    return free


def _write(store: Store, sources: Mapping[str, _Source], shown: Collection[str], all_errors: bool) -> None:
    """Write the pack, read it back, install it, and only then remove the live files that are in it."""
    install_pack(store.records_dir, {key: source.files for key, source in sources.items()}, shown, all_errors)
    for key, source in sources.items():
        if source.files is store.live:
            store.live.remove(key)


def install_pack(folder: Path, sources: Mapping[str, Files], shown: Collection[str], all_errors: bool = True) -> None:
    """Make one pack of the records of these keys, each read from where it is, in this order; those ``shown`` keep their
    pictures if they have any. What is written is read back and compared before it counts."""
    writer = PackWriter(folder)
    written = {}
    for key, files in sources.items():
        content, arrays = files.content(key), read_from(files, key, ())[1]
        pictures = _pictures(files, key, arrays, key in shown)
        dropped = set() if all_errors else {name for name in arrays if _is_dropped(name)}
        arrays = {name: array for name, array in arrays.items() if name not in dropped}
        writer.add(key, content, _without_pictures(arrays), pictures, {*dropped, *files.left_out(key)})
        written[key] = _fingerprint(content, arrays), pictures is not None
    try:
        fresh = writer.write()
    except OSError as error:
        raise StoreError(f"can't write the pack of {folder}: {error.strerror or error}; nothing changed") from None
    for key, expected in written.items():
        try:
            content, arrays = fresh.content(key), read_from(fresh, key, ())[1]
            same = (_fingerprint(content, arrays), "picture_index" in arrays) == expected
        except (BadFile, FileNotFoundError):
            same = False
        if not same:
            raise StoreError(f"the new pack of {folder} does not give back record {key}; nothing was changed")
    install(folder)


def _pictures(files: Files, key: str, arrays: Mapping[str, np.ndarray], wanted: bool) -> SmallPictures | None:
    """Pictures of a pack are copied unchanged, so that packing again does not round them again."""
    if not wanted:
        return None
    return files.pictures(key) if isinstance(files, PackedRecords) else shrink(arrays)


def _without_pictures(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: array for name, array in arrays.items() if name not in PICTURE}


def _fingerprint(content: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    """A digest of everything about a record that a pack must return to the last bit."""
    found = hashlib.sha256(json.dumps(content).encode())
    for name, array in sorted(_without_pictures(arrays).items()):
        found.update(f"{name} {array.dtype.name} {array.shape}".encode())
        found.update(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes())
    return found.hexdigest()


def _size(store: Store) -> tuple[int, int]:
    """Files of records, and their bytes."""
    sizes = [path.stat().st_size for path in store.records_dir.iterdir() if path.is_file()]
    return len(sizes), sum(sizes)
