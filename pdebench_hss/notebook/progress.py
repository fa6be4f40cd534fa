"""What `pdebench_hss.run` shows while it runs: one bar, in the cell of a notebook or on the terminal of an interpreter.

    reporter's events -> `Shown`: what is done, under way and left -> a view: a cell, a terminal, or nothing

Warnings and trials that did not end well are lines on stderr, which stay. In a script whose output is not a terminal
there are only these.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from typing import Any, Protocol

from ..base.plain_text import visible
from ..data.cache import Dataset
from ..data.hdf5 import Header
from ..runs.config import RunConfig
from ..runs.plan import Plan
from ..runs.reporter import Reporter
from ..training.progress import Progress
from ..trials.record import Record
from ..trials.status import Status
from ..trials.trial import Trial

EVERY = 0.2  # seconds between two updates
QUIET = (Status.OK, Status.SKIPPED)


@dataclass
class Shown:
    """What there is to show of a run."""

    trials: int = 0  # to run
    cached: int = 0
    finished: int = 0
    running: dict[str, tuple[str, float]] = field(default_factory=dict)  # by key: what it is, and what share is done
    data: str = ""  # data that are being made
    started: float = field(default_factory=time.monotonic)
    trials_started: float = 0.0

    @property
    def fraction(self) -> float:
        under_way = sum(share for _, share in self.running.values())
        return min(1.0, (self.finished + under_way) / self.trials) if self.trials else 1.0

    @property
    def counted(self) -> str:
        return f"{self.finished} of {self.trials} trial{'s' * (self.trials != 1)}"

    @property
    def doing(self) -> str:
        if self.data:
            return self.data
        return ", ".join(f"{what} {share:.0%}" for what, share in self.running.values())

    @property
    def left(self) -> str:
        """By the time that trials took so far; nothing before a tenth is done."""
        if not 0.1 <= self.fraction < 1:
            return ""
        seconds = (time.monotonic() - self.trials_started) * (1 - self.fraction) / self.fraction
        return f"about {seconds:.0f} s left" if seconds < 90 else f"about {seconds / 60:.0f} min left"

    @property
    def summary(self) -> str:
        cached = f", {self.cached} were there" if self.cached else ""
        return f"{self.counted} run in {time.monotonic() - self.started:.1f} s{cached}"


class View(Protocol):
    def update(self, shown: Shown) -> None: ...
    def close(self, shown: Shown, whole: bool) -> None: ...


class BarReporter(Reporter):
    """Keeps `Shown` and tells a view, not too often."""

    def __init__(self, view: View | None = None) -> None:
        self.shown = Shown()
        self._view = view
        self._said = 0.0

    def warn(self, message: str) -> None:
        print(f"warning: {visible(message)}", file=sys.stderr, flush=True)

    def plan(self, config: RunConfig, plan: Plan) -> None:
        self.shown.trials = len(plan.todo)
        self.shown.cached = len(plan.cells) - len(plan.todo)
        self._tell(now=True)

    def data_progress(self, dataset: Dataset, done: int, total: int) -> None:
        self.shown.data = f"data of {dataset.title}: {done} of {total} samples"
        self._tell()

    def data_ready(self, dataset: Dataset, header: Header, seconds: float) -> None:
        self.shown.data = ""
        self._tell()

    def trial_started(self, trial: Trial) -> None:
        self.shown.trials_started = self.shown.trials_started or time.monotonic()
        self.shown.running[trial.key] = (_name(trial), 0.0)
        self._tell()

    def trial_progress(self, trial: Trial, progress: Progress) -> None:
        self.shown.running[trial.key] = (_name(trial), min(1.0, max(0.0, progress.fraction)))
        self._tell()

    def trial_finished(self, trial: Trial, record: Record) -> None:
        self.shown.running.pop(trial.key, None)
        self.shown.finished += 1
        if record.status not in QUIET:
            print(f"{record.status}: {_name(trial)}: {visible(record.reason)}", file=sys.stderr, flush=True)
        self._tell()

    def close(self, whole: bool) -> None:
        if self._view is not None:
            self._view.close(self.shown, whole)

    def _tell(self, now: bool = False) -> None:
        if self._view is not None and (now or time.monotonic() - self._said >= EVERY):
            self._said = time.monotonic()
            self._view.update(self.shown)


def _name(trial: Trial) -> str:
    return visible(f"{trial.model_label} on {trial.task_label}, seed {trial.seed}")


@contextmanager
def reporting(progress: bool | None = None) -> Iterator[Reporter]:
    """A reporter for one run. ``progress``: None shows a bar where somebody looks on, True also elsewhere, False is
    silent."""
    if progress is False:
        yield Reporter()
        return
    reporter = BarReporter(_view(progress is True))
    whole = False
    try:
        yield reporter
        whole = True
    finally:
        reporter.close(whole)


def _view(forced: bool) -> View | None:
    if in_notebook():
        return CellView()
    return TerminalView(forced) if forced or sys.stderr.isatty() else None


def in_notebook() -> bool:
    """Whether a kernel runs this, which can show HTML; IPython on a terminal can't."""
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and getattr(shell, "kernel", None) is not None


class CellView:
    """A bar as HTML below the cell, changed in place; at the end a line stays."""

    def __init__(self) -> None:
        self._handle: Any = None

    def update(self, shown: Shown) -> None:
        parts = [shown.counted, shown.left, shown.doing]
        text = escape(" · ".join(filter(None, parts)))
        value = f'<progress value="{shown.fraction:.3f}" max="1" style="width: 16em; max-width: 40%"></progress>'
        self._show(f"<div>{value} <small>{text}</small></div>", " · ".join(filter(None, parts)))

    def close(self, shown: Shown, whole: bool) -> None:
        text = shown.summary if whole else f"stopped: {shown.summary}"
        self._show(f"<div><small>{escape(text)}</small></div>", text)

    def _show(self, page: str, text: str) -> None:
        from IPython.display import display

        bundle = {"text/html": page, "text/plain": text}
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)


class TerminalView:
    """A bar on stderr that is gone at the end; where it is not a terminal, the summary alone."""

    def __init__(self, forced: bool = False) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bars

        self._console = Console(stderr=True, highlight=False)
        columns = (BarColumn(bar_width=24), TextColumn("{task.description}", markup=False))
        self._bars = Bars(*columns, console=self._console, transient=True)
        self._bar = self._bars.add_task("", total=1.0)
        self._forced = forced

    def update(self, shown: Shown) -> None:
        if not self._console.is_terminal:
            return
        self._bars.start()
        text = "  ".join(filter(None, (shown.counted, shown.left, shown.doing)))
        room = max(20, self._console.width - 28)
        self._bars.update(self._bar, completed=shown.fraction, description=text[:room])

    def close(self, shown: Shown, whole: bool) -> None:
        self._bars.stop()
        if whole:
            self._console.print(shown.summary, markup=False)
