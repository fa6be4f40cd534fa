"""Ways to change the lines of a packed board, as an editor or a forger would."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

from pdebench_hss.trials.packed_records import INDEX, seal


def lines_of(path: Path) -> list[dict]:
    """The line of the pack, then those of its records."""
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def write_lines(path: Path, lines: list[dict], sealed: bool) -> None:
    """``sealed`` hashes them again, as a forger would."""
    path.write_bytes(gzip.compress(b"".join(_text(line, sealed) for line in lines)))


def _text(line: dict, sealed: bool) -> bytes:
    if sealed and isinstance(line, dict):
        body = {name: value for name, value in line.items() if name != "sha256"}
        return seal(json.dumps(body, separators=(",", ":"))[1:-1])
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def edit_pack(board: Path, change: Callable[[list[dict]], object], sealed: bool = False) -> None:
    path = board / "records" / INDEX
    lines = lines_of(path)
    change(lines)
    write_lines(path, lines, sealed)


def line_of(lines: list[dict], model: str, seed: int) -> dict:
    for line in lines[1:]:
        if (line["record"]["trial"]["model"], line["record"]["trial"]["seed"]) == (model, seed):
            return line
    raise AssertionError("no such record")
