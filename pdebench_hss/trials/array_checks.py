"""Checks of a record's arrays: errors must have the means that it states, curves and pictures must be drawable."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from .invalid import Invalid

if TYPE_CHECKING:
    import numpy as np

ROUNDING = 1e-9  # between a mean here and the same mean on another machine
ERRORS = ("test_err", "val_err", "relative_l2", "trajectory_l2", "rmse", "max_error")  # what decides how a trial ended


def check_errors(fields: Mapping[str, Any], arrays: Mapping[str, np.ndarray], left_out: Collection[str] = ()) -> None:
    """Every error that a record states must be the mean over its test or held-out samples. So must its further metrics,
    but for arrays that a pack says it ``left_out``; one without a finite value for some sample is not stated."""
    group = arrays.get("test_group")
    if group is not None and (group.shape != (fields["data"]["n_test"],) or group.dtype.kind not in "iu"):
        raise Invalid("its starts are not one number for each of its test samples")
    behind: dict[str, np.ndarray] = {}
    for name in fields["metrics"]:
        errors = arrays.get(f"error_{name}")
        optional = name in ERRORS or f"error_{name}" in left_out
        if errors is None and optional and name not in ("test_err", "val_err"):
            continue
        split, count = ("held-out", "n_val") if name == "val_err" else ("test", "n_test")
        if errors is None:
            raise Invalid(f"{name} has no errors by {split} sample behind it")
        if errors.shape != (fields["data"].get(count),) or errors.dtype.kind != "f":
            raise Invalid(f"the errors behind {name} are not one number for each of its {split} samples")
        behind[name] = errors
    if not _clearly_means(fields["metrics"], behind):
        for name, errors in behind.items():
            _check_mean(name, fields["metrics"][name], errors)


def _check_mean(name: str, stated: float, errors: np.ndarray) -> None:
    import numpy as np

    from ..training.metrics import mean_of

    mean = mean_of(errors)
    size = abs(mean) if name in ERRORS else float(np.abs(errors).max())  # of both signs: means may cancel
    if not abs(mean - stated) <= ROUNDING * size or (name in ERRORS and np.minimum.reduce(errors) < 0):
        raise Invalid(f"{name} is {stated!r}, and the mean of the errors behind it {mean!r}")


def _clearly_means(stated: Mapping[str, float], behind: Mapping[str, np.ndarray]) -> bool:
    """`_check_mean` of all of them at once, in half of its tolerance: the sums here are rounded in another order. False
    if that does not settle it (errors of both signs, infinite sums, samples of several lengths, a single wrong mean).
    """
    import numpy as np

    rows = list(behind.values())
    if not rows or not all(row.dtype.char == "d" and len(row) == len(rows[0]) for row in rows):
        return False
    samples = np.concatenate(rows)
    if not (len(samples) and np.minimum.reduce(samples) >= 0):
        return False
    values = np.array([stated[name] for name in behind], dtype=float)
    with np.errstate(over="ignore", invalid="ignore"):
        means = np.add.reduce(samples.reshape(len(rows), -1), axis=1) / len(rows[0])
        return bool(np.logical_and.reduce(np.abs(means - values) <= ROUNDING / 2 * means))


def means_behind(metrics: Mapping[str, float], arrays: Mapping[str, np.ndarray]) -> dict[str, float]:
    """The errors of a record of schema 1, to the last digit: digits beyond `ROUNDING` are only backed by its samples,
    which have a CRC."""
    from ..training.metrics import mean_of

    behind = {name: arrays[f"error_{name}"] for name in metrics if f"error_{name}" in arrays}
    return {name: mean_of(behind[name]) if name in behind else stated for name, stated in metrics.items()}


# Arrays that only make sense together: if one is asked for, all of them are read and checked.
PARTNERS = (
    ("curve_steps", "curve_losses"),
    ("val_steps", "val_seconds", "val_errors"),
    ("picture_index", "picture_input", "picture_truth", "picture_error", "picture_map"),
)


def with_partners(names: Collection[str]) -> set[str]:
    return {*names, *(name for group in PARTNERS if not set(names).isdisjoint(group) for name in group)}


def check_drawn(arrays: Mapping[str, np.ndarray]) -> None:
    """Learning curves and pictures have shapes that can be drawn."""
    from .pictures import SIDE

    steps, losses = arrays.get("curve_steps"), arrays.get("curve_losses")
    if (steps is None) != (losses is None):
        raise Invalid("half of its learning curve is missing")
    if steps is not None and losses is not None:
        kinds = steps.dtype.kind in "iu" and losses.dtype.kind == "f"
        if not (kinds and steps.ndim == 1 and steps.shape == losses.shape):
            raise Invalid("its learning curve is damaged")
    by_step = arrays.get("step_relative_l2")
    if by_step is not None and (by_step.ndim != 1 or by_step.dtype.kind != "f"):
        raise Invalid("its errors by step are damaged")
    curve = [arrays[name] for name in ("val_steps", "val_seconds", "val_errors") if name in arrays]
    if curve and (len(curve) != 3 or "".join(a.dtype.kind for a in curve) not in ("iff", "uff")):
        raise Invalid("its learning curve of held-out samples is damaged")
    if len({a.shape for a in curve}) > 1 or any(a.ndim != 1 for a in curve):
        raise Invalid("its learning curve of held-out samples is damaged")
    fields = [arrays[name] for name in ("picture_input", "picture_truth", "picture_error") if name in arrays]
    index = arrays.get("picture_index")
    if not fields and index is None:
        return
    if len(fields) != 3 or index is None or index.shape != (3,) or index.dtype.kind not in "iu" or index.min() < 0:
        raise Invalid("its pictures are damaged")
    for field in fields:
        drawable = field.dtype.kind == "f" and 3 <= field.ndim <= 4 and field.shape[0] == 3 and field.size > 0
        if not drawable or max(field.shape[2:]) > SIDE or field.shape[1] > SIDE:
            raise Invalid("its pictures are damaged")
    if fields[1].shape != fields[2].shape:
        raise Invalid("its pictures are damaged")
    error_map = arrays.get("picture_map")
    if error_map is not None and (error_map.dtype.kind != "f" or error_map.shape != (2, *fields[2].shape[1:])):
        raise Invalid("its map of errors is damaged")
