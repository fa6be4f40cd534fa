"""What a trial needs to run here and must not depend on. Light: no torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Context:
    """Places, threads, where from, how many share the work.

    ``data`` names the file in this machine's data cache; by default it is the one that the task's generator makes.
    ``rank`` of ``ranks`` processes meet at ``rendezvous`` and train together (see `peers`).
    """

    data: str = ""
    threads: int = 0
    checkpoint: str = ""
    plugin_files: tuple[str, ...] = ()
    rank: int = 0
    ranks: int = 1
    rendezvous: str = ""
    gpu: int = 0  # of those that the process sees
    cuda_graphs: bool = False
