"""``predict``: a trained model of a board on arrays of your own."""

from __future__ import annotations

import time
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


def predict(
    board: BoardArgument,
    source: Annotated[
        str,
        typer.Option(
            "--input",
            metavar="FILE",
            help="Physical inputs: .npy, .npz, .h5, .zarr or .pt; FILE:NAME for one of several.",
        ),
    ],
    out: Annotated[str, typer.Option(metavar="FILE", help="Where the predictions go: .npy, .npz or .h5.")],
    model: ModelOption = None,
    task: TaskOption = None,
    seed: SeedOption = 0,
    scale: ScaleOption = None,
    budget: BudgetOption = None,
    key: KeyOption = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Steps of a rollout.  [default: as many as the task has]")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Samples computed at a time.  [default: as in training]")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N, mps or auto.")] = "cpu",
    force: Annotated[bool, typer.Option("--force", help="Write over an existing file.")] = False,
    plugin: PluginOption = None,
) -> None:
    """Apply a trained model to your own fields, in physical units.

    Inputs are (batch, channels, grid...) or one sample without the batch axis. A rollout task answers with
    (batch, steps, channels, grid...).

    \b
    pdebench-hss predict leaderboards/latest --model fno --task poisson_1d \\
        --input x.npy --out y.npy
    pdebench-hss predict leaderboards/latest --model fno --task burgers_1d \\
        --input runs.h5:u0 --out u.h5:u --steps 50
    """
    from ..use.field_files import check_output, read_fields, write_fields

    place = check_output(out, force)
    fields = read_fields(source)
    loaded = load_chosen(board, model, task, seed, scale, budget, key, device=device, plugin=plugin)
    from .display import counting_bar

    trial = loaded.record.trial
    with counting_bar(f"predict {trial.task_label}  {trial.model_label}") as progress:
        start = time.perf_counter()
        answer = loaded(fields, steps=steps, batch=batch, progress=progress)
        seconds = time.perf_counter() - start
    write_fields(place, answer)
    count = 1 if fields.ndim == loaded.task.dim + 1 else len(fields)
    samples = "1 sample" if count == 1 else f"{count} samples"
    print(
        f"{trial.model_label} on {trial.task_label} (seed {trial.seed}): {samples} in {seconds:.3g} s, "
        f"{1e3 * seconds / count:.3g} ms each; wrote {place}, {answer.dtype} {answer.shape}"
    )
