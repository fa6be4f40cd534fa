"""``export``: a trained model of a board as a file for other programs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from .chosen import (
    BoardArgument,
    BudgetOption,
    KeyOption,
    ModelOption,
    ScaleOption,
    SeedOption,
    TaskOption,
    load_chosen,
)
from .output import PluginOption


def export(
    board: BoardArgument,
    to: Annotated[str, typer.Option(help="torch-export (.pt2) or onnx.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The file to write.")],
    model: ModelOption = None,
    task: TaskOption = None,
    seed: SeedOption = 0,
    scale: ScaleOption = None,
    budget: BudgetOption = None,
    key: KeyOption = None,
    steps: Annotated[
        int, typer.Option(min=0, help="Steps of a rollout; 0: one step, whose output is fed back by you.")
    ] = 0,
    batch: Annotated[int, typer.Option(min=1, help="The size of the batch, where a model needs a fixed one.")] = 1,
    force: Annotated[bool, typer.Option("--force", help="Write over an existing file.")] = False,
    plugin: PluginOption = None,
) -> None:
    """Write a trained model as a file that other programs run, normalisation included: physical fields in and out.

    What was written is run and compared with the model. Fields are float64. ONNX needs the extra `export`.

    \b
    pdebench-hss export leaderboards/latest --model resnet --task poisson_1d \\
        --to onnx --out resnet.onnx
    pdebench-hss export leaderboards/latest --model fno --task burgers_1d \\
        --to torch-export --out fno.pt2
    """
    start = time.perf_counter()
    loaded = load_chosen(board, model, task, seed, scale, budget, key, plugin=plugin)
    from ..use.exporting import export_model

    done = export_model(loaded, to, out, steps=steps, batch=batch, force=force)
    trial = loaded.record.trial
    shapes = " -> ".join(f"({', '.join(map(str, shape))})" for shape in (done.inputs, done.outputs))
    fixed = "" if done.inputs[0] == "batch" else "; its code needs a batch of fixed size (--batch)"
    print(
        f"{trial.model_label} on {trial.task_label} (seed {trial.seed}): wrote {out}, float64 {shapes}{fixed}; "
        f"run and compared with the model: {done.deviation:.1e} apart; {time.perf_counter() - start:.1f} s"
    )
