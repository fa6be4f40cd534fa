"""Submitting trials: each becomes a Ray task with its needs, or with ``--ddp N`` N tasks that are placed together."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass, field, replace
from typing import Any

from ...base import storage
from ...contract.resources import Resources
from ...data import hdf5
from ...data.cache import data_dir
from ..config import RunConfig
from . import Work
from .endings import Gang
from .ray_cluster import import_ray
from .ray_node import DataFile, Mailbox, Parcel, run_parcel

BLOCK_BYTES = 64 << 20


@dataclass
class Attempt:
    """A submitted trial."""

    work: Work
    gang: Gang
    peers: dict[Any, int] = field(default_factory=dict)  # Ray's reference of a task -> its peer; ended ones are dropped
    group: Any = None  # the placement of the peers
    lost: str = ""  # why its node was lost
    fetch: bool = False  # its node has no copy of the data


class Sender:
    def __init__(self, config: RunConfig) -> None:
        self.ray, self.config = import_ray(), config
        self.mailbox = self._start_mailbox()
        # Ray would start a new process for every GPU task; a trial has its own process anyway.
        self._task = self.ray.remote(max_calls=0)(run_parcel)
        self._files: dict[str, DataFile] = {}
        self._numbers = itertools.count()

    def send(self, work: Work) -> Attempt:
        size = self.config.ddp
        attempt = Attempt(work, Gang(size))
        number = next(self._numbers)
        options: dict[str, Any] = _options(work.needs)
        if size > 1:
            attempt.group = self.ray.util.placement_group([_bundle(work.needs)] * size, strategy="PACK")
        for peer in range(size):
            if size > 1:
                options["scheduling_strategy"] = self._place(attempt.group, peer)
            task = self._task.options(name=f"{work.trial.task_label} {work.trial.model_label}", **options)
            attempt.peers[task.remote(self._parcel(work, peer, number), self.mailbox)] = peer
        return attempt

    def release(self, attempt: Attempt) -> None:
        if attempt.group is not None:
            self.ray.util.remove_placement_group(attempt.group)

    def publish(self, name: str) -> None:
        """Put a dataset's file into the object store, once for all trials and nodes that need it."""
        file = self._file(name)
        if not file.blocks:
            with open(data_dir() / name, "rb") as source:
                blocks = tuple(map(self.ray.put, iter(lambda: source.read(BLOCK_BYTES), b"")))
            self._files[name] = replace(file, blocks=blocks)

    def forget(self, name: str) -> None:
        """Free the object store's memory once no trial needs the dataset."""
        self._files.pop(name, None)

    def close(self) -> None:
        self.ray.kill(self.mailbox)

    def _parcel(self, work: Work, peer: int, number: int) -> Parcel:
        context = replace(
            work.context,
            peer=peer,
            peers=self.config.ddp,
            threads=work.needs.threads,
            checkpoint=self._checkpoint(work.context.checkpoint),
            plugin_files=tuple(map(os.path.abspath, work.context.plugin_files)),
            scoring_files=tuple(map(os.path.abspath, work.context.scoring_files)),
        )
        if self.config.ddp > 1 and self.config.ray_address:
            self.publish(work.context.data)  # peers must not discover after meeting that one of them has no data
        return Parcel(work.trial, context, self._file(work.context.data), number, self.config.timeout)

    def _checkpoint(self, place: str) -> str:
        """A place that every node can reach, or none: without ``--storage``, this machine's disk serves a local Ray."""
        if storage.is_address(place):
            return place
        return os.path.abspath(place) if self.config.storage or not self.config.ray_address else ""

    def _file(self, name: str) -> DataFile:
        if name not in self._files:
            self._files[name] = DataFile(name, hdf5.read_header(data_dir() / name).sha256)
        return self._files[name]

    def _start_mailbox(self) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = NodeAffinitySchedulingStrategy(self.ray.get_runtime_context().get_node_id(), soft=True)
        kind = self.ray.remote(num_cpus=0, max_restarts=-1)(Mailbox)
        return kind.options(scheduling_strategy=here).remote()

    @staticmethod
    def _place(group: Any, peer: int) -> Any:
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        return PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=peer)


def _options(needs: Resources) -> dict[str, Any]:
    memory = {"memory": needs.memory} if needs.memory else {}
    # The driver resends lost trials: it would not know about Ray's own retries.
    return {"num_cpus": needs.cpus, "num_gpus": needs.gpus, "max_retries": 0, **memory}


def _bundle(needs: Resources) -> dict[str, float]:
    bundle = {"CPU": needs.cpus, "GPU": needs.gpus, "memory": needs.memory}
    return {kind: amount for kind, amount in bundle.items() if amount}
