"""What a model looks like, in every figure and on every page: one colour, marker and line per model.

A series is told apart three times over, by colour, marker and line style, so that a figure survives colour blindness
and a grey printer. Trained models have colours and filled markers; training-free baselines are grey, thin and hollow.

Models of printed tables (the first in ``titles``) have the first colours. Any other model has a colour that follows
from its name, so that it looks the same on every board; if another model of the same board has it already, the next
one. The colours are those of Okabe and Ito, two of them darker because names are written in them, and seven more; each
has a lighter one for dark pages. Markers and lines have a name here for matplotlib and one for the page's library.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B07800", "#3A9BD9"),
    *("#5B4EA4", "#000000", "#8C2D04", "#7A7A00", "#B2182B", "#01665E", "#C51B7D"),
)
DARK_COLOURS = (
    *("#4DA3DB", "#FF8A3D", "#2CC79C", "#E59BC4", "#E6B33D", "#8CCBF2"),
    *("#A99BEA", "#F2F2F2", "#E08A5E", "#C9C94A", "#FF6B7A", "#4FC3B8", "#F58AC6"),
)
PRINTED = 6  # the colours of the models of printed tables, which no other model takes
GREYS = ("#4D4D4D", "#737373", "#8C8C8C", "#666666", "#999999")
DARK_GREYS = ("#C8CED4", "#AAB2BB", "#8F98A2", "#B9C0C7", "#9AA3AC")
MARKERS = (
    *(("o", "circle"), ("s", "square"), ("^", "triangle-up"), ("D", "diamond"), ("v", "triangle-down")),
    *(("P", "cross"), ("X", "x"), ("<", "triangle-left"), (">", "triangle-right"), ("p", "pentagon")),
    *(("h", "hexagon"), ("*", "star")),
)
HOLLOW = (
    *(("d", "diamond-tall"), ("8", "octagon"), ("*", "star"), ("h", "hexagon")),
    *(("p", "pentagon"), ("s", "square"), ("^", "triangle-up"), ("v", "triangle-down")),
)
LINES: tuple[tuple[Any, str], ...] = (
    *(("-", "solid"), ((0, (5, 1.5)), "dash"), ((0, (1.5, 1)), "dot"), ((0, (5, 1, 1, 1)), "dashdot")),
    *(((0, (8, 2)), "longdash"), ((0, (3, 1, 1, 1, 1, 1)), "longdashdot")),
)


@dataclass(frozen=True)
class Look:
    colour: str
    dark: str
    marker: str
    symbol: str
    line: Any
    dash: str
    filled: bool

    @property
    def face(self) -> str:
        return self.colour if self.filled else "white"

    @property
    def width(self) -> float:
        return 1.6 if self.filled else 1.0

    def on_page(self) -> dict[str, Any]:
        """For the page's charts."""
        symbol = self.symbol if self.filled else f"{self.symbol}-open"
        return {"colour": self.colour, "dark": self.dark, "symbol": symbol, "dash": self.dash, "width": self.width}


def looks(models: Iterable[str], baselines: Iterable[str], titles: Mapping[str, str]) -> dict[str, Look]:
    """A look for each model, in the given order. ``titles`` begins with the models of printed tables."""
    chosen, grey = list(dict.fromkeys(models)), set(baselines)
    printed = {name: slot for slot, name in enumerate(list(titles)[:PRINTED])}
    order = sorted(chosen, key=lambda name: ("[" in name, name))  # a plain model before its variants
    trained = _slots([name for name in order if name not in grey], printed, PRINTED, len(COLOURS) - PRINTED)
    hollow = _slots([name for name in order if name in grey], {}, 0, len(HOLLOW))
    return {name: _hollow(hollow[name]) if name in hollow else _filled(trained[name]) for name in chosen}


def series(names: Iterable[str], grey: Iterable[str] = ()) -> dict[str, Look]:
    """Looks of lines that are not models (values of a setting), in order; those in ``grey`` as baselines."""
    chosen, hollow = list(dict.fromkeys(names)), set(grey)
    counts = {True: itertools.count(), False: itertools.count()}
    return {name: (_hollow if name in hollow else _filled)(next(counts[name in hollow])) for name in chosen}


def _slots(names: Iterable[str], fixed: Mapping[str, int], first: int, count: int) -> dict[str, int]:
    """``fixed`` slots; else the one of ``count`` from ``first`` on that the name gives, or the next free one."""
    slots = {name: fixed[name] for name in names if name in fixed}
    for name in names:
        if name not in slots:
            own = zlib.crc32(name.encode("utf-8")) % count
            around = [first + (own + step) % count for step in range(count)]
            free = (
                slot for slot in itertools.chain(around, itertools.count(first + count)) if slot not in slots.values()
            )
            slots[name] = next(free)
    return slots


def _filled(slot: int) -> Look:
    marker, symbol = MARKERS[slot % len(MARKERS)]
    line, dash = LINES[(slot + slot // len(MARKERS)) % len(LINES)]
    place = slot % len(COLOURS)
    return Look(COLOURS[place], DARK_COLOURS[place], marker, symbol, line, dash, True)


def _hollow(slot: int) -> Look:
    marker, symbol = HOLLOW[slot % len(HOLLOW)]
    line, dash = LINES[1 + slot % (len(LINES) - 1)]
    place = slot % len(GREYS)
    return Look(GREYS[place], DARK_GREYS[place], marker, symbol, line, dash, False)
