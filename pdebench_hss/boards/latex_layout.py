"""How tables of boards stand on a page of LaTeX: a row per model, a column per task, baselines below a line.

Many columns are laid out in blocks, one below the other, so that a table is as wide as the text and fits a page; what
is still too wide is scaled down to the text. Needs the packages booktabs and graphicx, and nothing else.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..base.plain_text import latex

ACROSS, LINES = 4, 52  # columns of a block if there is room, and lines of a page in small print
HEAD = 18  # characters of a column's head before it is broken
STRUT = r"\rule{0pt}{2.6ex}"  # keeps a head of several lines off the rule above it
MISSING = "--"
NEEDS = r"% needs \usepackage{booktabs} and \usepackage{graphicx}"


@dataclass(frozen=True)
class Column:
    """A head in plain text, and below it, in small print, what differs between the columns: ``{budget: 400 steps}``."""

    head: str
    below: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """A name in plain text and a cell of LaTeX for each column; ``apart`` rows stand below a line."""

    name: str
    cells: Sequence[str]
    apart: bool = False


def table(columns: Sequence[Column], rows: Sequence[Row], caption: str, label: str) -> str:
    """A floating table; ``caption`` is LaTeX."""
    across = columns_of_a_block(len(columns), len(rows))
    lines = []
    for start in range(0, len(columns), across):
        lines += _block(columns[start : start + across], rows, slice(start, start + across), across, bool(start))
    return "\n".join(
        [
            NEEDS,
            r"\begin{table*}[t]",
            r"\centering",
            r"\small",
            r"\renewcommand{\arraystretch}{1.1}",  # underlines keep off the powers below them
            r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%",
            rf"\begin{{tabular}}{{l{'c' * across}}}",
            r"\toprule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}}",
            rf"\caption{{{caption}}}",
            rf"\label{{{label}}}",
            r"\end{table*}",
            "",
        ]
    )


def columns_of_a_block(columns: int, rows: int) -> int:
    """At least `ACROSS`, more if the blocks would not fit a page; all blocks about as wide."""
    across = min(ACROSS, columns)
    while -(-columns // across) * (rows + 5) > LINES and across < columns:
        across += 1
    return -(-columns // -(-columns // across))


def _block(columns: Sequence[Column], rows: Sequence[Row], part: slice, across: int, further: bool) -> list[str]:
    empty = [""] * (across - len(columns))
    lines = [r"\midrule[\heavyrulewidth]"] if further else []
    lines.append(_line(["", *(_stacked(column.head) for column in columns), *empty]))
    for name in dict.fromkeys(name for column in columns for name in column.below):
        below = [
            rf"\footnotesize {latex(text)}" for text in (name, *(column.below.get(name, "") for column in columns))
        ]
        lines.append(_line([*below, *empty]))
    lines.append(r"\midrule")
    apart = False
    for number, row in enumerate(rows):
        if row.apart and not apart and number:
            lines.append(r"\midrule")
        apart = row.apart
        lines.append(_line([latex(row.name), *row.cells[part], *empty]))
    return lines


def _stacked(head: str) -> str:
    lines = textwrap.wrap(head, HEAD, break_long_words=False) or [""]
    if len(lines) == 1:
        return latex(lines[0])
    return r"\shortstack{" + STRUT + r" \\ ".join(map(latex, lines)) + "}"


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def marked(math: str, mark: int) -> str:
    """A formula; bold with mark 1, underlined with mark 2."""
    return {1: rf"$\mathbf{{{math}}}$", 2: rf"\underline{{${math}$}}"}.get(mark, f"${math}$")


def named(label: str, titles: Mapping[str, str]) -> str:
    """``net[width=4]`` as people read it: ``A Net (width=4)``; TeX's dash as a dash."""
    base, bracket, options = label.partition("[")
    return titles.get(base, base).replace("--", "–") + (f" ({options.rstrip(']')})" if bracket else "")


def ordered(models: Iterable[str], titles: Mapping[str, str]) -> list[str]:
    """As in ``titles``, which begins with the models of printed tables; others by name."""
    places = {name: place for place, name in enumerate(titles)}
    return sorted(models, key=lambda label: (places.get(label.partition("[")[0], len(places)), label))
