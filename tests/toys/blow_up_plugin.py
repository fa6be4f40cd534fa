"""A closed form that blows up for some seeds, and a task whose fields are of any size."""

from __future__ import annotations

import numpy as np
import torch

from pdebench_hss import ModelSpec, Recipe, Scale, TaskSpec, hookimpl


class BlowUp:
    """One number everywhere: ``size`` for about half of the seeds, 1 for the others."""

    def __init__(self, task, size: float = 1e200) -> None:
        self.value = size if torch.randint(0, 2, ()).item() else 1.0

    def fit(self, train) -> None: ...

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        return torch.full_like(inputs, self.value)


def generate(seeds, size, factor):
    x = np.stack([np.random.default_rng(seed).standard_normal((1, *size.grid)) for seed in seeds])
    return x, factor * np.roll(x, 1, axis=-1)


@hookimpl
def pdebench_hss_models() -> list[ModelSpec]:
    return [ModelSpec(name="blow_up", title="Blow-up", build=BlowUp, hparams={"size": 1e200}, training_free=True)]


@hookimpl
def pdebench_hss_tasks() -> list[TaskSpec]:
    sizes = {"smoke": Scale((16,), train=12, test=4, recipe=Recipe(batch=4, steps=6))}
    return [
        TaskSpec(
            name="shift",
            title="Shift",
            equation="y = S x",
            dim=1,
            in_channels=1,
            out_channels=1,
            linear=True,
            generate="blow_up_plugin:generate",
            params={"factor": 1.0},
            scales=sizes,
        )
    ]
