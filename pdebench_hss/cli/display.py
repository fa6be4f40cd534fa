"""What a run looks like: bars on a terminal, plain lines anywhere else, and the tables at the end."""

from __future__ import annotations

import re
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pandas as pd
from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.progress import BarColumn, SpinnerColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from ..base.devices import label
from ..base.files import human_bytes
from ..base.plain_text import visible
from ..boards.caveats import caveats
from ..boards.frames import GROUP
from ..boards.text import display_headers, display_row, format_error, group_line, seed_note, size_note, title
from ..contract.reference_table import ReferenceTable, printed_range
from ..data.cache import Dataset
from ..data.hdf5 import Header
from ..runs.config import RunConfig
from ..runs.estimates import estimate
from ..runs.plan import Action, Plan
from ..runs.reporter import Reporter
from ..runs.runner import Outcome
from ..training.progress import Progress
from ..trials.record import Record
from ..trials.status import Status
from ..trials.trial import Trial

console = Console(highlight=False, soft_wrap=True)
MARKS = {Status.OK: "[green]✓[/]", Status.SKIPPED: "[yellow]–[/]"}
FAILED = "[red]✗[/]"
ALL = "all trials"  # the bar over all of them
PLAIN_SECONDS = 10.0  # seconds between progress lines when the output is not a terminal
LABEL = re.compile(r"[a-z]+ {3,}")  # what a line is about, in the first column
MOST_REASONS = 3  # why models were not kept, on one line


def print_prose(text: str, style: str | None = None) -> None:
    """A terminal breaks long lines anywhere: here it gets them broken between words, and what follows a label
    (``plan   …``) stays to the right of it. Elsewhere a line is a line."""
    text = visible(text)
    if console.is_terminal and (label := LABEL.match(text)):
        text = textwrap.fill(text, console.width, subsequent_indent=" " * label.end(), break_on_hyphens=False)
    console.print(text, style=style, markup=False, soft_wrap=not console.is_terminal)


def make_reporter() -> PlainReporter:
    return LiveReporter() if console.is_terminal and not console.is_dumb_terminal else PlainReporter()


class PlainReporter(Reporter):
    """One line per thing that happened. Also a context manager, so that live displays can clean up."""

    def __init__(self) -> None:
        self._said: dict[str, float] = {}

    def __enter__(self) -> PlainReporter:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def warn(self, message: str) -> None:
        print(f"warning: {visible(message)}", file=sys.stderr)

    def plan(self, config: RunConfig, plan: Plan) -> None:
        print_prose(heading(config))
        print_prose(plan_line(plan))

    def source_progress(self, source: Path, done: int, total: int) -> None:
        if self._is_time(str(source)):
            shares = f"{human_bytes(done)} of {human_bytes(total)}"
            console.print(f"data   {source}: {shares} read to identify it", markup=False)

    def note(self, message: str) -> None:
        print_prose(f"note   {message}")

    def data_progress(self, dataset: Dataset, done: int, total: int) -> None:
        if self._is_time(dataset.id):
            console.print(f"data   {dataset.title}: {done} of {total} samples", markup=False)

    def data_ready(self, dataset: Dataset, header: Header, seconds: float) -> None:
        console.print(f"data   {dataset.title}   {seconds:.1f} s   sha256 {header.sha256[:8]}…", markup=False)

    def trial_started(self, trial: Trial) -> None:
        self._said[trial.key] = time.monotonic()

    def trial_progress(self, trial: Trial, progress: Progress) -> None:
        if self._is_time(trial.key):
            shown = f"{100 * progress.fraction:.0f}%  loss {progress.loss:.1e}"
            console.print(f"…  {name(trial)}  {shown}", markup=False)

    def trial_finished(self, trial: Trial, record: Record) -> None:
        # One print: on a terminal, the bars would erase a line that has not ended.
        console.print(Text.from_markup(MARKS.get(record.status, FAILED)).append(f" {finished_line(trial, record)}", ""))

    def _is_time(self, what: str) -> bool:
        now = time.monotonic()
        if now - self._said.setdefault(what, now) < PLAIN_SECONDS:
            return False
        self._said[what] = now
        return True


class LiveReporter(PlainReporter):
    """Bars for what is under way, and one for all of it; finished things scroll up as lines."""

    def __enter__(self) -> LiveReporter:
        self._bars: dict[str, TaskID] = {}
        self._trials = self._finished = 0
        self._running: dict[str, float] = {}  # what share of each trial is done, by key
        self._progress = Bars(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[detail]}"),
            TimeRemainingColumn(compact=True),
            console=console,
            transient=True,
        )
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def source_progress(self, source: Path, done: int, total: int) -> None:
        self._update(str(source), f"identify {source}", done / total, f"{human_bytes(done)}/{human_bytes(total)}")
        if done == total:
            self._remove(str(source))

    def data_progress(self, dataset: Dataset, done: int, total: int) -> None:
        self._update(dataset.id, f"data {dataset.title}", done / total, f"{done}/{total}")

    def data_ready(self, dataset: Dataset, header: Header, seconds: float) -> None:
        self._remove(dataset.id)
        super().data_ready(dataset, header, seconds)

    def plan(self, config: RunConfig, plan: Plan) -> None:
        super().plan(config, plan)
        self._trials = len(plan.todo)

    def trial_started(self, trial: Trial) -> None:
        self._all_trials({trial.key: 0.0})
        self._update(trial.key, name(trial), 0.0, "starting")

    def trial_progress(self, trial: Trial, progress: Progress) -> None:
        self._all_trials({trial.key: progress.fraction})
        steps = f"{progress.step}/{progress.total}" if progress.total else f"{progress.step}"
        self._update(trial.key, name(trial), progress.fraction, f"{steps}  loss {progress.loss:.1e}")

    def trial_finished(self, trial: Trial, record: Record) -> None:
        self._remove(trial.key)
        self._running.pop(trial.key, None)
        self._finished += 1
        self._all_trials({})
        super().trial_finished(trial, record)

    def _all_trials(self, shares: dict[str, float]) -> None:
        self._running |= shares
        if self._trials > 1:
            done = (self._finished + sum(self._running.values())) / self._trials
            self._update(ALL, ALL, done, f"{self._finished}/{self._trials}")

    def counted(self, what: str, done: int, total: int) -> None:
        self._update(what, visible(what), done / total, f"{done}/{total}")

    def _update(self, key: str, description: str, fraction: float, detail: str) -> None:
        if key not in self._bars:
            self._bars[key] = self._progress.add_task(description, total=1.0, detail=detail)
        self._progress.update(self._bars[key], completed=fraction, detail=detail)

    def _remove(self, key: str) -> None:
        if key in self._bars:
            self._progress.remove_task(self._bars.pop(key))


@contextmanager
def counting_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar for work in so many parts on a terminal, a line now and then anywhere else."""
    said = time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal said
        if done < total and time.monotonic() - said >= PLAIN_SECONDS:
            said = time.monotonic()
            console.print(f"…  {visible(what)}  {done} of {total}", markup=False)

    with make_reporter() as reporter:
        yield partial(reporter.counted, what) if isinstance(reporter, LiveReporter) else tell


def name(trial: Trial) -> str:
    return visible(f"{trial.task_label}  {trial.model_label}  seed {trial.seed}")


def finished_line(trial: Trial, record: Record) -> str:
    line = visible(f"{trial.task_label:<22} {trial.model_label:<24} seed {trial.seed}  ")
    if record.status == Status.OK:
        error = format_error(record.metrics[f"{trial.judge}_err"])
        return line + f"{error:>9}  {record.seconds.get('total') or 0.0:6.1f} s"
    return line + visible(f"{record.status}: {record.reason}")


def heading(config: RunConfig) -> str:
    seeds = config.seed_list
    tasks = config.tasks if isinstance(config.tasks, str) else ",".join(config.tasks)
    parts = [
        tasks,
        f"scale {config.scale}",
        config.budget or "the recipe's budget",
        f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds",
        *([f"shard {config.shard}"] if config.shard else []),
        _where(config),
    ]
    return " · ".join(parts)


def _where(config: RunConfig) -> str:
    where = plural(config.n_jobs, "job")
    if (device := label(str(config.resolved_device), config.precision)) != "cpu":
        where += f" on {device}"
    if config.executor == "ray":
        where = f"Ray at {config.ray_address}" if config.ray_address else "a local Ray"
    return where + (f", {config.ddp} processes a trial" if config.ddp > 1 else "")


def plan_line(plan: Plan) -> str:
    skipped = plan.having(Action.SKIP)
    reasons = Counter(f"{cell.trial.model_label}: {cell.reason}" for cell in skipped)
    shown = ", ".join(list(reasons)[:3]) + (", …" if len(reasons) > 3 else "")
    again = f", {len(plan.having(Action.RETRY))} of them failed before" if plan.having(Action.RETRY) else ""
    return (
        f"plan   {plural(len(plan.cells), 'trial')}{_once(plan)}: {len(plan.todo)} to run{again}, "
        f"{len(plan.having(Action.CACHED))} cached, {len(skipped)} skipped"
        + (f" ({shown})" if shown else "")
        + (f", {len(kept)} kept for a newer version" if (kept := plan.having(Action.KEEP)) else "")
        + estimate_text(plan)
    )


def _once(plan: Plan) -> str:
    """How many trials stand for all seeds, where there are several."""
    once = sum(cell.trial.deterministic for cell in plan.cells)
    several = len({cell.trial.seed for cell in plan.cells}) > 1
    return f" ({once} deterministic, so of one seed)" if once and several else ""


def estimate_text(plan: Plan) -> str:
    seconds, unknown = plan.estimate()
    if not plan.todo or unknown == len(plan.todo):
        return ""
    more = f" and {plural(unknown, 'trial')} never run before" if unknown else ""
    return f"   about {human_time(seconds)}{more}"


def plural(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def human_time(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def print_plan(config: RunConfig, plan: Plan) -> None:
    """``--dry-run``: the heading, and a line per cell."""
    print_prose(heading(config))
    print_prose(plan_line(plan))
    for cell in plan.cells:
        reason = f"  ({cell.reason})" if cell.reason else ""
        line = f"{cell.action:<7}{name(cell.trial)}  {cell.trial.budget}{reason}"
        console.print(visible(line), markup=False)


def print_estimate(plan: Plan, plugin_files: Sequence[str]) -> None:
    """``--dry-run``: how long it may take, and what the budgets of all trainings add up to."""
    if not plan.todo:
        return
    expected = estimate(plan, plugin_files)
    rest = f"; {expected.unknown} could not be estimated" if expected.unknown else ""
    print_prose(
        f"about {human_time(expected.seconds)} with {plural(plan.jobs, 'job')}, without data generation "
        f"({plural(expected.from_records, 'trial')} estimated from records, {expected.from_flops} from FLOPs{rest})"
    )
    trained = (cell.trial for cell in plan.todo if not cell.trial.training_free)
    clocked = [trial.budget.amount for trial in trained if trial.budget.kind == "core_seconds"]
    if clocked:
        total = sum(clocked)
        trainings = plural(len(clocked), "training")
        print_prose(f"{trainings} with {total:,.0f} core-seconds: {human_time(total)} of one core")


def print_outcome(config: RunConfig, outcome: Outcome, references: Sequence[ReferenceTable]) -> None:
    """The tables of what this run was about, and where everything was written."""
    cells = [cell.trial for cell in outcome.plan.cells]
    tasks, budgets = {t.task_label for t in cells}, {str(t.budget) for t in cells}
    board = outcome.board
    mine = board[board["task"].isin(tasks) & board["budget"].isin(budgets) & (board["scale"] == config.scale)]
    print_board(mine)
    console.print(f"wrote {_written(config.out, outcome.paths)}", markup=False)
    if note := _printed_note(outcome.plan, references):
        print_prose(note)
    for line in model_lines(config, outcome.records):
        print_prose(line)


def model_lines(config: RunConfig, records: Sequence[Record]) -> list[str]:
    """How many models there are to use, and why others were not kept."""
    named = {record.key: record.artefacts.get("model", {}) for record in records if record.status == Status.OK}
    sizes = [found["bytes"] for found in named.values() if "sha256" in found]
    kept = f"kept {plural(len(sizes), 'model')}, {human_bytes(sum(sizes))}, in {config.out}/models"
    lost = [record for record in records if "reason" in named.get(record.key, {})]
    reasons = [f"{r.trial.model_label} on {r.trial.task_label}: {named[r.key]['reason']}" for r in lost[:MOST_REASONS]]
    more = f"; and {len(lost) - MOST_REASONS} more" if len(lost) > MOST_REASONS else ""
    return [*([kept] if sizes else []), *([f"not kept: {'; '.join(reasons)}{more}"] if lost else [])]


def _written(folder: str, paths: list[Path]) -> str:
    """``board/{results,leaderboard,table_2d}.csv, .md, .tex``: the tables; a page without one is beside them."""
    names = ",".join(path.stem for path in paths if path.suffix == ".csv")
    others = "".join(f", {suffix}" for suffix in dict.fromkeys(path.suffix for path in paths) if suffix != ".csv")
    return f"{folder}/{{{names}}}.csv{others}"


def print_board(board: pd.DataFrame) -> None:
    if found := caveats(board):
        console.print()
        print_prose(f"read with care: {'; '.join(found)}", style="yellow")
    for _, group in board.groupby(GROUP, sort=False, dropna=False):
        first = group.iloc[0]
        heading = escape(visible(f"{title(first)}  ({first['task']})"))
        table = Table(title=heading, title_justify="left", box=None, pad_edge=False)
        headers = display_headers(group)
        for header in headers:
            side: JustifyMethod = "left" if header in ("model", "") else "right"
            table.add_column(header, justify=side, no_wrap=header not in ("", "fit", "converged"))
        scored, absent = group[group["n_seeds"] > 0], group[group["n_seeds"] == 0]
        for _, row in scored.iterrows():
            table.add_row(*(escape(visible(cell)) for cell in display_row(row, headers)))
        console.print()
        console.print(table)
        width = max(map(len, group["model"]))
        for _, row in absent.iterrows():  # nothing but a reason, which gets the rest of the line
            line = f"–  {row['model']:<{width}}  {display_row(row)[-1]}"
            console.print(visible(line), markup=False, highlight=False)
        print_prose(group_line(first), style="dim")
        if note := seed_note(group):
            print_prose(note, style="dim")
        if note := size_note(group):
            print_prose(f"{note} See docs/models.md, or --match-params.", style="dim")


def _printed_note(plan: Plan, references: Sequence[ReferenceTable]) -> str:
    """The range that is printed, where one task was run and a table has it."""
    specs = {cell.dataset.spec.name: cell.dataset.spec for cell in plan.cells}
    found = printed_range(references, next(iter(specs))) if len(specs) == 1 else None
    if found is None:
        return ""
    size = next(iter(specs.values())).scales.get("paper")
    where = f"at {'x'.join(map(str, size.grid))}" if size else "at its own scale"
    return f"paper: {found[0]:g} – {found[1]:g}, {where}"
