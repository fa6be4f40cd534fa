"""Figures in documents that also stand in a CSV file: each is named in a comment and compared with the file.

A comment that no renderer shows follows the paragraph, list or table that prints the figures:

    <!-- figures leaderboards/small-cpu
    0.330 = gray_scott_inverse neural_hss
    11.2 = heat_1d fno fit_seconds
    -->

    <!-- figures leaderboards/small-cpu/statistics.md
    89 = 'ahead of every guess' 0
    103 = 'ahead of every guess' 1
    -->

    <!-- table leaderboards/small-cpu rows='ours, small' columns=neural_hss:2,fno:3 -->

In the first form the first word of a line is the figure as printed. For a board the other words are task, model and
column (left out: the mean test error); for another CSV file they are ``column=value`` conditions, quoted where they
have spaces, and the name of a column; for Markdown they are the first cell of a table's row and which number of its
second cell is meant (``89 of 103``), from 0. The last form checks a whole table: its rows that have a cell as named
(all, if none is named) and its columns by number from 0 (if none is named, those whose heads are models of the board);
the first cell of a row, or the nearest above that is not empty, is the task. Cells that are not numbers are passed
over. `docs/update_figures.py` brings figures up to date.

A figure agrees with the file if the file's number rounds to it, to the digits that are printed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pandas as pd

COMMENT = re.compile(r"<!-- figures (\S+)\n(.*?)-->\n?", re.DOTALL)
TABLE = re.compile(r"<!-- table (\S+)(.*?)-->\n?")
NUMBER = re.compile(r"(?P<whole>\d[\d,]*)(?:\.(?P<decimals>\d+))?(?:e(?P<exponent>[+-]?\d+))?")
CELL = re.compile(r"\| *([^|\n]*)(?=\|)")
BOARD_LINK = re.compile(r"\]\((?:\.\./)?leaderboards/[\w/-]+\)")
DECIMAL = re.compile(r"\d\.\d|\de-\d")


@dataclass(frozen=True)
class Figure:
    """A printed number and where it comes from."""

    printed: str
    file: str
    words: tuple[str, ...]
    block: str  # the text that prints it


def figures(text: str, root: Path) -> Iterator[Figure]:
    """All figures of a document that name their source."""
    for comment in COMMENT.finditer(text):
        for line in comment[2].strip().splitlines():
            printed, _, source = line.partition(" = ")
            start, end = block_span(text, comment.start())
            yield Figure(printed.strip(), comment[1], tuple(shlex.split(source)), text[start:end])
    for comment in TABLE.finditer(text):
        for (start, end), words in cells(text, comment, root):
            cell = text[start:end].strip("*")
            if NUMBER.fullmatch(cell):
                yield Figure(cell, comment[1], words, cell)


def block_span(text: str, position: int) -> tuple[int, int]:
    """Where the block above a comment begins and ends; other comments may stand between them."""
    end = len(text[:position].rstrip())
    while text[:end].endswith("-->"):
        end = len(text[: text.rindex("<!--", 0, end)].rstrip())
    return text.rfind("\n\n", 0, end) + 2 if "\n\n" in text[:end] else 0, end


def cells(text: str, comment: re.Match[str], root: Path) -> Iterator[tuple[tuple[int, int], tuple[str, str]]]:
    """The cells of the table above a comment: where each is, and its task and model."""
    options = dict(word.split("=", 1) for word in shlex.split(comment[2]))
    yield from _cells(*block_span(text, comment.start()), text, root, comment[1], **options)


def _cells(
    at: int, end: int, text: str, root: Path, board: str, rows: str = "", columns: str = ""
) -> Iterator[tuple[tuple[int, int], tuple[str, str]]]:
    lines = []
    for line in text[at:end].splitlines(keepends=True):
        spans = [(at + m.start(1), at + m.start(1) + len(m[1].rstrip())) for m in CELL.finditer(line)]
        lines.append([(text[first:last], (first, last)) for first, last in spans])
        at += len(line)
    head, body = [cell for cell, _ in lines[0]], lines[2:]
    if columns:
        models = {int(number): model for model, number in (pair.split(":") for pair in columns.split(","))}
    else:
        known = set(_read(root / board / "leaderboard.csv")["model"])
        models = {i: name for i, cell in enumerate(head) if (name := cell.replace(" ", "_")) in known}
    task = ""
    for row in body:
        task = row[0][0].partition(" ")[0] or task  # `heat_1d (trajectory)` is heat_1d
        for number, model in models.items():
            if not rows or rows in [cell for cell, _ in row]:
                yield row[number][1], (task, model)


def pattern(printed: str) -> re.Pattern[str]:
    """The figure by itself, and not as a part of another."""
    return re.compile(rf"(?<![\w.,]){re.escape(printed)}(?![\w%]|[.,]\d)")


def complaint(figure: Figure, root: Path) -> str | None:
    """What is wrong with a figure, or None."""
    if not pattern(figure.printed).search(figure.block):
        return f"{figure.printed} does not stand in the text above its comment"
    number = NUMBER.fullmatch(figure.printed)
    if number is None:
        return f"{figure.printed!r} is not a number"
    exponent = int(number["exponent"] or 0)
    value = float(f"{number['whole'].replace(',', '')}.{number['decimals'] or 0}e{exponent}")
    unit = 10.0 ** (exponent - len(number["decimals"] or ""))
    found = look_up(root / figure.file, figure.words)
    if isinstance(found, str):
        return found
    if not abs(found - value) <= 0.5 * unit * (1 + 1e-9):
        return f"{' '.join(figure.words)}: the document has {figure.printed}, {figure.file} has {found:.6g}"
    return None


def look_up(path: Path, words: tuple[str, ...]) -> float | str:
    """The one number that the words select; a sentence if there is none or more than one."""
    if path.suffix == ".md":
        label, place = words
        rows = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith(f"| {label} ")]
        if len(rows) != 1:
            return f"{path.name}: {len(rows)} rows begin with {label!r}"
        return float(re.findall(r"[\d.]+", rows[0].split("|")[2])[int(place)])
    if path.is_dir():
        task, model, *column = words
        path, conditions = path / "leaderboard.csv", {"task": task, "model": model}
        name = column[0] if column else "test_err_mean"
    else:
        *pairs, name = words
        conditions = dict(pair.split("=", 1) for pair in pairs)
    table = _read(path)
    for column, wanted in conditions.items():
        table = table[table[column].astype(str) == wanted]
    if len(table) != 1:
        return f"{path.name}: {len(table)} rows have {conditions}"
    return float(table.iloc[0][name])


def status(board: Path, task: str, model: str) -> str:
    """How a row of a board ended; empty if it has none."""
    table = _read(board / "leaderboard.csv")
    found = table.loc[(table["task"] == task) & (table["model"] == model), "status"]
    return str(found.iloc[0]) if len(found) == 1 else ""


@lru_cache
def _read(path: Path) -> pd.DataFrame:
    return pd.read_csv(path)


def unnamed(text: str) -> list[str]:
    """Blocks that point to a board and print decimals, but don't say which of its numbers they are."""
    blocks = re.split(r"\n\n+", text)
    return [
        block
        for block, after in zip(blocks, [*blocks[1:], ""], strict=True)
        if BOARD_LINK.search(block) and DECIMAL.search(block) and not re.search("<!-- (figures|table)", block + after)
    ]
