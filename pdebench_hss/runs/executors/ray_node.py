"""What happens on a node of a Ray cluster: one trial, inside a Ray task, in a fork of a warm process.

The task itself stays light and hands the trial to a `WorkerPool` that lives as long as Ray's worker process. So a
segfault, an out-of-memory kill or a hang ends as it does on one machine, and the next trial starts in milliseconds.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from ...base.files import replacing
from ...base.scratch import Scratch
from ...data import cache as data
from ...data import hdf5
from ...training.progress import Progress
from ...workers.events import Done, Emitted, Ended, Started
from ...workers.jobs import Job
from ...workers.pool import WorkerPool
from . import TrialEvent, TrialFinished, TrialProgress, TrialStarted
from .halves import Ending, ending_from, job, result_limit

if TYPE_CHECKING:
    from ...trials.context import Context
    from ...trials.trial import Trial

PRELOAD = ("pdebench_hss.trials.warm",)
LOG_LIMIT = 100_000  # bytes of a failed trial's output that are sent to the driver
MEETING_SECONDS = 600.0  # how long the peers of one trial wait for each other


@dataclass(frozen=True)
class DataFile:
    """A dataset's file: its name in every node's cache, the hash of its content and, once a node has asked for it, its
    bytes as blocks in the object store."""

    name: str
    sha256: str
    blocks: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Parcel:
    """One peer of one trial, on its way to a node. ``attempt`` is new whenever the trial is sent out again."""

    trial: Trial
    context: Context
    data: DataFile
    attempt: int
    timeout: float | None = None


@dataclass(frozen=True)
class Answer:
    """How it ended; None if the node has no copy of the data and was sent none."""

    ending: Ending | None
    log: str = ""


class Mailbox:
    """A Ray actor: holds the progress of trials until the driver fetches it, and the addresses where peers meet."""

    def __init__(self) -> None:
        self._messages: list[TrialEvent] = []
        self._meetings: dict[int, str] = {}

    def post(self, event: TrialEvent) -> None:
        self._messages.append(event)

    def take(self) -> list[TrialEvent]:
        messages, self._messages = self._messages, []
        return messages

    def arrange(self, attempt: int, address: str) -> None:
        self._meetings[attempt] = address

    def meeting(self, attempt: int) -> str | None:
        return self._meetings.get(attempt)


def run_parcel(parcel: Parcel, mailbox: Any) -> Answer:
    """The Ray task."""
    if not land(parcel.data):
        return Answer(None)
    context = replace(parcel.context, data=parcel.data.name)
    if context.peers > 1:
        context = replace(context, rendezvous=_meet(parcel, mailbox))
    with Scratch("trial") as scratch:
        log = os.path.join(scratch, "log")
        event = _run(job(parcel.trial.key, parcel.trial, context, log), parcel, mailbox)
        return Answer(_ending(parcel, event), _tail(log))


def _run(todo: Job, parcel: Parcel, mailbox: Any) -> Ended:
    """Run the job, post its progress and return its ending."""
    pool = _warm_pool(parcel.context.threads, parcel.context.keep_models)
    trial, is_first = parcel.trial, parcel.context.peer == 0
    try:
        for event in pool.run([todo], parcel.timeout):
            if isinstance(event, Ended):
                return event
            if is_first and isinstance(event, Started):
                mailbox.post.remote(TrialStarted(trial))
            elif is_first and isinstance(event, Emitted) and (progress := Progress.from_plain(event.values)):
                mailbox.post.remote(TrialProgress(trial, progress))
    except KeyboardInterrupt:  # Ray cancelled the task: let the trial save its state
        for event in pool.stop():
            if isinstance(event, Done) and parcel.context.peers == 1:
                mailbox.post.remote(TrialFinished(trial, _ending(parcel, event).record))
        _close_pools()
        raise
    raise RuntimeError(f"the process of trial {trial.key} was lost")


_pools: dict[tuple[int, str, int], WorkerPool] = {}


def _warm_pool(threads: int, model_bytes: int) -> WorkerPool:
    """The pool of this Ray worker; a new one if threads, GPUs or limits have changed."""
    place = (threads, os.environ.get("CUDA_VISIBLE_DEVICES", ""), model_bytes)
    if place not in _pools:
        _close_pools()
        _pools[place] = WorkerPool(1, threads, PRELOAD, result_limit=result_limit(model_bytes))
    return _pools[place]


def _close_pools() -> None:
    for pool in _pools.values():
        pool.close()
    _pools.clear()


def _ending(parcel: Parcel, event: Ended) -> Ending:
    if isinstance(event, Done):
        with contextlib.suppress(ValueError):
            return ending_from(parcel.trial, event.value)
    # Imported here because it imports torch, which Ray's worker does not need otherwise.
    from .endings import ending_of

    return ending_of(parcel.trial, event, parcel.timeout)


def _tail(log: str) -> str:
    try:
        with open(log, "rb") as file:
            file.seek(max(0, os.path.getsize(log) - LOG_LIMIT))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def land(file: DataFile) -> bool:
    """Make sure that the dataset is in this node's cache: shared, fetched before, or now assembled from its blocks."""
    path = data.data_dir() / file.name
    if _is_here(path, file.sha256):
        return True
    if not file.blocks:
        return False
    import ray

    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):  # trials that start together on one node fetch it once
        if not _is_here(path, file.sha256):
            with replacing(path) as temporary, temporary.open("wb") as out:
                for block in file.blocks:
                    out.write(ray.get(block))
            hdf5.verify(path, deep=True)
    return True


def _is_here(path: Path, sha256: str) -> bool:
    try:
        return path.exists() and hdf5.verify(path).sha256 == sha256
    except hdf5.CorruptData:
        return False


def _meet(parcel: Parcel, mailbox: Any) -> str:
    """Where the peers of this attempt meet: peer 0 posts the address, the others ask for it."""
    import ray

    if parcel.context.peer == 0:
        host = ray.util.get_node_ip_address()
        with socket.socket() as free:
            free.bind((host, 0))
            address = f"tcp://{host}:{free.getsockname()[1]}"
        ray.get(mailbox.arrange.remote(parcel.attempt, address))
        return address
    deadline = time.monotonic() + MEETING_SECONDS
    while (found := ray.get(mailbox.meeting.remote(parcel.attempt))) is None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"peer 0 of {parcel.trial.key} did not say where to meet within {MEETING_SECONDS:g} s")
        time.sleep(0.1)
    return found
