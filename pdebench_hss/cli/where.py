"""Options that the commands which run trials share: what is run, where, and on what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

TasksOption = Annotated[str | None, typer.Option(help="Tasks, likewise.")]
ScaleOption = Annotated[str | None, typer.Option(help="smoke, small (default), medium or paper.")]
TrainSizeOption = Annotated[int | None, typer.Option(help="Use only the first N training samples.")]
DataSeedOption = Annotated[int | None, typer.Option(help="Another draw of the data.  [default: 0]")]
ExecutorOption = Annotated[str | None, typer.Option(help="process (default), inline or ray; see list executors.")]
JobsOption = Annotated[
    int | None,
    typer.Option(help="Trials to run in parallel; they share the cores.  [default: cores, or GPUs with cuda]"),
]
TimeoutOption = Annotated[float | None, typer.Option(help="Seconds a trial may take.")]
DdpOption = Annotated[int | None, typer.Option(help="Processes that train one trial together.  [default: 1]")]
RayAddressOption = Annotated[
    str | None, typer.Option(help="A Ray cluster: auto or ray://HOST:10001.  [default: a local Ray]")
]
StorageOption = Annotated[
    str | None, typer.Option(help="Checkpoints go here: a shared path or s3://….  [default: the results directory]")
]
ResourcesOption = Annotated[
    str | None, typer.Option(help="What a trial needs on a cluster, e.g. cpus=2,gpus=0.5,memory=8G.")
]
DeviceOption = Annotated[str | None, typer.Option(help="auto (default), cpu, cuda, cuda:N or mps.")]
PrecisionOption = Annotated[
    str | None, typer.Option(help="float32 (default), tf32 (NVIDIA only) or bf16: what networks compute in.")
]
CudaGraphsOption = Annotated[
    bool | None, typer.Option("--cuda-graphs", help="Replay steps as CUDA graphs where a network allows it.")
]
MaxMemoryOption = Annotated[
    str | None, typer.Option(help="What training may take in memory, e.g. 4G: batches are computed in pieces that fit.")
]
MaxResidentOption = Annotated[
    str | None,
    typer.Option(help="Training data to hold in memory, e.g. 2G; the rest is read as needed.  [default: what fits]"),
]
DataDirOption = Annotated[str | None, typer.Option(help="Take the data from public files in this directory.")]
KeepModelsOption = Annotated[
    bool | None,
    typer.Option("--keep-models/--no-keep-models", help="Keep the trained models in the board, to be used (default)."),
]
KeepUpToOption = Annotated[
    str | None, typer.Option(help="Keep models of at most this many bytes each, e.g. 200M.  [default: 50M]")
]
KeepPredictionsOption = Annotated[
    bool | None,
    typer.Option("--keep-predictions", help="Keep all test predictions in the board (HDF5), to be scored again."),
]
ShardOption = Annotated[
    str | None, typer.Option(help="Run one part of the plan, e.g. 2/4: the second of four; `merge` joins the boards.")
]
ForceOption = Annotated[bool | None, typer.Option("--force", help="Run trials again even if they have a record.")]

RENAMED = {"plugin": "plugins", "strict": "strict_plugins"}  # an option that may be repeated has a singular name


def settings_of(options: Mapping[str, Any], *not_settings: str) -> dict[str, Any]:
    """The options of a command (its ``locals()``, asked for in its first line) under the names of a config's fields."""
    return {RENAMED.get(name, name): value for name, value in options.items() if name not in not_settings}
