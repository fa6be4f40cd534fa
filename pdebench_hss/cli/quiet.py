"""What goes on while a board is verified, on stderr: stdout is for the report."""

from __future__ import annotations

import sys

from ..base.plain_text import visible
from ..data.cache import Dataset
from ..data.hdf5 import Header
from ..runs.reporter import Reporter
from ..trials.record import Record
from ..trials.trial import Trial


def say(line: str) -> None:
    print(visible(line), file=sys.stderr, flush=True)


class QuietReporter(Reporter):
    """A line for each data set and each trial."""

    def warn(self, message: str) -> None:
        say(f"warning: {message}")

    def data_ready(self, dataset: Dataset, header: Header, seconds: float) -> None:
        say(f"data   {dataset.title}   {seconds:.1f} s   sha256 {header.sha256[:8]}…")

    def trial_finished(self, trial: Trial, record: Record) -> None:
        say(f"{record.status}   {record.trial.words}   {record.seconds.get('total') or 0.0:.1f} s")
