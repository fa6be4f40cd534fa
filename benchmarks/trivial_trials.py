"""Trials that do nothing, for benchmarks of what the program adds to a trial.

The model predicts the mean of the training outputs, as the baseline `mean` does, but does not declare that no seed
changes it: seeds then make as many trials as are asked for. Ten tasks have fields of 16 points.
"""

from __future__ import annotations

from pathlib import Path

MODEL, TASKS = "trivial", "trivial_*"
PLUGIN = '''
from pdebench_hss import ModelSpec, Recipe, Scale, TaskSpec, hookimpl


def generate(seeds, size):
    import numpy as np

    x = np.stack([np.random.default_rng(seed).standard_normal((1, *size.grid)) for seed in seeds])
    return x, 2 * x


@hookimpl
def pdebench_hss_models():
    build = "pdebench_hss_models.baselines.constant:Mean"
    return [ModelSpec(name="trivial", title="Trivial", build=build, training_free=True, role="guess")]


@hookimpl
def pdebench_hss_tasks():
    scale = Scale((16,), train=8, test=4, recipe=Recipe(batch=4, steps=1))
    return [
        TaskSpec(
            name=f"trivial_{number}", title="trivial", equation="y = 2 x", dim=1, in_channels=1, out_channels=1,
            linear=True, generate="trivial_plugin:generate", scales={"smoke": scale},
        )
        for number in range(10)
    ]
'''  # fmt: skip


def write_plugin(folder: str | Path, more: str = "") -> None:
    plugin_file(folder).write_text(PLUGIN + more)


def plugin_file(folder: str | Path) -> Path:
    return Path(folder, "trivial_plugin.py")
