"""A picture of a task's data: inputs, outputs and spectra of a few samples, one sample to a row.

1D          curves; a rollout is a space-time image
2D          one image per channel, points outside the domain left out (grey); a rollout at its start, middle and end
3D          slices through the middle of the cube
any         a channel that is constant over the grid (a parameter) is a number beside the row, not an image

Images in one column share their colours: a light-to-dark map for fields of one sign, a diverging one about zero for
fields of both. Both maps, and the colours of the curves, can be told apart by colour-blind readers.

The spectrum is the power in shells of equal wave number, |k| counted in periods across the domain. Fields that are not
periodic are windowed first (Hann), or the jump between their ends would hide everything else.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import UsageError
from ..base.plain_text import in_figure
from ..contract.task import TaskInfo

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe and Ito's
BLUE, ORANGE = PALETTE[:2]
OUTSIDE = "0.85"
LINES = ("-", "--", ":", "-.")
CUBE_SLICES = 2  # up to so many varying channels a cube is cut along all three axes, beyond it along one
DECADES = 12  # of power below the strongest shell that are shown
DPI = 150


@dataclass(frozen=True)
class Image:
    """A column of images: values (samples, points along the vertical axis, points along the horizontal axis)."""

    title: str
    values: np.ndarray
    extent: tuple[float, float, float, float]
    labels: tuple[str, str]
    limits: tuple[float, float]
    square: bool = True
    width: float = 2.5


@dataclass(frozen=True)
class Curves:
    """A column of curves: each of shape (samples, points) over ``x``; ``log`` draws both axes logarithmically."""

    title: str
    x: np.ndarray
    curves: list[tuple[str, np.ndarray]]
    label: str
    log: bool = False
    width: float = 3.2
    styles: list[tuple[str, str]] = field(default_factory=list)  # (colour, line) of each curve


def preview(task: TaskInfo, inputs: np.ndarray, outputs: np.ndarray, path: str | Path, samples: int = 3) -> Path:
    """Draw the first ``samples`` samples to ``path`` (a format that matplotlib writes: png, pdf, svg)."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise UsageError("a preview needs matplotlib: pip install 'pdebench-hss[plot]'") from error
    path = Path(path)
    count = min(samples, len(inputs))
    if count < 1:
        raise UsageError(f"nothing to draw: samples={samples}, the data have {len(inputs)}")
    inputs, outputs = np.asarray(inputs[:count], np.float64), np.asarray(outputs[:count], np.float64)

    columns = [*_fields(task, inputs, outputs), _spectra(task, inputs, outputs)]
    widths = [column.width for column in columns]
    figure = Figure(figsize=(sum(widths) + 0.6, 2.3 * count + 1.3), dpi=DPI, layout="constrained")
    formats = figure.canvas.get_supported_filetypes()
    if path.suffix[1:].lower() not in formats:
        raise UsageError(f"can't draw to {path.name!r}: the name must end in one of {', '.join(sorted(formats))}")
    axes = figure.subplots(count, len(columns), squeeze=False, width_ratios=widths)
    for column, drawn in enumerate(columns):
        _draw(figure, axes[:, column], drawn)
    for row, label in enumerate(_row_labels(task, inputs)):
        axes[row, 0].annotate(
            label, (0, 0.5), (-46, 0), xycoords="axes fraction", textcoords="offset points",
            rotation=90, ha="center", va="center", fontsize=9, fontweight="bold",
        )  # fmt: skip
    _head(figure, task)
    figure.savefig(path)
    return path


# ---------------------------------------------------------------- what is drawn


def _fields(task: TaskInfo, inputs: np.ndarray, outputs: np.ndarray) -> list[Image | Curves]:
    if task.rollout:
        frames = np.concatenate([inputs[:, None], outputs], axis=1)  # (samples, 1 + steps, channels, *grid)
        return _rollout(task, frames)
    if task.dim == 1:
        return [
            _curves_1d(task, "input", _channels("", inputs), BLUE),
            _curves_1d(task, "output", _channels("", outputs), ORANGE),
        ]
    channels = _channels("input", inputs) + _channels("output", outputs)
    return [image for name, values in channels for image in _images(task, name, values, len(channels))]


def _rollout(task: TaskInfo, frames: np.ndarray) -> list[Image | Curves]:
    steps = frames.shape[1] - 1
    times = {f"step {i}": i for i in (0, steps // 2, steps)}
    columns: list[Image | Curves] = []
    for c in range(task.out_channels):
        name = f"u{c + 1}" if task.out_channels > 1 else "u"
        if task.dim == 1:
            low, high = _bounds(task)[0]
            columns.append(_curves_1d(task, name, [(label, frames[:, i, c]) for label, i in times.items()]))
            space_time, extent = frames[:, :, c], (low, high, -0.5, steps + 0.5)
            labels, limits = ("x", "step"), _limits(space_time)
            columns.append(
                Image(f"{name} in space and time", space_time, extent, labels, limits, square=False, width=3.2)
            )
        else:
            for label, i in times.items():
                columns += _images(task, f"{name}, {label}", frames[:, i, c], len(times) * task.out_channels)
    return columns


def _channels(name: str, values: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """The channels that vary over the grid in some sample, named."""
    count = values.shape[1]
    names = [name if count == 1 else f"{name} {c + 1}".strip() for c in range(count)]
    return [(names[c], values[:, c]) for c in range(count) if not _constant(values[:, c])]


def _constant(values: np.ndarray) -> bool:
    """Whether (samples, *grid) is one number per sample."""
    flat = values.reshape(len(values), -1)
    return bool((np.ptp(flat, axis=1) == 0).all())


def _row_labels(task: TaskInfo, inputs: np.ndarray) -> list[str]:
    labels = []
    constants = [c for c in range(task.in_channels) if task.in_channels > 1 and _constant(inputs[:, c])]
    for i, sample in enumerate(inputs):
        numbers = ", ".join(f"in{c + 1} = {sample[c].flat[0]:.4g}" for c in constants)
        labels.append(f"sample {i + 1}" + (f"\n{numbers}" if numbers else ""))
    return labels


def _bounds(task: TaskInfo) -> list[tuple[float, float]]:
    """Of each axis, half a cell beyond its first and last point."""
    result = []
    for axis in range(task.dim):
        points = np.unique(task.coords[axis])
        half = (points[-1] - points[0]) / (len(points) - 1) / 2
        result.append((float(points[0] - half), float(points[-1] + half)))
    return result


def _curves_1d(task: TaskInfo, title: str, curves: list[tuple[str, np.ndarray]], first: str = BLUE) -> Curves:
    colours = (first, *(c for c in PALETTE if c != first))
    styles = [(colours[i % len(colours)], LINES[i // len(colours) % len(LINES)]) for i in range(len(curves))]
    if task.mask is not None:
        curves = [(name, np.where(task.mask, values, np.nan)) for name, values in curves]
    return Curves(title, task.coords[0], curves, "x", styles=styles)


def _images(task: TaskInfo, name: str, values: np.ndarray, channels: int) -> list[Image | Curves]:
    """(samples, *grid) as one image, or the cuts through a cube."""
    if task.mask is not None:
        values = np.where(task.mask, values, np.nan)
    bounds = _bounds(task)
    if task.dim == 2:
        return [_image(name, values, bounds, ("x", "y"), _limits(values))]
    axes = range(3) if channels <= CUBE_SLICES else (2,)
    cuts = [np.take(values, task.grid[axis] // 2, axis=1 + axis) for axis in axes]  # each (samples, *two axes)
    limits = _limits(np.concatenate([cut.ravel() for cut in cuts]))
    images: list[Image | Curves] = []
    for axis, cut in zip(axes, cuts, strict=True):
        first, second = (a for a in range(3) if a != axis)
        labels = ("xyz"[first], "xyz"[second])
        images.append(_image(f"{name}, middle {'xyz'[axis]}", cut, [bounds[first], bounds[second]], labels, limits))
    return images


def _image(
    title: str,
    values: np.ndarray,  # (samples, first axis, second axis): the first becomes the horizontal one
    bounds: list[tuple[float, float]],
    labels: tuple[str, str],
    limits: tuple[float, float],
) -> Image:
    return Image(title, values.swapaxes(1, 2), (*bounds[0], *bounds[1]), labels, limits)


def _limits(values: np.ndarray) -> tuple[float, float]:
    """The range of colours: symmetric about zero for fields of both signs."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    if low < 0 < high and min(-low, high) > 0.1 * max(-low, high):
        high = max(-low, high)
        low = -high
    return (low, high) if low < high else (low - 0.5, high + 0.5)


# ---------------------------------------------------------------- spectra


def _spectra(task: TaskInfo, inputs: np.ndarray, outputs: np.ndarray) -> Curves:
    if task.rollout:
        sides = {"step 0": (BLUE, inputs), f"step {outputs.shape[1]}": (ORANGE, outputs[:, -1])}
    else:
        sides = {"input": (BLUE, inputs), "output": (ORANGE, outputs)}
    curves, styles = [], []
    for side, (colour, values) in sides.items():
        for i, (name, channel) in enumerate(_channels(side, values)):
            inside = channel if task.mask is None else np.where(task.mask, channel, 0.0)
            curves.append((name, shell_power(inside, task.periodic)))
            styles.append((colour, LINES[i % len(LINES)]))
    shells = np.arange(min(task.grid) // 2 + 1)
    return Curves("power spectrum", shells[1:], [(n, p[:, 1:]) for n, p in curves], "|k|", log=True, styles=styles)


def shell_power(values: np.ndarray, periodic: bool) -> np.ndarray:
    """Power of (samples, *grid) in the shells |k| = 0, 1, 2, ..., shape (samples, min(grid) // 2 + 1)."""
    grid = values.shape[1:]
    if not periodic:
        for axis, n in enumerate(grid):
            window = np.hanning(n) / np.sqrt(np.mean(np.hanning(n) ** 2))  # of mean square one
            values = values * window.reshape([-1 if a == axis else 1 for a in range(len(grid))])
    axes = tuple(range(1, values.ndim))
    power = np.abs(np.fft.fftn(values, axes=axes, norm="forward")) ** 2
    waves = np.meshgrid(*(np.fft.fftfreq(n, 1 / n) for n in grid), indexing="ij")
    shell = np.rint(np.sqrt(sum(k**2 for k in waves))).astype(int).ravel()
    count = min(grid) // 2 + 1
    return np.stack([np.bincount(shell, sample.ravel(), shell.max() + 1)[:count] for sample in power])


# ---------------------------------------------------------------- how it is drawn


def _head(figure: Any, task: TaskInfo) -> None:
    grid = " × ".join(map(str, task.grid))
    equation = textwrap.wrap(in_figure(task.spec.equation), int(14 * figure.get_figwidth()))
    title = in_figure(f"{task.spec.title}   {task.scale}, {grid}".replace("--", "–"))
    figure.suptitle(title + "\n" * len(equation), fontsize=13, fontweight="bold")  # leaves room for the equation
    figure.text(0.5, 0.995, "\n\n" + "\n".join(equation), ha="center", va="top", fontsize=8.5, color="0.35")


def _draw(figure: Any, axes: Any, column: Image | Curves) -> None:
    if isinstance(column, Image):
        _draw_images(figure, axes, column)
    else:
        _draw_curves(axes, column)
    axes[0].set_title(column.title, fontsize=10)
    for ax in axes:
        ax.tick_params(labelsize=7, length=2.5, width=0.6)
    for ax in axes[:-1]:
        ax.tick_params(labelbottom=False)


def _draw_images(figure: Any, axes: Any, column: Image) -> None:
    low, high = column.limits
    colours = "RdBu_r" if low == -high else "viridis"
    for ax, values in zip(axes, column.values, strict=False):
        drawn = ax.imshow(
            values, extent=column.extent, origin="lower", cmap=colours, vmin=low, vmax=high,
            aspect="equal" if column.square else "auto", interpolation="nearest",
        )  # fmt: skip
        ax.set_facecolor(OUTSIDE)
        ax.set_ylabel(column.labels[1], fontsize=8, labelpad=3)
        ax.locator_params(nbins=4)
    axes[-1].set_xlabel(column.labels[0], fontsize=8, labelpad=1)
    bar = figure.colorbar(drawn, ax=list(axes), location="bottom", fraction=0.03, pad=0.01, shrink=0.85)
    bar.ax.tick_params(labelsize=7, length=2.5, width=0.6)
    bar.locator = _few_ticks()
    bar.outline.set_linewidth(0.5)


def _draw_curves(axes: Any, column: Curves) -> None:
    for row, ax in enumerate(axes):
        for (name, values), (colour, line) in zip(column.curves, column.styles, strict=False):
            ax.plot(column.x, values[row], line, color=colour, linewidth=1.3, label=name)
        if column.log:
            ax.set_xscale("log", base=2)
            ax.set_yscale("log")
            ax.xaxis.set_major_formatter("{x:g}")
            powers = np.concatenate([values[row] for _, values in column.curves] or [np.ones(1)])
            top, bottom = powers.max() or 1.0, powers.min()
            ax.set_ylim(max(bottom / 3, top * 10.0**-DECADES), top * 10)
        ax.grid(True, color="0.9", linewidth=0.6)
        ax.spines[["top", "right"]].set_visible(False)
    if len(column.curves) > 1:
        axes[0].legend(fontsize=7, frameon=False, loc="best")
    axes[-1].set_xlabel(column.label, fontsize=8, labelpad=1)


def _few_ticks() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(nbins=4)
