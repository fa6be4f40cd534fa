"""One look for all figures: colours, markers, labels beside what they name, notes, and files.

A series is told apart three times over, by colour, marker and line style, so that a figure survives colour blindness
and a grey printer. Trained models have Okabe and Ito's colours and filled markers; training-free baselines are grey,
thin and hollow. Names stand at the ends of lines, moved apart where they would overlap, instead of in a legend.
"""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ..base.errors import UsageError
from ..base.files import replacing
from ..base.plain_text import in_figure
from ..trials.status import Status

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
GREYS = ("0.30", "0.45", "0.55", "0.40", "0.60")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p")
LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1)), (0, (5, 1, 1, 1)), (0, (8, 2)), (0, (3, 1, 1, 1, 1, 1)))
BASELINE_MARKERS = ("d", "h", "*", "8", "H")
CARETDOWN = 7  # matplotlib's number for the marker of what lies below an axis
FONT = 8.5
CHARACTERS = 17  # of small print per inch
DPI = 200
SETTINGS = {
    "font.size": FONT,
    "axes.titlesize": FONT + 0.5,
    "axes.labelsize": FONT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "0.92",
    "grid.linewidth": 0.6,
    "xtick.labelsize": FONT - 1,
    "ytick.labelsize": FONT - 1,
    "svg.hashsalt": "pdebench-hss",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
}
# Nothing of the day or the machine goes into a file: the same table gives the same bytes.
METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    "svg": {"Date": None, "Creator": None},
}


@dataclass(frozen=True)
class Style:
    colour: str
    marker: str
    line: Any
    filled: bool

    @property
    def face(self) -> str:
        return self.colour if self.filled else "white"

    @property
    def width(self) -> float:
        return 1.6 if self.filled else 1.0


def styles(names: Iterable[str], baselines: Iterable[str], titles: Mapping[str, str]) -> dict[str, Style]:
    """A style for each series. The first models in ``titles``, as many as there are colours, look the same in every
    figure; others take what is left, in order."""
    chosen, grey = list(dict.fromkeys(names)), set(baselines)
    trained = [name for name in chosen if name not in grey]
    own = {name: slot for slot, name in enumerate(list(titles)[: len(COLOURS)]) if name in trained}
    left = (slot for slot in itertools.count() if slot not in own.values())
    slots = {name: own[name] if name in own else next(left) for name in trained}
    greys = {name: slot for slot, name in enumerate(sorted(set(chosen) & grey))}
    return {name: _grey_style(greys[name]) if name in greys else _style(slots[name]) for name in chosen}


def _style(slot: int) -> Style:
    return Style(COLOURS[slot % len(COLOURS)], MARKERS[slot % len(MARKERS)], LINES[slot % len(LINES)], True)


def _grey_style(slot: int) -> Style:
    line = LINES[1 + slot % (len(LINES) - 1)]
    return Style(GREYS[slot % len(GREYS)], BASELINE_MARKERS[slot % len(BASELINE_MARKERS)], line, False)


def label_of(name: str, titles: Mapping[str, str]) -> str:
    """``net[width=4]`` as people read it: ``A Net (width=4)``."""
    base, bracket, options = name.partition("[")
    return in_figure(titles.get(base, base).replace("--", "–") + (f" ({options.rstrip(']')})" if bracket else ""))


# ---------------------------------------------------------------- labels beside what they name


def spread(wanted: Sequence[float], gap: float, top: float = math.inf) -> list[float]:
    """Positions as near as possible (least squares) to those wanted, in their order, at least ``gap`` apart and none
    above ``top``."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    blocks: list[tuple[float, int]] = []  # (sum of wanted starts, members): a block is laid around its mean
    for rank, i in enumerate(order):
        total, count = wanted[i] - rank * gap, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / count:
            before, members = blocks.pop()
            total, count = total + before, count + members
        blocks.append((total, count))
    last = top - (len(wanted) - 1) * gap  # starts ascend, so cutting them off here keeps the sum of squares least
    starts = [min(total / count, last) for total, count in blocks for _ in range(count)]
    placed = [0.0] * len(wanted)
    for rank, i in enumerate(order):
        placed[i] = starts[rank] + rank * gap
    return placed


@dataclass(frozen=True)
class End:
    """A name for the point (x, y) of an axes."""

    text: str
    x: float
    y: float
    colour: str


def label_ends(figure: Any, panels: Sequence[tuple[Any, Sequence[End]]]) -> None:
    """Write names beside each axes at the height of their points, moved apart but not above it, with thin leaders."""
    figure.draw_without_rendering()  # a whole layout, so once for all; from here on sizes are known
    line = 1.15 * FONT * figure.dpi / 72
    for axes, ends in panels:
        to_axes = axes.transData + axes.transAxes.inverted()
        heights = [float(to_axes.transform((end.x, end.y))[1]) for end in ends]
        for end, height in zip(ends, spread(heights, line / axes.get_window_extent().height, top=1.0), strict=True):
            axes.annotate(
                end.text, (end.x, end.y), (1.035, height), xycoords="data", textcoords="axes fraction", va="center",
                ha="left", color=end.colour, fontsize=FONT - 0.5, annotation_clip=False,
                arrowprops={
                    "arrowstyle": "-", "color": "0.75", "linewidth": 0.6, "shrinkA": 1, "shrinkB": 3,
                    "relpos": (0, 0.5),
                },
            )  # fmt: skip


def log_ticks(axis: Any) -> None:
    """Powers of ten; within a decade or so also 2 and 5, as plain numbers. Never labels on top of one another."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    axis.set_minor_formatter(NullFormatter())
    low, high = axis.get_view_interval()
    if high / low < 40:
        # Where hardly a 1, 2 or 5 is in sight, LogLocator would take a dozen ticks of its own.
        narrow = high / low < 4
        axis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]) if narrow else LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


# ---------------------------------------------------------------- what is not shown, and why


def failures(table: pd.DataFrame, titles: Mapping[str, str]) -> list[str]:
    """A line for each model that has points missing or incomplete, with the reason; nothing fails silently."""
    lines = []
    bad = table[table["status"] != Status.OK]
    for (model, status, reason), rows in bad.groupby(["model", "status", "reason"], sort=False):
        of = f" ({len(rows)} of {int((table['model'] == model).sum())} points)"
        least = int(rows["n_seeds"].min())
        seeds = f", {least} of {int(rows['n_expected'].max())} seeds" if least else ""
        why = str(reason) if status in (Status.SKIPPED, Status.MISSING) else f"{status}: {reason}"
        lines.append(f"{label_of(str(model), titles)}{of}{seeds}: {why}")
    return lines


def add_heading(figure: Any, title: str, subtitle: str) -> None:
    """Title and subtitle at the top left; the layout makes room for their lines."""
    from matplotlib.transforms import offset_copy

    title, subtitle = in_figure(title), in_figure(subtitle)
    lines = textwrap.wrap(subtitle, int(figure.get_figwidth() * CHARACTERS))
    size = FONT + 2
    _grow(figure, 1.25 * size * (1 + len(lines)))
    figure.suptitle("\n".join([title, *(" " for _ in lines)]), x=0.01, ha="left", fontsize=size, fontweight="bold")
    below = offset_copy(figure.transFigure, figure, y=-(4 + 1.45 * size), units="points")
    figure.text(0.01, 1, "\n".join(lines), transform=below, ha="left", va="top", fontsize=FONT - 1, color="0.35")


def add_notes(figure: Any, notes: Sequence[str]) -> None:
    """Small print below everything."""
    if not notes:
        return
    width = int(figure.get_figwidth() * CHARACTERS)
    lines = [line for note in notes for line in textwrap.wrap(in_figure(note), width, subsequent_indent="   ")]
    _grow(figure, 1.3 * (FONT - 1.5) * len(lines))
    figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=FONT - 1.5, color="0.35")


def _grow(figure: Any, points: float) -> None:
    """Text enlarges the page and does not shrink the axes, whose names are already placed."""
    figure.set_figheight(figure.get_figheight() + points / 72)


# ---------------------------------------------------------------- files


def new_figure(width: float, height: float) -> Any:
    matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=DPI, layout="constrained")


def matplotlib() -> Any:
    """The library, or a message that says where to get it."""
    try:
        import matplotlib
    except ModuleNotFoundError as error:
        raise UsageError(
            "figures need matplotlib: pip install 'pdebench-hss[report]'  (or --figure none for the CSV alone)"
        ) from error
    return matplotlib


def save(figure: Any, paths: Iterable[Path]) -> list[Path]:
    """Write the figure to each path, in the format of its suffix."""
    written = []
    for path in paths:
        kind = path.suffix[1:]
        with replacing(path) as temporary:
            figure.savefig(temporary, format=kind, metadata=METADATA.get(kind))
        written.append(path)
    return written
