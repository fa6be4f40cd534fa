"""What a trial needs to run on this machine, and its result must not depend on. Light: no torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Context:
    """Files, threads, memory, peers.

    ``plugin_files`` are given by ``--plugin``. The scorer loads only ``scoring_files``, those of them that bring the
    task, or metrics and no model: so no code of a model. ``data`` names the file in this machine's data cache; by
    default it is the one that the task's generator makes.
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
    gpu: int = 0  # index among those that the process sees
    cuda_graphs: bool = False
    max_memory: int = 0  # bytes that a trial may take (see `pieces`); 0 means no limit
    max_resident: int = 0  # bytes of training samples to hold (see `training_pairs`); 0: what free memory allows
    keep_models: int = 0  # largest model to keep, in bytes; 0 keeps none
    predictions: str = ""  # file to which the scorer writes the predictions; empty if they are not kept
