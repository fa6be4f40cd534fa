"""One style for all figures: fonts, labels beside what they name, notes, and files. Colours are in `looks`.

Names stand beside the points that they belong to, instead of in a legend: moved apart where they would overlap, each
joined to its point by a thin line, and no two of these lines cross.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..base.errors import UsageError
from ..base.files import replacing
from ..base.plain_text import in_figure
from ..trials.status import Status

DEVIATION = "whiskers: ± 1 standard deviation"  # as subtitles say it
ROOM, LEAST = 3.0, 1e-300
LABELS_AT = 1.035  # of an axes' width
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
    """Write names beside each axes near the height of their points, moved apart but not above it, with thin leaders."""
    figure.draw_without_rendering()  # a whole layout, so once for all; from here on sizes are known
    line = 1.15 * FONT * figure.dpi / 72
    for axes, ends in panels:
        box = axes.get_window_extent()
        at = np.array([axes.transData.transform((end.x, end.y)) for end in ends]).reshape(-1, 2)
        heights = np.array(spread(list((at[:, 1] - box.y0) / box.height), line / box.height, top=1.0))
        places = np.stack([np.full(len(ends), box.x0 + LABELS_AT * box.width), box.y0 + heights * box.height], axis=1)
        for end, place in zip(ends, uncrossed(at, places), strict=True):
            axes.annotate(
                end.text, (end.x, end.y), (LABELS_AT, heights[place]), xycoords="data", textcoords="axes fraction",
                va="center", ha="left", color=end.colour, fontsize=FONT - 0.5, annotation_clip=False,
                arrowprops={
                    "arrowstyle": "-", "color": "0.75", "linewidth": 0.6, "shrinkA": 1, "shrinkB": 3,
                    "relpos": (0, 0.5),
                },
            )  # fmt: skip


def uncrossed(points: np.ndarray, places: np.ndarray) -> list[int]:
    """The place of each point, so that the straight lines between them do not cross.

    Of all ways to join points and places, the one with the least total length has no crossing: two lines that cross
    are the diagonals of a quadrilateral, and longer together than two of its opposite sides.
    """
    from scipy.optimize import linear_sum_assignment

    lengths = np.linalg.norm(points[:, None] - places[None], axis=2)
    return [int(place) for place in linear_sum_assignment(lengths)[1]]


def whiskers(axes: Any, at: Any, low: Any, high: Any, colours: Sequence[str], *, along_x: bool = False) -> None:
    """Lines from ``low`` to ``high`` at each of ``at``, on a logarithmic axis whose points are drawn already.

    Whiskers are drawn whole, but don't flatten the rest: the axis makes room for them up to `ROOM` times beyond its
    points. What is longer, or goes down to zero, runs over the edge of the panel.
    """
    from matplotlib.collections import LineCollection

    at, low, high = (np.asarray(values, dtype=float) for values in (at, low, high))
    known = np.isfinite(low) & np.isfinite(high) & (high > low)
    if not known.any():
        return
    at, low, high = at[known], np.maximum(low[known], LEAST), high[known]
    ends = np.stack([np.stack([at, low], axis=1), np.stack([at, high], axis=1)], axis=1)  # (n, 2 ends, 2)
    lines = LineCollection(
        list(ends[..., ::-1] if along_x else ends), colors=[c for c, k in zip(colours, known, strict=True) if k],
        linewidths=1.0, zorder=2.5,
    )  # fmt: skip
    axes.add_collection(lines, autolim=False)
    bottom, top = axes.get_xlim() if along_x else axes.get_ylim()
    limits = min(bottom, max(low.min(), bottom / ROOM) / 1.1), max(top, min(high.max(), top * ROOM) * 1.1)
    (axes.set_xlim if along_x else axes.set_ylim)(limits)


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
    wrap = textwrap.TextWrapper(width, subsequent_indent="   ", break_on_hyphens=False)
    lines = [line for note in notes for line in wrap.wrap(in_figure(note))]
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
            "figures need matplotlib: pip install 'pdebench-hss[plot]'  (or --figure none for the CSV alone)"
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
