"""A submission: a board that somebody adds to a repository of boards, with all that is needed to doubt it.

    NAME/submission.json     who, under which licence, and where each plugin comes from (`Manifest`)
    NAME/board/              the board, packed (`merging` of one)
    NAME/plugin/             the Python files of the plugins that are not part of pdebench-hss
    NAME/verification.*      what `verify` found when it was made

    {"schema": 1, "name": "…", "licence": "MIT", "contact": "https://…",
     "plugins": {"model net": {"distribution": "…", "version": "…", "sha256": "…", "install": "…", "files": ["…"]}}}

It comes from a stranger. `check` looks at names and sizes before it reads anything, follows no link, and says of each
thing that is wrong what it is. The numbers are then for `verify` to check.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ..base.files import BadFile, files_below, not_plain, read_plain
from ..base.hashing import digest
from ..contract.registry import BUILT_IN
from ..trials.predictions import claimed_bytes
from ..trials.record import Record
from ..trials.store import Store
from ..trials.validation import Invalid, Newer, parse_json
from .findings import CONFIRMED, CONTRADICTED, Finding

FILE, BOARD, PLUGIN, SCHEMA = "submission.json", "board", "plugin", 1
MOST_FILES, LARGEST_TOTAL, LARGEST_SOURCE = 2000, 500 << 20, 1 << 20  # files; bytes of all, and of one Python file
LARGEST_UNPACKED = 2 << 30  # bytes of all predictions, unpacked
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{1,63}")
ALLOWED = re.compile(
    r"submission\.json|README\.md|verification\.(md|json)"
    r"|board/(plan\.json|verified\.json|[\w-]+\.(csv|md|tex))"
    r"|board/records/packed\.(jsonl\.gz|samples\.npz|pictures\.npz)"
    r"|board/models/packed\.zip|board/predictions/[0-9a-f]{24}\.h5"
    r"|plugin/([\w-]+/)*[\w-]+\.(py|toml)"
)
TEXTS = ("name", "licence", "contact")
SOURCE_TEXTS = ("distribution", "version", "sha256", "install")


@dataclass(frozen=True)
class Source:
    """Where a plugin comes from: its distribution and version, how to install it, its files and their hash."""

    distribution: str
    version: str
    sha256: str
    install: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class Manifest:
    name: str
    licence: str
    contact: str
    plugins: Mapping[str, Source]

    def to_plain(self) -> dict[str, Any]:
        plugins = {what: {**vars(source), "files": list(source.files)} for what, source in sorted(self.plugins.items())}
        return {"schema": SCHEMA, **{name: getattr(self, name) for name in TEXTS}, "plugins": plugins}


def read_manifest(folder: Path) -> Manifest:
    """Raises `BadFile` if it is not one, or leads out of its folder."""
    content = parse_json(read_plain(folder / FILE, LARGEST_SOURCE))
    schema = content.get("schema")
    if type(schema) is not int:
        raise Invalid("it has no schema")
    if schema != SCHEMA:
        raise Newer(f"it has schema {schema}; this pdebench-hss reads schema {SCHEMA}")
    if set(content) != {"schema", *TEXTS, "plugins"}:
        raise Invalid(f"it needs the fields {', '.join((*TEXTS, 'plugins'))} and no others")
    for name in TEXTS:
        if not isinstance(content[name], str) or not 0 < len(content[name].strip()) <= 500:
            raise Invalid(f"its {name} is empty, too long, or not text")
    if not NAME.fullmatch(content["name"]):
        raise Invalid(f"its name {content['name'][:60]!r} is not of small letters, digits, _ and -")
    if not isinstance(content["plugins"], dict):
        raise Invalid("its plugins are not a table")
    plugins = {str(what): _source(what, entry) for what, entry in content["plugins"].items()}
    return Manifest(content["name"], content["licence"], content["contact"], plugins)


def _source(what: str, entry: Any) -> Source:
    if not isinstance(entry, dict) or set(entry) != {*SOURCE_TEXTS, "files"}:
        raise Invalid(f"plugin {what[:60]!r} needs the fields {', '.join((*SOURCE_TEXTS, 'files'))}")
    if any(not isinstance(entry[name], str) or len(entry[name]) > 500 for name in SOURCE_TEXTS):
        raise Invalid(f"plugin {what[:60]!r}: a field is not text")
    files = entry["files"]
    if not isinstance(files, list) or not all(isinstance(name, str) for name in files):
        raise Invalid(f"plugin {what[:60]!r}: its files are not names")
    for name in files:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts or "\\" in name:
            raise Invalid(f"plugin {what[:60]!r}: the path {name[:100]!r} leaves the directory")
        if not name.startswith(f"{PLUGIN}/") or not name.endswith(".py"):
            raise Invalid(f"plugin {what[:60]!r}: {name[:100]!r} is not a Python file in {PLUGIN}/")
    texts = {name: entry[name] for name in SOURCE_TEXTS}
    return Source(**texts, files=tuple(files))


# --- checking ---------------------------------------------------------------------------------------------------------


def check(folder: Path, others: Iterable[Path] = ()) -> list[Finding]:
    """What is wrong with a submission, apart from its numbers; ``others`` are boards that it must not repeat. The first
    kind of trouble ends it: what has strange files is not read."""
    stages = (_check_files, _check_manifest, _check_predictions, lambda place: _check_records(place, others))
    for stage in stages:
        found = [Finding("submission", CONTRADICTED, subject, detail) for subject, detail in stage(folder)]
        if found:
            return found
    return [Finding("submission", CONFIRMED, folder.name)]


def _check_files(folder: Path) -> Iterator[tuple[str, str]]:
    count = size = 0
    for path, status in files_below(folder):
        name = path.relative_to(folder).as_posix()
        count, size = count + 1, size + status.st_size
        if wrong := not_plain(status):
            yield name, wrong
        elif not ALLOWED.fullmatch(name):
            yield name, "a submission holds no such file"
        if count > MOST_FILES:
            yield folder.name, f"it has more than {MOST_FILES} files; pack its board"
            return
    if size > LARGEST_TOTAL:
        yield folder.name, f"its files have {size} bytes; at most {LARGEST_TOTAL} are taken. Leave predictions out"
    if not (folder / FILE).exists():
        yield FILE, "it is missing"


def _check_manifest(folder: Path) -> Iterator[tuple[str, str]]:
    try:
        manifest = read_manifest(folder)
    except BadFile as error:
        yield FILE, str(error)
        return
    if manifest.name != folder.name:
        yield FILE, f"it is called {manifest.name!r}, and its folder {folder.name!r}"
    for what, source in manifest.plugins.items():
        if not source.files:
            yield what, "its source is missing: no files are named"
        for name in source.files:
            if not (folder / name).is_file():
                yield what, f"its source is missing: {name} is not there"
                break
        else:
            if source.files and source_digest(folder / name for name in source.files) != source.sha256:
                yield what, "its files are not those that its sha256 names"


def source_digest(files: Iterable[Path]) -> str:
    """As `contract.identity.source_hash`, of files wherever they are."""
    return digest(sorted(hashlib.sha256(read_plain(file, LARGEST_SOURCE)).hexdigest() for file in files))


def _check_predictions(folder: Path) -> Iterator[tuple[str, str]]:
    """What they would unpack to, before anything unpacks them."""
    total = 0
    for path in sorted((folder / BOARD / "predictions").glob("*.h5")):
        try:
            total += claimed_bytes(path)
        except BadFile as error:
            yield path.relative_to(folder).as_posix(), str(error)
    if total > LARGEST_UNPACKED:
        yield f"{BOARD}/predictions", f"they unpack to {total} bytes; at most {LARGEST_UNPACKED} are taken"


def _check_records(folder: Path, others: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Records belong to the plan, were made by the source that is submitted, and are in no other board."""
    store, manifest = Store(folder / BOARD), read_manifest(folder)
    if damage := store.packed.damage:
        yield f"{BOARD}/records", str(damage)
        return
    keys = store.keys()
    if not keys:
        yield BOARD, "it holds no records"
        return
    cells, _, complaints = store.plan_file.read()
    if complaints:
        yield from ((f"{BOARD}/plan.json", complaint) for complaint in complaints)
        return
    planned = {entry.key for entry in cells.values()}
    stores = [Store(path) for path in others]
    for key in keys:
        try:
            record, _ = store.read(key, ())
        except Newer as error:  # what can't be checked here can't be taken
            yield f"record {key}", str(error)
            continue
        except (BadFile, FileNotFoundError):
            continue  # `verify` says what is wrong with it
        cell = record.trial.words
        if key not in planned:
            yield f"record {key} ({cell})", "it is not in the plan of this board; was it copied from another?"
        for what, wrong in _strange_source(record, manifest):
            yield f"record {key} ({cell})", f"{what}: {wrong}"
        if record.provenance and (twin := _twin(store, key, stores)):
            name = (twin.parent if (twin.parent / FILE).is_file() else twin).name
            yield f"record {key} ({cell})", f"it is a copy of the one in {name}"


def _strange_source(record: Record, manifest: Manifest) -> Iterator[tuple[str, str]]:
    for kind, plugin in record.provenance.get("plugins", {}).items():
        what = f"{kind} {record.trial.model if kind == 'model' else record.trial.task}"
        if plugin.get("distribution") == BUILT_IN:
            continue
        if (source := manifest.plugins.get(what)) is None:
            yield what, f"its source ({plugin.get('distribution')}) is missing from the submission"
        elif source.sha256 != plugin.get("sha256"):
            yield what, "the record was made with another source than the submitted one"


def _twin(store: Store, key: str, others: Iterable[Store]) -> Path | None:
    mine = _content(store, key)
    return next((other.path for other in others if mine is not None and _content(other, key) == mine), None)


def _content(store: Store, key: str) -> dict[str, Any] | None:
    try:
        return (store.live if store.live.has(key) else store.packed).content(key)
    except (BadFile, FileNotFoundError):
        return None
