"""The models that trials leave, in a board's folder ``models/``. Light: only `weights` knows what the bytes mean.

    models/<key>.json           what the model is: its task, options, normaliser, plugin, and the hash of the next file
    models/<key>.safetensors    its weights
    models/packed.zip           all of these in one file, once a board is packed

A record holds the hash of its model's JSON file, which holds the hash of the weights: changed bytes are refused. Both
files are written under temporary names before the record and renamed after it. A kill at any moment leaves the old
record and model or both new ones; a record never names a model that was never written.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.files import BadFile, read_plain, replacing, write_files
from .validation import parse_json

if TYPE_CHECKING:
    from .record import Record

SCHEMA = 1  # of the JSON file
PACKED = "packed.zip"
PENDING = ".new"  # precedes the suffix of a file whose record may not be written yet
SUFFIXES = (".json", ".safetensors")
LARGEST_DESCRIPTION = 16 << 20  # bytes
LARGEST_WEIGHTS = 1 << 40
EPOCH = (1980, 1, 1, 0, 0, 0)  # fixed date of the pack's members: the same models give the same bytes


class NoModel(BadFile):
    """There is no model to load; the message says why."""


class ModelFiles:
    """The files of models in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    # --- reading -----------------------------------------------------------------------------------------------------

    def read(self, record: Record) -> tuple[dict[str, Any], bytes]:
        """The description of a record's model, and its weights; raises `BadFile` if they are not those that the record
        names."""
        named = record.artefacts.get("model", {})
        if not named.get("sha256"):
            raise NoModel(named.get("reason") or "it was not kept")
        description = parse_json(self._find(record.key, ".json", named["sha256"], LARGEST_DESCRIPTION))
        if description.get("schema", 0) > SCHEMA:
            raise BadFile(f"its model was written by a newer pdebench-hss (schema {description['schema']})")
        weights = description.get("weights")
        if not isinstance(weights, dict) or not isinstance(weights.get("sha256"), str):
            raise BadFile("the description of its model is damaged")
        return description, self._find(record.key, ".safetensors", weights["sha256"], LARGEST_WEIGHTS)

    def has(self, record: Record) -> bool:
        """Whether files of its model exist; only `read` checks their bytes."""
        return bool(record.artefacts.get("model", {}).get("sha256")) and all(
            any(os.path.lexists(self.folder / name) for name in _names(record.key, suffix))
            or self._is_packed(record.key)
            for suffix in SUFFIXES
        )

    def _find(self, key: str, suffix: str, sha256: str, limit: int) -> bytes:
        found = False
        for content in self._candidates(key, suffix, limit):
            if hashlib.sha256(content).hexdigest() == sha256:
                return content
            found = True
        if found:
            raise BadFile(f"models/{key}{suffix} is not what was written (sha256 differs)")
        raise NoModel(f"models/{key}{suffix} is not there; it was deleted, or left out by pack --no-models")

    def _candidates(self, key: str, suffix: str, limit: int) -> Iterator[bytes]:
        for name in _names(key, suffix):
            try:
                yield read_plain(self.folder / name, limit)
            except FileNotFoundError:
                continue
        try:
            with zipfile.ZipFile(self.folder / PACKED) as pack:
                member = pack.getinfo(f"{key}{suffix}")
                if member.compress_type != zipfile.ZIP_STORED or member.file_size > limit:
                    raise BadFile(f"models/{PACKED}: {member.filename} is compressed or too large, and is not unpacked")
                yield pack.read(member)
        except (FileNotFoundError, KeyError):
            return
        except (zipfile.BadZipFile, OSError) as error:
            raise BadFile(f"models/{PACKED} can't be used ({error})") from None

    def _is_packed(self, key: str) -> bool:
        return key in self.packed_keys()

    def packed_keys(self) -> set[str]:
        try:
            with zipfile.ZipFile(self.folder / PACKED) as pack:
                return {Path(name).stem for name in pack.namelist()}
        except (OSError, zipfile.BadZipFile):
            return set()

    def size(self) -> tuple[int, int]:
        """Files and bytes."""
        sizes = [path.stat().st_size for path in self.folder.glob("*") if path.is_file()]
        return len(sizes), sum(sizes)

    # --- writing -----------------------------------------------------------------------------------------------------

    def write(self, record: Record) -> Record:
        """Write the model that a record carries under pending names; returns the record with its hash."""
        carried = record.left.get("model")
        if carried is None:
            return record
        content = memoryview(carried["weights"]).cast("B")
        weights = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content), "tensors": carried["tensors"]}
        text = json.dumps(describe(record, carried, weights), indent=1, allow_nan=False) + "\n"
        files: dict[str, bytes | memoryview] = {".safetensors": content, ".json": text.encode()}
        write_files({self.folder / f"{record.key}{PENDING}{suffix}": data for suffix, data in files.items()})
        named = {"sha256": hashlib.sha256(text.encode()).hexdigest(), "bytes": len(content)}
        return replace(record, artefacts={**record.artefacts, "model": named})

    def settle(self, record: Record) -> None:
        """To be called after the record is written: give the model its final names, or remove an earlier record's."""
        named = record.artefacts.get("model", {}).get("sha256")
        pending = self.folder / f"{record.key}{PENDING}.json"
        is_new = named and pending.exists() and hashlib.sha256(pending.read_bytes()).hexdigest() == named
        for suffix in reversed(SUFFIXES):
            final, waiting = (self.folder / f"{record.key}{mark}{suffix}" for mark in ("", PENDING))
            if is_new and waiting.exists():
                os.replace(waiting, final)
            elif not is_new:
                waiting.unlink(missing_ok=True)
            if not named:
                final.unlink(missing_ok=True)

    def finish_writes(self, record_of: Callable[[str], Record | None]) -> None:
        """Do the last step of writers that were killed before it. The caller must hold the lock."""
        for path in sorted({*self.folder.glob(f"*{PENDING}.json"), *self.folder.glob(f"*{PENDING}.safetensors")}):
            key = path.name.partition(".")[0]
            if (record := record_of(key)) is not None:
                self.settle(record)
            else:
                path.unlink(missing_ok=True)

    def copy(self, record: Record, source: ModelFiles) -> bool:
        """Copy the model that a record names from another folder; False if it is not there, or damaged."""
        try:
            description = source.read(record)[0]
        except BadFile:
            return False
        hashes = (record.artefacts["model"]["sha256"], description["weights"]["sha256"])
        for suffix, sha256 in zip(SUFFIXES, hashes, strict=True):
            with replacing(self.folder / f"{record.key}{suffix}") as temporary:
                temporary.write_bytes(source._find(record.key, suffix, sha256, LARGEST_WEIGHTS))
        return True

    # --- packing -----------------------------------------------------------------------------------------------------

    def pack(self, records: Mapping[str, Record]) -> int:
        """Move the models of these records into one file; returns how many. Those that can't be read stay where they
        are."""
        good = {}
        for key, record in sorted(records.items()):
            try:
                self.read(record)
                good[key] = record
            except BadFile:
                continue
        if not good:
            return 0
        live = {key for key in good if (self.folder / f"{key}.json").exists()}
        if live or self.packed_keys() != set(good):
            self._write_pack(good)
        for key in live:
            self.remove(key)
        return len(good)

    def _write_pack(self, records: Mapping[str, Record]) -> None:
        """Not compressed: weights hardly get smaller."""
        with replacing(self.folder / PACKED) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as pack:
            for key, record in records.items():
                named = record.artefacts["model"]["sha256"]
                text, (_, weights) = self._find(key, ".json", named, LARGEST_DESCRIPTION), self.read(record)
                for suffix, data in zip(SUFFIXES, (text, weights), strict=True):
                    pack.writestr(zipfile.ZipInfo(f"{key}{suffix}", EPOCH), data)

    def remove(self, key: str) -> None:
        for suffix in SUFFIXES:
            (self.folder / f"{key}{suffix}").unlink(missing_ok=True)

    def remove_all(self) -> None:
        """Remove every model, and the folder if it held nothing else."""
        for path in (*self.folder.glob("*.json"), *self.folder.glob("*.safetensors"), self.folder / PACKED):
            path.unlink(missing_ok=True)
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()


def describe(record: Record, carried: Mapping[str, Any], weights: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON file of a model: self-contained, for readers who have no other file of the board."""
    trial, plugins = record.trial, record.provenance.get("plugins", {})
    return {
        "schema": SCHEMA,
        "key": record.key,
        "model": {
            "name": trial.model,
            "label": trial.model_label,
            "version": trial.model_version,
            "options": dict(trial.hparams),
            "plugin": plugins.get("model", {}),
        },
        "task": {
            "name": trial.task,
            "label": trial.task_label,
            "params": dict(trial.task_params),
            "scale": trial.scale,
            "history": trial.history,
            **carried["fields"],
            "plugin": plugins.get("task", {}),
        },
        "seed": trial.seed,
        "batch": trial.optimizer.batch,
        "precision": trial.precision,
        "threads": record.provenance.get("threads"),
        "data": record.data.get("sha256", ""),
        "normalizer": carried["normalizer"],
        "weights": {"file": f"{record.key}.safetensors", **weights},
    }


def _names(key: str, suffix: str) -> tuple[str, str]:
    return f"{key}{suffix}", f"{key}{PENDING}{suffix}"
