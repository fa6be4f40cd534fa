"""What a trial needs to run here and must not depend on. Light: no torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Context:
    """Places, threads, where from, how many share the work.

    ``plugin_files`` are those given by ``--plugin``; ``scoring_files`` those of them that bring the task, or metrics
    and no model: the scorer loads no other, so no code of a model. ``data`` names the file in this machine's data
    cache; by default it is the one that the task's generator makes.
    ``peer`` is the number of this process among ``peers`` that meet at ``rendezvous`` and train together (see `peers`).
    """

    data: str = ""
    threads: int = 0
    checkpoint: str = ""
    plugin_files: tuple[str, ...] = ()
    scoring_files: tuple[str, ...] = ()
    peer: int = 0
    peers: int = 1
    rendezvous: str = ""
    gpu: int = 0  # of those that the process sees
    cuda_graphs: bool = False
    max_memory: int = 0  # bytes that a trial may take (see `pieces`); 0 means: not limited
    keep_models: int = 0  # bytes that a model may have to be kept; 0: none is
    predictions: str = ""  # the file that the scorer puts the predictions in; empty: they are not kept
