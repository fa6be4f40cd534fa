"""All metrics of a set of predictions: ``measure(registry, task, inputs, prediction, target) -> Measured``.

Metrics come from plugins. One that raises, exits, takes too long, changes what others depend on or returns nonsense is
replaced by a complaint, and the others continue (`contract.guard`). Samples are processed in parts, so that a large
test set needs no more memory than a small one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..base.references import call_target
from ..contract.guard import Misbehaved, contained, time_limit
from ..contract.metric import MetricSpec, Setting
from ..contract.registry import BUILT_IN, Registered, Registry, one_line
from ..contract.task import TaskInfo
from ..training.metrics import chunks, mean_of

VALUES_IN_TIME = 1e7  # fits in a plugin's time limit: all built-in metrics take some 2 s for this many


@dataclass
class Measured:
    """By name of the metric.

    samples      its value for each sample, ``(n,)``; NaN where its formula has none
    means        their mean; absent if the value of a sample is not finite
    complaints   why it could not be measured
    """

    samples: dict[str, np.ndarray] = field(default_factory=dict)
    means: dict[str, float] = field(default_factory=dict)
    complaints: dict[str, str] = field(default_factory=dict)


def measure(
    registry: Registry,
    task: TaskInfo,
    inputs: np.ndarray,
    prediction: np.ndarray,
    target: np.ndarray,
    known: Collection[str] = (),
) -> Measured:
    """Every metric that makes sense on the task, except those whose values are known already."""
    result = Measured()
    for specs in _together(registry, task, known):
        names = [found.spec.name for found in specs]
        try:
            values = _values(specs, task, inputs, prediction, target)
        except Exception as error:
            result.complaints |= dict.fromkeys(names, one_line(_words(error)))
            continue
        result.samples |= values
        result.means |= {name: mean_of(found) for name, found in values.items() if np.isfinite(found).all()}
    return result


def _together(registry: Registry, task: TaskInfo, known: Collection[str]) -> Iterator[list[Registered[MetricSpec]]]:
    """The metrics to compute, those that name the same function together, in the registry's order."""
    groups: dict[Any, list[Registered[MetricSpec]]] = {}
    for name, found in registry.metrics.items():
        if name not in known and not found.spec.unsupported(task.spec):
            groups.setdefault(found.spec.compute, []).append(found)
    yield from groups.values()


def _values(
    specs: list[Registered[MetricSpec]], task: TaskInfo, inputs: np.ndarray, prediction: np.ndarray, target: np.ndarray
) -> dict[str, np.ndarray]:
    names = [found.spec.name for found in specs]
    parts: dict[str, list[np.ndarray]] = {name: [] for name in names}
    with _around(specs, task, target.size), np.errstate(all="ignore"):
        compute = call_target(specs[0].spec.compute)
        for start, end in chunks(target):
            p, t = (_double(fields[start:end]) for fields in (prediction, target))
            answer = compute(p, t, setting_of(task, _double(inputs[start:end])))
            for name in names:
                value = answer.get(name) if isinstance(answer, Mapping) else answer
                parts[name].append(_checked(value, end - start))
    return {name: np.concatenate(found) for name, found in parts.items()}


def _around(specs: list[Registered[MetricSpec]], task: TaskInfo, values: int) -> AbstractContextManager[None]:
    """The guard of plugins' code. The built-in metrics need none, which would cost more than they do on small fields,
    unless they may call a task's residual."""
    if task.spec.residual is None and all(found.origin.distribution == BUILT_IN for found in specs):
        return nullcontext()
    seconds = time_limit() * max(1.0, values / VALUES_IN_TIME)
    return contained(f"metric {specs[0].spec.name!r}", seconds, may_extend_environment=True)


def setting_of(task: TaskInfo, inputs: np.ndarray) -> Setting:
    """What metrics receive about a task, for these inputs."""
    residual = (lambda fields: task.residual(inputs, fields)) if task.spec.residual is not None else None
    return Setting(
        **{name: getattr(task, name) for name in ("dim", "grid", "coords", "mask", "periodic", "boundary", "rollout")},
        task=task.name,
        inputs=inputs,
        spacing=spacing_of(task.coords),
        params=task.params,
        residual=residual,
    )


def spacing_of(coords: np.ndarray) -> tuple[float, ...]:
    """The distance of neighbours along each axis of an equispaced grid, from its coordinates ``(dim, *grid)``."""
    ends = [(along.min(), along.max(), along.shape[axis]) for axis, along in enumerate(coords)]
    return tuple(float((high - low) / (n - 1)) for low, high, n in ends)


def _double(fields: np.ndarray) -> np.ndarray:
    """A read-only view or copy in double precision; the caller's own array does not change."""
    view = np.asarray(fields, dtype=np.float64).view()
    view.flags.writeable = False
    return view


def _checked(value: Any, count: int) -> np.ndarray:
    """One number for each sample, or a ValueError that says what was returned instead."""
    if value is None:
        raise ValueError("its function returned no value of that name")
    found = np.asarray(value)
    if found.dtype.kind not in "fiub" or found.shape != (count,):
        raise ValueError(
            f"it returned {found.dtype} of shape {found.shape}; expected one number for each of {count} samples"
        )
    return found.astype(np.float64)


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, Misbehaved) else f"{type(error).__name__}: {error}"
