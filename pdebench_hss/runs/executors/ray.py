"""Trials as tasks of a Ray cluster. The plan is the same list of trials; where they run changes.

The driver alone keeps the queue, hands out a bounded window of it, and resends trials whose node was lost. So it needs
little memory however long the plan is, and a trial ends exactly once.
"""

from __future__ import annotations

import collections
import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...base.files import write_text
from ...contract.registry import Registry
from ...contract.resources import Resources
from ...trials.record import Record
from ...trials.run_trial import ended_without_record
from ...trials.status import Status
from ...workers.pool import GRACE
from ..config import RunConfig
from . import Executor, ExecutorLost, TrialEvent, TrialFinished, Work
from .halves import Ending
from .ray_cluster import check_nodes, check_room, connect, import_ray, local_note, slots
from .ray_send import Attempt, Sender

RETRIES = 3  # after the loss of a node
PATIENCE = 0.25  # seconds between two reads of the mailbox
AHEAD = 2  # trials handed out per slot, so that a node never waits for the driver
REFRESH = 5.0  # seconds after which the size of the cluster is asked for again


class RayExecutor(Executor):
    """``--jobs`` limits parallel trials if it is given; otherwise the cluster's size does."""

    def __init__(self, registry: Registry, config: RunConfig) -> None:
        super().__init__(registry, config)
        self._ray = import_ray()
        self._to_leave = connect(config)
        if self._to_leave and not config.ray_address:
            self.notes = [local_note()]
        self._sender: Sender | None = None
        self._queue: collections.deque[Work] = collections.deque()
        self._running: dict[str, Attempt] = {}  # by the trial's key
        self._losses: collections.Counter[str] = collections.Counter()
        self._looked = 0.0
        self._slots: dict[Resources, tuple[float, int]] = {}

    def prepare(self, needs: Sequence[Resources]) -> None:
        check_nodes(self.registry, self.config.plugins)
        check_room(needs, self.config.ddp)

    def run(self, work: Sequence[Work]) -> Iterator[TrialEvent]:
        self._queue.extend(work)
        self._readers = collections.Counter(item.context.data for item in work)
        self._sender = Sender(self.config)
        try:
            yield from self._run()
        except (self._ray.exceptions.LocalRayletDiedError, self._ray.exceptions.RaySystemError) as error:
            raise ExecutorLost(f"Ray's process on this machine (its raylet) died: {_first_line(error)}") from error

    def _run(self) -> Iterator[TrialEvent]:
        while self._queue or self._running:
            while self._queue and len(self._running) < self._window(self._queue[0].needs):
                self._send(self._queue.popleft())
            tasks = {task: attempt for attempt in self._running.values() for task in attempt.peers}
            for task in self._ended(list(tasks)):
                yield from self._receive(tasks[task], task)
            yield from self._news()

    def stop(self) -> Iterator[TrialFinished]:
        """Cancel running trials, let them save their state, and keep those that ended meanwhile."""
        self._queue.clear()
        tasks = [task for attempt in self._running.values() for task in attempt.peers]
        for task in tasks:
            self._ray.cancel(task, force=False)
        if tasks:
            ended, _ = self._ray.wait(tasks, num_returns=len(tasks), timeout=GRACE + 5.0)
            for attempt in list(self._running.values()):
                for task in ended:
                    if task in attempt.peers and self._answer(attempt, attempt.peers.pop(task), task, stopping=True):
                        yield from self._finish(attempt)
        for event in self._posted():
            if isinstance(event, TrialFinished):
                yield event

    def close(self) -> None:
        if self._sender is not None:
            with contextlib.suppress(self._ray.exceptions.RayError):  # it may be gone
                self._sender.close()
        if self._to_leave:
            self._ray.shutdown()

    def _window(self, needs: Resources) -> int:
        """How many trials to have submitted at once."""
        if self.config.jobs:
            return max(1, self.config.jobs // self.config.ddp)
        asked, count = self._slots.get(needs, (0.0, 0))
        if not count or time.monotonic() - asked > REFRESH:
            count = max(1, slots(needs) // self.config.ddp)
            self._slots[needs] = (time.monotonic(), count)
        return AHEAD * count if self.config.ddp == 1 else count

    def _send(self, item: Work) -> None:
        assert self._sender is not None
        self._running[item.trial.key] = self._sender.send(item)

    def _ended(self, tasks: list[Any]) -> list[Any]:
        """The tasks that have ended; waits a moment for the first."""
        first, _ = self._ray.wait(tasks, num_returns=1, timeout=PATIENCE)
        return self._ray.wait(tasks, num_returns=len(tasks), timeout=0)[0] if first else []

    def _receive(self, attempt: Attempt, task: Any) -> Iterator[TrialEvent]:
        """One task of an attempt has ended; the others of a broken gang are ended too."""
        self._answer(attempt, attempt.peers.pop(task), task)
        if attempt.gang.failed or attempt.lost:
            for other in attempt.peers:
                self._ray.cancel(other, force=True)
        if not attempt.peers:
            yield from self._settle(attempt)

    def _answer(self, attempt: Attempt, peer: int, task: Any, stopping: bool = False) -> bool:
        """Take a task's result, or note how it failed; returns whether the trial's record is complete."""
        try:
            answer = self._ray.get(task)
        except self._ray.exceptions.RayError as error:
            if not stopping:  # stopped on request: it resumes next time
                self._note(attempt, peer, error)
            return False
        if answer.ending is None:
            attempt.fetch = True
            return False
        attempt.gang.end(peer, answer.ending)
        if answer.ending.record.status is not Status.OK and answer.log:
            write_text(Path(attempt.work.log), answer.log)
        return attempt.gang.record is not None

    def _note(self, attempt: Attempt, peer: int, error: Exception) -> None:
        """A task ended without an answer: it failed, or its node or worker is gone."""
        errors, trial = self._ray.exceptions, attempt.work.trial
        if isinstance(error, errors.LocalRayletDiedError):
            raise error  # no trial can run any more, and none is to blame
        if isinstance(error, errors.OutOfMemoryError):
            reason = f"killed by Ray for memory: {_first_line(error)}"
            attempt.gang.end(peer, Ending(ended_without_record(trial, Status.OUT_OF_MEMORY, reason)))
        elif isinstance(error, errors.RayTaskError):
            reason = f"on its node: {_first_line(error.cause)}"
            attempt.gang.end(peer, Ending(ended_without_record(trial, Status.FAILED, reason)))
        elif not attempt.gang.failed:  # else it was cancelled because of another peer
            attempt.lost = attempt.lost or f"{type(error).__name__}: {_first_line(error)}"

    def _settle(self, attempt: Attempt) -> Iterator[TrialEvent]:
        """All tasks of an attempt have ended: send it again, or finish it."""
        assert self._sender is not None
        self._sender.release(attempt)
        item = attempt.work
        if attempt.fetch:
            self._sender.publish(item.context.data)
            self._send(item)
        elif (attempt.lost or attempt.gang.abandoned) and self._losses[item.trial.key] < RETRIES:
            self._losses[item.trial.key] += 1
            self._send(item)
        else:
            yield from self._finish(attempt)

    def _finish(self, attempt: Attempt) -> Iterator[TrialFinished]:
        item, record = attempt.work, attempt.gang.record
        if attempt.lost or record is None:
            record = self._record_of_loss(attempt)
        del self._running[item.trial.key]
        self._readers[item.context.data] -= 1
        if not self._readers[item.context.data] and self._sender is not None:
            self._sender.forget(item.context.data)
        yield TrialFinished(item.trial, record)

    def _record_of_loss(self, attempt: Attempt) -> Record:
        reason = f"lost {RETRIES + 1} times with its node or worker, the last time: {attempt.lost}"
        return ended_without_record(attempt.work.trial, Status.FAILED, reason)

    def _news(self) -> Iterator[TrialEvent]:
        """The progress that trials have posted since the last read."""
        if time.monotonic() - self._looked >= PATIENCE:
            for event in self._posted():
                if not isinstance(event, TrialFinished):
                    yield event

    def _posted(self) -> Iterator[TrialEvent]:
        """The content of the mailbox; empty if it was lost with its node, as progress is not essential."""
        if self._sender is None:
            return
        self._looked = time.monotonic()
        try:
            messages = self._ray.get(self._sender.mailbox.take.remote(), timeout=5.0)
        except self._ray.exceptions.RayError:
            return
        for event in messages:
            if event.trial.key in self._running:
                yield event


def _first_line(error: BaseException | None) -> str:
    text = str(error).strip()
    return text.splitlines()[0][:500] if text else type(error).__name__
