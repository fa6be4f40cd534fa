"""A record's picture arrays -> panels a page can draw: images and curves, with titles and ranges.

For each of the best, median and worst test sample:  input | truth | prediction | error; and of all together, at each
point, the mean and the worst |error|.
A field over a plane (or over space and time) is an image; over a line, a curve. Truth and prediction share one range of
colours. A channel that is constant over the grid is a parameter, shown as a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .png import data_uri, png

PICTURE = ("picture_index", "picture_input", "picture_truth", "picture_error")
NAMES = ("best", "median", "worst")
DIGITS = 4


def panels(samples: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    """One entry per shown sample; empty if the record has no pictures (or damaged ones)."""
    if not all(name in samples for name in PICTURE):
        return []
    errors = samples.get("error_test_err")
    shown: list[dict[str, Any]] = []
    for i, sample in enumerate(samples["picture_index"]):
        inputs, truth, error = (_finite(samples[name][i]) for name in PICTURE[1:])
        numbers, drawn = _inputs(inputs)
        shown.append(
            {
                "name": NAMES[i],
                "sample": int(sample),
                "error": float(errors[sample]) if errors is not None and sample < len(errors) else None,
                "axes": "t to the right, x up" if inputs.ndim < truth.ndim else "x to the right, y up",
                "numbers": numbers,
                "panels": drawn + _outputs(truth, error),
            }
        )
    return shown + _map(samples.get("picture_map"), shown[0]["axes"])


def _map(maps: np.ndarray | None, axes: str) -> list[dict[str, Any]]:
    """Where errors are, over the whole test set: (2, channels, ...). Records of earlier versions have none."""
    if maps is None:
        return []
    drawn = []
    for role, channels in zip(("mean", "worst"), (_finite(half) for half in maps), strict=True):
        for c, values in enumerate(channels):
            title = f"{role} |error|" + (f" {c + 1}" if len(channels) > 1 else "")
            drawn.append(_panel(title, role, values, (0.0, float(np.nanmax(values)) or 1.0)))
    nothing: dict[str, Any] = {"sample": None, "error": None, "numbers": {}}
    return [{"name": "all test samples", "axes": axes, **nothing, "panels": drawn}]


def _finite(values: np.ndarray) -> np.ndarray:
    """Values that are not finite are drawn like points outside the domain; if a plane has no finite value, as zero."""
    drawn = np.where(np.isfinite(values), np.asarray(values, np.float64), np.nan)
    return drawn if np.isfinite(drawn).reshape(len(drawn), -1).any(axis=1).all() else np.nan_to_num(drawn)


def _inputs(channels: np.ndarray) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Constant channels as numbers, the rest as panels."""
    numbers, drawn = {}, []
    for c, values in enumerate(channels):
        name = f"input {c + 1}" if len(channels) > 1 else "input"
        if len(channels) > 1 and np.nanmin(values) == np.nanmax(values):
            numbers[name] = _short(float(np.nanmax(values)))
        else:
            drawn.append(_panel(name, "input", values, _range(values)))
    return numbers, drawn


def _outputs(truth: np.ndarray, error: np.ndarray) -> list[dict[str, Any]]:
    drawn = []
    for c in range(len(truth)):
        suffix = f" {c + 1}" if len(truth) > 1 else ""
        limits = _range(truth[c])
        largest = float(np.nanmax(np.abs(error[c]))) or 1.0
        drawn += [
            _panel(f"truth{suffix}", "truth", truth[c], limits),
            _panel(f"prediction{suffix}", "prediction", truth[c] + error[c], limits),
            _panel(f"error{suffix}", "error", error[c], (-largest, largest)),
        ]
    return drawn


def _panel(title: str, role: str, values: np.ndarray, limits: tuple[float, float]) -> dict[str, Any]:
    about = {"title": title, "role": role}
    if values.ndim == 1:
        return {**about, "y": [None if np.isnan(v) else _short(v) for v in values]}
    picture = png(values.T[::-1], *limits)  # first axis to the right, second (or time's end) upwards
    return {**about, "png": data_uri(picture), "low": _short(limits[0]), "high": _short(limits[1])}


def _range(values: np.ndarray) -> tuple[float, float]:
    """The range of colours: symmetric about zero for fields of both signs."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    if low < 0 < high and min(-low, high) > 0.1 * max(-low, high):
        high = max(-low, high)
        low = -high
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
