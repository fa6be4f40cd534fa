"""The tables of a board, made again from its records and compared with those that are there, byte by byte.

What differs need not be an edit: another version may have had fewer columns, or put things in other words. So

    CSV         columns that both have must agree, cell by cell; others are not checked
    Markdown    the same, if the words around the tables or their columns differ from what this version writes
    any text    in the same words, with other numbers: contradicted
"""

from __future__ import annotations

import csv
import io
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from ..base.errors import PdebenchError
from ..contract.registry import Registry
from ..trials.store import Store
from .findings import CONFIRMED, CONTRADICTED, UNCHECKED, Finding
from .writing import write_board

NUMBER = re.compile(r"\d+(\.\d+)?(e[-+]?\d+)?")
PADDING = re.compile(r"[-\s]+")  # a longer number widens its column
BAR = re.compile(r"(?<!\\)\|")


def check_tables(store: Store, registry: Registry) -> Iterator[Finding]:
    """One finding for each table that today's version makes of the records."""
    with tempfile.TemporaryDirectory(prefix="tables-") as name:
        folder = Path(name)
        try:
            made = [path.name for path in write_board(store, registry, folder)[1]]
        except PdebenchError as error:
            yield Finding("tables", UNCHECKED, "all tables", str(error))
            return
        for name in made:
            stated, again = store.path / name, folder / name
            if not stated.is_file():
                yield Finding("tables", UNCHECKED, name, "it is not there")
            elif stated.read_bytes() == again.read_bytes():
                yield Finding("tables", CONFIRMED, name)
            else:
                texts = (path.read_text("utf-8", "replace") for path in (stated, again))
                verdict, words = (compare_csv if name.endswith(".csv") else compare_text)(*texts)
                yield Finding("tables", verdict, name, words)


class Table(NamedTuple):
    """Rows of a table as text, each by its columns, with the numbers of their lines in the file."""

    columns: Sequence[str]
    rows: list[dict[str, str]]
    lines: list[int]


def compare_csv(stated: str, made: str) -> tuple[str, str]:
    """The verdict on a table that differs, and why."""
    ours, theirs = _csv(stated), _csv(made)
    if difference := _difference(ours, theirs):
        return CONTRADICTED, difference
    if ours.columns == theirs.columns:
        return CONTRADICTED, "it is spelled otherwise than the records give"
    others = ", ".join(sorted({*ours.columns} ^ {*theirs.columns})[:5])
    return UNCHECKED, f"of another version: the columns that both have agree; others: {others}"


def _csv(text: str) -> Table:
    header, *rows = list(csv.reader(io.StringIO(text))) or [[]]
    return Table(header, [dict(zip(header, row, strict=False)) for row in rows], [*range(2, len(rows) + 2)])


def _difference(ours: Table, theirs: Table) -> str:
    """Where the columns that two tables have in common differ first; empty if nowhere."""
    if len(ours.rows) != len(theirs.rows):
        return f"it has {len(ours.rows)} rows, the records give {len(theirs.rows)}"
    common = [column for column in ours.columns if column in theirs.columns]
    for number, row, new in zip(ours.lines, ours.rows, theirs.rows, strict=True):
        for column in common:
            if row.get(column) != new.get(column):
                cell = " ".join(new.get(word, "") for word in ("task", "model", "seed")).strip()
                return f"line {number} ({cell}): {column} is {row.get(column)}, the records give {new.get(column)}"
    return ""


def compare_text(stated: str, made: str) -> tuple[str, str]:
    """The same for Markdown and LaTeX."""
    ours, theirs = stated.splitlines(), made.splitlines()
    if [_words(line) for line in ours] == [_words(line) for line in theirs]:
        return CONTRADICTED, "line {} is {!r}, the records give {!r}".format(*_first(ours, theirs, str))
    tables, others = _tables(ours), _tables(theirs)
    if len(tables) == len(others):
        differences = (_difference(a, b) for a, b in zip(tables, others, strict=True))
        if difference := next(filter(None, differences), ""):
            return CONTRADICTED, difference
    words = "line {} is {!r}, today {!r}".format(*_first(ours, theirs, _words))
    return UNCHECKED, f"in the words of another version: {words}; its tables agree where both have them"


def _words(line: str) -> str:
    """A line without its numbers."""
    return PADDING.sub(" ", NUMBER.sub("0", line)).strip()


def _first(ours: Sequence[str], theirs: Sequence[str], seen: Callable[[str], str]) -> tuple[int, str, str]:
    """The number of the first line of which something different is ``seen``, and how both begin it."""
    pairs = enumerate(zip_longest(ours, theirs, fillvalue=""), start=1)
    number, (a, b) = next(((n, pair) for n, pair in pairs if seen(pair[0]) != seen(pair[1])), (1, ("", "")))
    return number, a[:60], b[:60]


def _tables(lines: Sequence[str]) -> list[Table]:
    """The tables of a Markdown text, by their columns that have names."""
    found: list[Table] = []
    for number, line in enumerate(lines, start=1):
        if not line.startswith("|"):
            continue
        cells = [cell.strip() for cell in BAR.split(line)[1:-1]]
        if number == 1 or not lines[number - 2].startswith("|"):
            found.append(Table(cells, [], []))
        elif set("".join(cells)) - {*"-:"}:
            columns = found[-1].columns
            found[-1].rows.append({name: cell for name, cell in zip(columns, cells, strict=False) if name})
            found[-1].lines.append(number)
    return found
