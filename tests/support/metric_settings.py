"""What tests of metrics need: settings on a unit box, fields, and samples of a task without a cache."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from pdebench_hss import Setting
from pdebench_hss.base.references import call_target
from pdebench_hss.contract.registry import load_registry


def setting(fields: np.ndarray, dim: int, *, rollout: bool = False, periodic: bool = False, mask=None) -> Setting:
    grid = fields.shape[-dim:]
    axes = [np.linspace(0, 1, n, endpoint=not periodic) for n in grid]
    return Setting(
        task="box",
        dim=dim,
        grid=grid,
        inputs=np.zeros((len(fields), 1, *grid)),
        coords=np.stack(np.meshgrid(*axes, indexing="ij")),
        spacing=tuple(float(axis[1] - axis[0]) for axis in axes),
        mask=mask,
        periodic=periodic,
        rollout=rollout,
    )


def pair(shape: tuple[int, ...], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A prediction and a target: smooth enough that bands differ, different enough that errors do."""
    rng = np.random.default_rng(seed)
    target = np.cumsum(rng.normal(size=shape), axis=-1) + 0.3
    return target + 0.2 * rng.normal(size=shape), target


def samples_of(name: str, count: int = 4) -> SimpleNamespace:
    """A task at scale smoke with some samples of its generator, as ``task`` and ``test.inputs|outputs``."""
    spec = load_registry().tasks[name].spec
    inputs, outputs = call_target(spec.generate)(range(count), spec.scales["smoke"], **spec.params)
    return SimpleNamespace(task=spec.info("smoke"), test=SimpleNamespace(inputs=inputs, outputs=outputs))
