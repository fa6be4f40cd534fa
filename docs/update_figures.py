"""Brings figures in documents up to date with the boards and CSV files that their comments name.

    python docs/update_figures.py            rewrites README.md and docs/*.md, and says what it changed
    python docs/update_figures.py --check    changes nothing; ends with 1 if anything would change

The comments are those of tests/support/document_figures.py, where a test compares the figures. A figure keeps its
number of digits. Those of a paragraph that are printed alike are taken in the order of its comments; if the paragraph
prints that number once more, it can't be said which is meant. What can't be brought up to date is printed, and left as
it is. What a sentence makes of its figures ("leads", "close") no program can check: read the lines that are printed.
"""

from __future__ import annotations

import math
import re
import shlex
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from document_figures import COMMENT, TABLE, Figure, block_span, cells, complaint, look_up, pattern, status  # noqa: E402

DOCUMENTS = ("README.md", "docs/*.md")
NUMBERING = re.compile(r"(?<=\n)\d+\. ")  # of a list
EMPTY = {"skipped": "–", "missing": "not run"}


class Edit(NamedTuple):
    start: int
    end: int
    text: str
    about: str


def edits_of(text: str, root: Path) -> tuple[list[Edit], list[str]]:
    """What brings a document up to date, and what is to be done by hand."""
    edits, by_hand = named_figures(text, root)
    for comment in TABLE.finditer(text):
        for (start, end), words in cells(text, comment, root):
            new = in_cell(text[start:end], comment[1], words, root)
            if new != text[start:end]:
                edits.append(Edit(start, end, new, f"{comment[1]} {' '.join(words)}"))
    return edits, by_hand


def named_figures(text: str, root: Path) -> tuple[list[Edit], list[str]]:
    edits, by_hand = [], []
    alike: dict[tuple[int, str], list[tuple[int, Figure]]] = {}  # by block and by how they are printed
    for comment in COMMENT.finditer(text):
        start, end = block_span(text, comment.start())
        for line in re.finditer(r"(\S+) = (.+)\n", comment[2]):
            figure = Figure(line[1], comment[1], tuple(shlex.split(line[2])), text[start:end])
            alike.setdefault((start, line[1]), []).append((comment.start(2) + line.start(), figure))
    for (start, printed), named in alike.items():
        found = pattern(printed).finditer(named[0][1].block)
        places = [place.start() for place in found if not NUMBERING.match(place.string, place.start())]
        for i, (at, figure) in enumerate(named):
            wrong = complaint(figure, root)
            if wrong is None:
                continue
            value, about = look_up(root / figure.file, figure.words), f"{figure.file} {' '.join(figure.words)}"
            if len(places) != len(named) or isinstance(value, str) or not math.isfinite(value):
                by_hand.append(f"{printed} ({about}): {wrong}")
                continue
            new = like(printed, value)
            place = start + places[i]
            edits += [Edit(place, place + len(printed), new, about), Edit(at, at + len(printed), new, "")]
    return edits, by_hand


def in_cell(printed: str, board: str, words: tuple[str, str], root: Path) -> str:
    """What a cell of a table should say; as it is where that is right."""
    ended = status(root / board, *words)
    if ended != "ok":
        return EMPTY.get(ended, ended or printed)
    number = printed.strip("*")
    if pattern(number).fullmatch(number) and complaint(Figure(number, board, words, number), root) is None:
        return printed
    value = float(look_up(root / board, words))
    return printed.replace(number, f"{float(f'{value:.2g}'):g}" if value >= 0.01 else like("1.0e-3", value))


def like(printed: str, value: float) -> str:
    """``value`` with as many digits as ``printed`` has, small numbers with an exponent where ``printed`` has one."""
    digits = len(re.sub(r"e.*|\D", "", printed).lstrip("0")) or 1
    if value == 0:
        return "0"
    if value < (1e-2 if "e" in printed else 1e-3):
        return re.sub(r"e([+-])0*", r"e\1", f"{value:.{digits - 1}e}").replace("e+", "e")
    magnitude = math.floor(math.log10(float(f"{value:.{digits - 1}e}")))
    return f"{value:,.{max(0, digits - 1 - magnitude)}f}"


def main(check: bool) -> int:
    changed, hands = 0, 0
    for path in sorted({path for name in DOCUMENTS for path in ROOT.glob(name)}):
        text = path.read_text(encoding="utf-8")
        edits, by_hand = edits_of(text, ROOT)
        for edit in edits:
            if edit.about:
                line = text.count("\n", 0, edit.start) + 1
                print(f"{path.relative_to(ROOT)}:{line}: {text[edit.start : edit.end]} -> {edit.text}  ({edit.about})")
        for left in by_hand:
            print(f"{path.relative_to(ROOT)}: by hand: {left}")
        changed, hands = changed + len(edits), hands + len(by_hand)
        if edits and not check:
            for edit in sorted(edits, reverse=True):
                text = text[: edit.start] + edit.text + text[edit.end :]
            path.write_text(text, encoding="utf-8")
    return int(bool(hands or (check and changed)))


if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    sys.exit(main(check="--check" in sys.argv))
