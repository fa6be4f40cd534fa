"""Records of a finished board in three files, which `pack_writer` makes from `live_records`.

    packed.jsonl.gz        a line for the pack, then one per record in the order of keys
    packed.samples.npz     the arrays of all records (errors by test sample, learning curves), each distinct one once
    packed.pictures.npz    small pictures of some of them (`small_pictures`); absent if none were kept

The lines are JSON objects. Each begins with the SHA-256 of the rest of its text:

    {"sha256": "…", "pack": 1, "records": 495, "samples": "<sha256 of the file>", "pictures": "<sha256 of the file>"}
    {"sha256": "…", "key": "…", "record": {…}, "samples": {"error_rmse": ["float64", [48], 1056], …}, "pictures": {…}}

A record is the content of its live file, unchanged. ``samples`` gives each array's dtype, shape and offset among all
values of that dtype. In the array file the values of one dtype are a member of that name, (bytes of a value, values):
all first bytes, then all second bytes and so on, which compresses floats best. To read it with numpy:

    np.load("packed.samples.npz")["float64"].T.copy().view("<f8").ravel()[1056 : 1056 + 48]

A line or a file that is not what was packed is named and not used; records that do not need it can still be read. Sizes
are bounded before anything is allocated: see `LARGEST` and `array_files`.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import warnings
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..base.files import BadFile, file_state, read_plain
from .array_files import read_arrays
from .small_pictures import PICTURE, PlaneReader, SmallPictures
from .validation import LARGEST_RECORD, Invalid, Newer, RecordWarning, parse_json

INDEX, SAMPLES, PICTURES = "packed.jsonl.gz", "packed.samples.npz", "packed.pictures.npz"
PENDING = ".new"  # suffix of a file that is written and not yet part of the pack
VERSION = 1
LARGEST = 512 << 20  # bytes of each file, packed and unpacked: some hundred thousand records
LARGEST_LINE = 2 * LARGEST_RECORD
SEALED = re.compile(rb'\{"sha256":"([0-9a-f]{64})",(.*)\}\n', re.DOTALL)
KEYED = re.compile(rb'.{77}"key":"([0-9a-f]{24})"', re.DOTALL)
WHOLE = tuple(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64))
DTYPES = (*WHOLE, "float16", "float32", "float64")


class PackDamaged(Invalid):
    """A pack lacks something that many records need; the message names the file, not the record."""


class PackNewer(PackDamaged, Newer):
    """A pack in a newer format."""


@dataclass
class _Pack:
    """A pack as it was read.

    lines    by key: the line of a record, or what is wrong with it
    values   by dtype: all values, (values,); or what is wrong with the file
    damage   what is wrong with the list of records, if anything: then any key may be lost
    """

    lines: dict[str, bytes | Invalid] = field(default_factory=dict)
    values: Mapping[str, np.ndarray] | PackDamaged = field(default_factory=dict)
    hashes: tuple[str, str] | None = None  # of the files of samples and pictures; empty where there is none
    damage: PackDamaged | None = None


def _again(error: Invalid) -> Invalid:
    """A new error each time: one that is raised repeatedly would collect tracebacks."""
    return type(error)(*error.args)


def seal(body: str) -> bytes:
    """A line of a pack from what is between its braces."""
    text = f"{body}}}"
    return f'{{"sha256":"{hashlib.sha256(text.encode()).hexdigest()}",{text}\n'.encode()


def _is_sealed(line: bytes) -> bool:
    found = SEALED.fullmatch(line)
    return found is not None and hashlib.sha256(line[77:-1]).hexdigest() == found[1].decode()


class PackedRecords:
    """The pack in one folder; nothing if there is none. ``index`` is another name of its first file."""

    def __init__(self, folder: Path, index: str = INDEX) -> None:
        self.folder, self.index = folder, index
        self._pack, self._seen = _Pack(), [None, None]
        self._planes: tuple[str, PlaneReader | None] = "", None  # the hash of their file, and what it holds
        self._parsed: tuple[bytes, dict[str, Any]] = b"", {}  # the last line that was parsed

    def keys(self) -> set[str]:
        return set(self._read().lines)

    def has(self, key: str) -> bool:
        return key in self._read().lines

    @property
    def damage(self) -> PackDamaged | None:
        """Why some records can't be found, or their arrays can't be read."""
        pack = self._read()
        return pack.damage or (pack.values if isinstance(pack.values, PackDamaged) else None)

    def state(self, key: str = "") -> Any:
        """A value that changes when the pack does."""
        return [file_state(self.folder / name) for name in (self.index, SAMPLES)]

    def content(self, key: str) -> dict[str, Any]:
        """The JSON object of a record, not validated yet."""
        content = self._line(key).get("record")
        if not isinstance(content, dict):
            raise Invalid("its line in the pack holds no record")
        return content

    def has_arrays(self, key: str) -> bool:
        return bool(self.array_names(key))

    def array_names(self, key: str) -> Collection[str]:
        """What arrays a record has, apart from pictures."""
        return self._line(key).get("samples") or ()

    def left_out(self, key: str) -> Collection[str]:
        """Arrays that the record had, and that the pack says it does not have."""
        found = self._line(key).get("left_out", [])
        return found if isinstance(found, list) else ()

    def arrays(self, key: str, sha256: str | None, names: Collection[str]) -> dict[str, np.ndarray]:
        """The named arrays of a record, all if none is named. ``sha256`` is that of the live file; a pack uses its own
        hash of all arrays instead."""
        table, values = self._line(key).get("samples"), self._read().values
        if not isinstance(table, dict) or not table:
            raise Invalid("its arrays are missing")
        if isinstance(values, PackDamaged):
            raise _again(values)
        found = {name: _cut(values, name, place) for name, place in table.items() if not names or name in names}
        if not names or not set(names).isdisjoint(PICTURE):
            pictures = self.pictures(key)
            drawn = pictures.arrays() if pictures else {}
            found |= {name: array for name, array in drawn.items() if not names or name in names}
        return found

    def pictures(self, key: str) -> SmallPictures | None:
        """The pictures of a record as they are stored; None if it has none, or their file is lost, which is named."""
        entry, planes = self._line(key).get("pictures"), self._reader()
        if not entry or planes is None:
            return None
        if not isinstance(entry, dict):
            raise Invalid("its pictures are damaged")
        return planes.pictures(entry)

    def lacks_pictures(self) -> bool:
        """Whether some were packed and their file can't be used."""
        _, sha256 = self._read().hashes or ("", "")
        return bool(sha256) and self._reader() is None

    def hashes(self) -> tuple[str, str] | None:
        """Hashes of the files of samples and pictures, empty where the pack has none; None if they are unknown."""
        return self._read().hashes

    def _line(self, key: str) -> dict[str, Any]:
        pack = self._read()
        line = pack.lines.get(key)
        if line is None:
            raise _again(pack.damage) if pack.damage else FileNotFoundError(key)
        if isinstance(line, Invalid):
            raise _again(line)
        parsed = self._parsed  # other threads of a server may parse other lines meanwhile
        if parsed[0] is not line:
            self._parsed = parsed = line, parse_json(line)
        return parsed[1]

    # --- the files ---------------------------------------------------------------------------------------------------

    def _read(self) -> _Pack:
        """The pack, read again when its files have changed: a consistent list of records and their arrays."""
        while self._seen != (state := self.state()):
            self._pack = self._open() if state[0] else _Pack()
            self._seen = state
        return self._pack

    def _open(self) -> _Pack:
        try:
            lines = _Lines(read_plain(self.folder / self.index, LARGEST))
            head = _head(lines)
        except FileNotFoundError:
            return _Pack()
        except BadFile as error:
            return _Pack(damage=PackDamaged(f"{self.index} can't be used: {error}"))
        if head["pack"] > VERSION:
            newer = f"{self.index} was written by a newer pdebench-hss (form {head['pack']}, this one reads {VERSION})"
            return _Pack(damage=PackNewer(newer))
        found, damage = _by_key(lines), None
        if len(found) != head["records"] or lines.fault:
            fault = f" ({lines.fault})" if lines.fault else ""
            damage = PackDamaged(f"{self.index} is damaged{fault}: {len(found)} of {head['records']} records are found")
        return _Pack(found, self._values(head["samples"]), (head["samples"], head["pictures"]), damage)

    def _values(self, sha256: str) -> Mapping[str, np.ndarray] | PackDamaged:
        if not sha256:
            return {}
        try:
            members = read_arrays(self._file(SAMPLES, sha256), limit=LARGEST)
            return {name: _joined(name, planes) for name, planes in members.items()}
        except BadFile as error:
            return PackDamaged(f"{SAMPLES} can't be used: {error}")

    def _reader(self) -> PlaneReader | None:
        """The pictures, read when they are first needed. If their file is lost, records are shown without them."""
        _, sha256 = self._read().hashes or ("", "")
        planes = self._planes
        if sha256 and planes[0] != sha256:
            try:
                planes = sha256, PlaneReader(read_arrays(self._file(PICTURES, sha256), limit=LARGEST))
            except BadFile as error:
                planes = sha256, None
                message = f"{PICTURES} in {self.folder} can't be used: {error}; records are shown without pictures"
                warnings.warn(message, RecordWarning, stacklevel=2)
            self._planes = planes
        return planes[1] if sha256 else None

    def _file(self, name: str, sha256: str) -> bytes:
        """An array file. Packing again replaces the list of records first, and then gives this file its final name."""
        found = False
        for candidate in (name, f"{name}{PENDING}"):
            try:
                content = read_plain(self.folder / candidate, LARGEST)
            except FileNotFoundError:
                continue
            if hashlib.sha256(content).hexdigest() == sha256:
                return content
            found = True
        raise BadFile("it is not what was packed (sha256 differs)" if found else "it is missing")


class _Lines(Iterator[bytes]):
    """The lines of a compressed file as far as it can be read, and why reading stopped."""

    def __init__(self, content: bytes) -> None:
        self._file = gzip.GzipFile(fileobj=io.BytesIO(content))
        self._left = LARGEST
        self.fault = ""

    def __next__(self) -> bytes:
        try:
            line = self._file.readline(LARGEST_LINE)
        except EOFError:
            line, self.fault = b"", "it is cut short"
        except (OSError, zlib.error):
            line, self.fault = b"", "it is not whole"
        self._left -= len(line)
        if len(line) == LARGEST_LINE:
            line, self.fault = b"", f"a line has more than {LARGEST_LINE} bytes"
        if self._left < 0:
            line, self.fault = b"", f"it unpacks to more than {LARGEST} bytes"
        if not line:
            raise StopIteration
        return line


def _head(lines: _Lines) -> dict[str, Any]:
    """The first line: what the pack is, and the hashes of its other files."""
    line = next(lines, b"")
    if not _is_sealed(line):
        raise Invalid(lines.fault or "its first line is not what was packed (sha256 differs)")
    head = parse_json(line)
    kinds = {"pack": int, "records": int, "samples": str, "pictures": str}
    if any(type(head.get(name)) is not kind for name, kind in kinds.items()) or head["pack"] < 1:
        raise Invalid("its first line is not that of a pack")
    return head


def _by_key(lines: Iterator[bytes]) -> dict[str, bytes | Invalid]:
    """Good lines, and what is wrong with the others if their key can be read. A bad line never hides a good one."""
    found: dict[str, bytes | Invalid] = {}
    for line in lines:
        named = KEYED.match(line)
        if named is None:
            continue
        key, good = named[1].decode(), _is_sealed(line)
        if key not in found or isinstance(found[key], Invalid):
            found[key] = line if good else Invalid("its line in the pack is not what was packed (sha256 differs)")
        elif good:
            found[key] = Invalid("it is in the pack twice")
    return found


def _joined(dtype: str, planes: np.ndarray) -> np.ndarray:
    """(bytes of a value, values) -> (values,)."""
    if dtype not in DTYPES or planes.dtype != np.uint8 or planes.shape[:1] != (np.dtype(dtype).itemsize,):
        raise BadFile(f"{dtype[:60]!r} is not a member of such a file")
    if planes.ndim != 2:
        raise BadFile(f"{dtype!r} has {planes.ndim} axes instead of two, bytes by values")
    values = np.ascontiguousarray(planes.T).view(np.dtype(dtype).newbyteorder("<")).ravel()
    values.flags.writeable = False  # records share it
    return values


def _cut(values: Mapping[str, np.ndarray], name: str, place: Any) -> np.ndarray:
    """One array out of all values of its dtype."""
    if not (isinstance(place, list) and len(place) == 3 and isinstance(place[0], str) and isinstance(place[1], list)):
        raise Invalid(f"array {name[:60]!r} has no place in the pack")
    dtype, shape, start = place
    if not all(type(side) is int and 0 <= side <= LARGEST for side in (*shape, start)) or len(shape) > 8:
        raise Invalid(f"array {name[:60]!r} has no place in the pack")
    count = 1
    for side in shape:
        count *= side
    if dtype not in values or start + count > len(values[dtype]):
        raise Invalid(f"array {name[:60]!r} claims {count} values that the pack does not hold")
    try:
        return values[dtype][start : start + count].reshape(shape)
    except ValueError:  # no values, and sides whose product is too large
        raise Invalid(f"array {name[:60]!r} has no place in the pack") from None
