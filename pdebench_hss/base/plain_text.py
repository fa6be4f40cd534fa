"""Untrusted text on its way out: names, reasons and labels come from plugins and from other people's files.

Every writer and printer sends what it did not make itself through one of these:

    visible     a terminal, a page: control characters, escape sequences and invisible marks (those that reverse the
                direction of writing among them) are spelled, ``\\u001b``
    csv_cell    a table: spelled likewise, and what a spreadsheet would compute (``=HYPERLINK(...)``) gets an apostrophe
                in front. `csv_text` reads it back: a table gives the same names as its records
    markdown    a Markdown page: HTML, links and cell borders are text
    latex       a LaTeX table: commands are text
    in_figure   a figure: what stands between dollars is text, which matplotlib would read as a formula

Ordinary text comes out as it went in. In CSV files the rules are exact, so that they can be undone: a backslash that
would look like a spelled character is spelled too, and an apostrophe is added to text that is a formula after any
number of apostrophes.
"""

from __future__ import annotations

import csv
import re
import unicodedata
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

_UNSEEN = r"\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
UNSEEN = re.compile(f"[{_UNSEEN}]")
SPELLED = re.compile(r"\\u([0-9a-f]{4})")
NEEDS_SPELLING = re.compile(rf"[{_UNSEEN}]|\\(?=u[0-9a-f]{{4}})")
FORMULA = re.compile(r"'*\s*[=+\-@\uff1d\uff0b\uff0d\uff20]")


def visible(text: object, keep: str = "") -> str:
    """Text with everything that can't be seen spelled, but for the characters to ``keep``."""
    return UNSEEN.sub(lambda match: match[0] if match[0] in keep else _spell(match), str(text))


def _spell(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def csv_cell(value: Any) -> Any:
    """A value for a table; what is not text is left alone."""
    return _plain_cell(value) if isinstance(value, str) else value


@lru_cache(maxsize=10_000)  # in a long table most names and reasons occur again and again
def _plain_cell(value: str) -> str:
    text = NEEDS_SPELLING.sub(_spell, value)
    return f"'{text}" if FORMULA.match(text) else text


def csv_text(cell: str) -> str:
    """What `csv_cell` made a cell from."""
    if cell.startswith("'") and FORMULA.match(cell):
        cell = cell[1:]
    return SPELLED.sub(_unspell, cell)


def _unspell(match: re.Match[str]) -> str:
    character = chr(int(match[1], 16))
    return character if character == "\\" or UNSEEN.match(character) else match[0]


def write_csv(table: pd.DataFrame, target: Path | IO[str]) -> None:
    """A table as CSV: full precision, plain text. What `to_csv` writes, in half of its time."""
    if isinstance(target, Path):
        with target.open("w", newline="", encoding="utf-8") as file:
            write_csv(table, file)
        return
    lines = csv.writer(target, lineterminator="\n")
    lines.writerow(table.columns)
    lines.writerows(zip(*(_csv_cells(table[name]) for name in table.columns), strict=True))


def _csv_cells(column: pd.Series) -> list[Any]:
    """A missing value is an empty cell."""
    cells = column.tolist()
    if column.dtype.kind not in "biuf":
        cells = [csv_cell(cell) for cell in cells]
    missing = column.isna()
    if missing.any():
        cells = ["" if gone else cell for cell, gone in zip(cells, missing, strict=True)]
    return cells


def markdown(text: object) -> str:
    """Text inside a Markdown page, in a paragraph or a table."""
    escaped = re.sub(r"&(?=#?\w+;)", "&amp;", visible(text)).replace("<", "&lt;").replace("|", r"\|")
    return re.sub(r"\](?=[(\[:])", r"]\\", escaped)


def code(text: object) -> str:
    """Text inside a code span of a Markdown page, which knows no escapes."""
    return visible(text).replace("`", "'").replace("|", "¦")


def in_figure(text: object) -> str:
    """Text in a figure; applying it twice has no further effect."""
    return re.sub(r"(?<!\\)\$", r"\\$", visible(text, keep="\n"))


_TEX = {symbol: rf"\{symbol}" for symbol in "_%&#${}"} | {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "|": r"\textbar{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "–": "--",
    "—": "---",
    "’": "'",
    "…": r"\dots{}",
    "·": r"$\cdot$",
    "×": r"$\times$",
    "±": r"$\pm$",
    "−": "$-$",
    "→": r"$\to$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "∞": r"$\infty$",
    "λ": r"$\lambda$",
}
# Small letters have a command each; a capital that looks Latin has none, and is spelled.
_CAPITALS = frozenset({"GAMMA", "DELTA", "THETA", "XI", "PI", "SIGMA", "PHI", "PSI", "OMEGA"})
_GREEK = _CAPITALS | {"ALPHA", "BETA", "EPSILON", "ZETA", "ETA", "KAPPA", "MU", "NU", "RHO", "TAU", "CHI"}
_LATIN = 0x180  # LaTeX's own table of characters has what is below, and little else


def latex(text: object) -> str:
    """Text in a document that any LaTeX compiles; a character that it may not have is spelled, ``\\u4e2d``."""
    return "".join(map(_tex, visible(text)))


@lru_cache(maxsize=1_000)
def _tex(symbol: str) -> str:
    if symbol in _TEX or ord(symbol) < _LATIN:
        return _TEX.get(symbol, symbol)
    size, _, letter = unicodedata.name(symbol, "").partition(" LETTER ")
    if (size == "GREEK SMALL" and letter in _GREEK) or (size == "GREEK CAPITAL" and letter in _CAPITALS):
        return rf"$\{letter.lower() if size == 'GREEK SMALL' else letter.capitalize()}$"
    return rf"\textbackslash{{}}u{ord(symbol):04x}"
