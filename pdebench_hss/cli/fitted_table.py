"""Tables for people, as wide as the terminal and no wider; 80 columns where the output goes elsewhere.

What is too wide loses the least: first a column that says the same in every row, which is said once below; then remarks
(the last column, if it has no header), which are said below with the names of their rows; then columns that the caller
calls optional, from the right; then long cells are broken, at spaces if that is enough.
"""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Sequence

GAP = 2  # spaces between two columns
NARROWEST = 6  # what a column keeps, however little room there is
TOGETHER = "\N{NO-BREAK SPACE}"  # between a number and its unit
UNIT = re.compile(r"(?<=\d) (?=(?:%|ms|s)(?:\s|$))")


def fitted_table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    optional: Sequence[str] = (),
    rule: bool = True,
    width: int | None = None,
) -> str:
    """``rule`` draws a line under the headers."""
    room = width or shutil.get_terminal_size().columns
    columns = [(header, [row[i] for row in rows]) for i, header in enumerate(headers)]
    notes: list[str] = []
    for shorten in (_without_repetitions, _without_remarks):
        if _width(columns) > room:
            columns, said = shorten(columns)
            notes += said
    left_out: list[str] = []
    for header in reversed(optional):
        if _width(columns) > room and any(name == header for name, _ in columns):
            columns = [column for column in columns if column[0] != header]
            left_out.insert(0, header)
    if left_out:
        notes.append(f"on a wider terminal, or with --format csv: {', '.join(left_out)}")
    lines = _lines(columns, _widths(columns, room), rule)
    return "\n".join([*lines, *(line for note in notes for line in textwrap.wrap(note, room))])


_Columns = list[tuple[str, list[str]]]


def _natural(columns: _Columns) -> list[int]:
    return [max(map(len, [header, *cells])) for header, cells in columns]


def _width(columns: _Columns) -> int:
    return sum(_natural(columns)) + GAP * (len(columns) - 1)


def _without_repetitions(columns: _Columns) -> tuple[_Columns, list[str]]:
    same = [(header, cells[0]) for header, cells in columns if len(cells) > 1 and len(set(cells)) == 1]
    kept = [column for column in columns if column[0] not in dict(same)]
    if not kept:
        return columns, []
    said = ", ".join(f"{header} {cell}" for header, cell in same if header and cell not in ("", "–"))
    return kept, [f"in every row: {said}"] if said else []


def _without_remarks(columns: _Columns) -> tuple[_Columns, list[str]]:
    *others, (last, remarks) = columns
    names = next((cells for header, cells in others if header), None)
    if last or names is None:
        return columns, []
    rows: dict[str, list[str]] = {}  # of each remark
    for name, remark in zip(names, remarks, strict=True):
        rows.setdefault(remark, []).append(name)
    return others, [f"{', '.join(names)}: {remark}" for remark, names in rows.items() if remark]


def _widths(columns: _Columns, room: int) -> list[int]:
    """The widest gives way first: down to its longest word, and below that only when all are."""
    widths = _natural(columns)
    words = [
        max((len(word) for cell in [header, *cells] for word in UNIT.sub(TOGETHER, cell).split(" ")), default=0)
        for header, cells in columns
    ]
    for floors in (words, [min(NARROWEST, word) for word in words]):
        while sum(widths) + GAP * (len(widths) - 1) > room:
            excess = [width if width > floor else 0 for width, floor in zip(widths, floors, strict=True)]
            if not any(excess):
                break
            widths[excess.index(max(excess))] -= 1
    return widths


def _lines(columns: _Columns, widths: Sequence[int], rule: bool) -> list[str]:
    lines = _row([header for header, _ in columns], widths)
    if rule:
        lines.append((" " * GAP).join("-" * width for width in widths))
    for cells in zip(*(cells for _, cells in columns), strict=True):
        lines += _row(cells, widths)
    return lines


def _row(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    """As many lines as its longest cell needs."""
    broken = [_broken(cell, width) for cell, width in zip(cells, widths, strict=True)]
    height = max(map(len, broken), default=1)
    filled = [[*parts, *[""] * (height - len(parts))] for parts in broken]
    return [
        (" " * GAP).join(f"{part:<{width}}" for part, width in zip(line, widths, strict=True)).rstrip()
        for line in zip(*filled, strict=True)
    ]


def _broken(cell: str, width: int) -> list[str]:
    if len(cell) <= width:
        return [cell]
    return [part.replace(TOGETHER, " ") for part in textwrap.wrap(UNIT.sub(TOGETHER, cell), width)]
