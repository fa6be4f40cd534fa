"""Trials one after another in this process: for debugging and notebooks. A crash here is a crash of the run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...base.errors import UsageError
from ...contract.resources import Resources
from ...trials.run_trial import run_trial
from . import Executor, TrialEvent, TrialFinished, TrialStarted, Work


class InlineExecutor(Executor):
    def prepare(self, needs: Sequence[Resources]) -> None:
        if self.timeout is not None:
            raise UsageError("--timeout needs a process per trial: use --executor process")
        if self.config.ddp > 1:
            raise UsageError(f"--ddp {self.config.ddp} needs as many processes: use --executor process or ray")

    def run(self, work: Sequence[Work]) -> Iterator[TrialEvent]:
        for item in work:
            yield TrialStarted(item.trial)
            context = replace(item.context, gpu=self.config.resolved_device.index or 0)
            yield TrialFinished(item.trial, run_trial(item.trial, context, self.registry))
