"""What a plan of 100,000 trials costs before, between and after its trials.

The trials are trivial (`trivial_trials`), so all that is measured is what the program adds. Each stage has a process of
its own, in which CPU time and peak memory are those of the stage:

    plan      the command up to its first trial: the plan, the lock, ``plan.json``, the work handed to an executor
    driver    the whole command, where an executor answers at once with a record that was made before
    tables    the tables of that board from its records
    again     the same command once more: everything is cached. Each record may be opened once
    process   a shorter plan on ``--executor process --jobs 2``, where every trial is two real processes

    python benchmarks/large_plans.py                                   takes some minutes
    python benchmarks/large_plans.py --cells 5000 --stages plan,tables

CPU time is of a process and all that it started, user and system: other work on the machine changes it little. Ends
with an error where a limit is missed; limits of time and memory are for 100,000 cells, and for fewer in proportion
to what is above the imports. The rate of `process` is by the wall clock, so it needs an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tabulate import tabulate
from trivial_trials import MODEL, TASKS, plugin_file, write_plugin

CELLS = 100_000
NUMBER_OF_TASKS = 10
IMPORTS = {"cpu": 3.0, "mb": 350.0}  # what a command takes that does nothing
LIMITS = {"plan": {"cpu": 20.0, "mb": 800.0}, "tables": {"cpu": 30.0}}  # for CELLS
OPENED = 1.0  # times that a record is opened, on a second run
RATE = 60.0  # trials per second on two cores
EXECUTOR = """

@hookimpl
def pdebench_hss_executors():
    return {"echo": "trivial_plugin:executor"}


def executor(registry, config):
    import large_plans

    return large_plans.echo_executor(registry, config)
"""


class Enough(Exception):
    """The stage ends here."""


def config(folder: str, cells: int, **more: Any) -> Any:
    from pdebench_hss.runs.config import RunConfig

    return RunConfig(
        models=MODEL, tasks=TASKS, scale="smoke", seeds=max(1, cells // NUMBER_OF_TASKS), jobs=2,
        plugins=[str(plugin_file(folder))], **more,
    )  # fmt: skip


def echo_executor(registry: Any, settings: Any) -> Any:
    from pdebench_hss.runs.executors import Executor, TrialEvent, TrialFinished, TrialStarted, Work
    from pdebench_hss.trials.run_trial import run_trial

    class Echo(Executor):
        """The first trial of each task is run, and its record stands for all, with other numbers in each."""

        def run(self, work: Sequence[Work]) -> Iterator[TrialEvent]:
            made: dict[str, Any] = {}
            for item in work:
                trial = item.trial
                if trial.task not in made:
                    made[trial.task] = run_trial(trial, item.context, self.registry)
                yield TrialStarted(trial)
                yield TrialFinished(trial, with_own_numbers(made[trial.task], trial))

    return Echo(registry, settings)


def with_own_numbers(record: Any, trial: Any) -> Any:
    """The record of another trial: errors, times and moments are its own, as those of real trials are, so that nothing
    is gained from files that happen to be alike."""
    from pdebench_hss.training.metrics import mean_of

    factor = 1.0 + trial.seed / 1e5
    samples = {name: a * factor if name.startswith("error_") else a for name, a in record.samples.items()}
    provenance = {**record.provenance, **{name: record.provenance[name] + trial.seed for name in ("started", "ended")}}
    return replace(
        record,
        key=trial.key,
        trial=trial,
        samples=samples,
        metrics={name: mean_of(samples[f"error_{name}"]) for name in record.metrics},
        seconds={name: seconds * factor for name, seconds in record.seconds.items()},
        serving={name: value * factor for name, value in record.serving.items()},
        predict_ms=record.predict_ms * factor,
        provenance=provenance,
    )


# --- the stages, each in a process of its own ------------------------------------------------------------------------


def plan(folder: str, cells: int) -> dict[str, float]:
    from pdebench_hss.runs.runner import Run

    class UpToTheTrials(Run):
        def _run_trials(self, executor: Any, todo: Any) -> None:
            assert sum(1 for _ in self._work(todo)) == cells
            raise Enough

    try:
        UpToTheTrials(config(folder, cells, out=str(Path(folder, f"planned-{cells}")))).execute()
    except Enough:
        return {}
    raise AssertionError("no trial was planned")


def driver(folder: str, cells: int) -> dict[str, float]:
    from pdebench_hss.runs.runner import Run

    outcome = Run(config(folder, cells, executor="echo", out=str(Path(folder, "board")))).execute()
    assert len(outcome.records) == cells
    assert not outcome.failed
    return {"tables": len(outcome.board)}


def tables(folder: str, cells: int) -> dict[str, float]:
    from pdebench_hss.boards.writing import write_board
    from pdebench_hss.contract.registry import load_registry
    from pdebench_hss.trials.store import Store

    board, _ = write_board(Store(Path(folder, "board")), load_registry([str(plugin_file(folder))]))
    assert board["n_seeds"].sum() == cells
    return {}


def again(folder: str, cells: int) -> dict[str, float]:
    from pdebench_hss.runs.runner import Run

    opened: Counter[str] = Counter()
    records = str(Path(folder, "board", "records"))

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and str(arguments[0]).startswith(records) and str(arguments[0]).endswith(".json"):
            opened[str(arguments[0])] += 1

    sys.addaudithook(hear)
    outcome = Run(config(folder, cells, executor="echo", out=str(Path(folder, "board")))).execute()
    assert not outcome.plan.todo
    return {"opened": sum(opened.values()) / cells}


def process(folder: str, cells: int) -> dict[str, float]:
    from pdebench_hss.runs.reporter import Reporter
    from pdebench_hss.runs.runner import Run

    class Clock(Reporter):
        times: list[float] = []  # noqa: RUF012

        def trial_finished(self, *_: object) -> None:
            self.times.append(time.perf_counter())

    outcome = Run(config(folder, cells, out=str(Path(folder, "process"))), reporter=Clock()).execute()
    assert not outcome.failed
    return {"rate": (len(Clock.times) - 1) / (Clock.times[-1] - Clock.times[0])}


STAGES = {stage.__name__: stage for stage in (plan, driver, tables, again, process)}


def measured(name: str, folder: str, cells: int) -> dict[str, float]:
    """In a child: the stage, what it took, and the memory of this process at its highest."""
    from pdebench_hss.base import machine

    start = time.perf_counter()
    found = STAGES[name](folder, cells)
    return {"wall": time.perf_counter() - start, "mb": machine.peak_memory() / 1e6, **found}


def in_child(name: str, folder: str, cells: int) -> dict[str, float]:
    environment = {**os.environ, "PDEBENCH_HSS_CACHE": str(Path(folder, "cache"))}
    command = [sys.executable, __file__, "--child", name, "--folder", folder, "--cells", str(cells)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"cpu": cpu, **json.loads(done.stdout.splitlines()[-1])}


def complaints(found: dict[str, dict[str, float]], cells: int) -> list[str]:
    share, lines = cells / CELLS, []
    for stage, limits in LIMITS.items():
        for what, limit in limits.items():
            allowed = IMPORTS[what] + (limit - IMPORTS[what]) * share
            if stage in found and found[stage][what] > allowed:
                lines.append(f"{stage}: {what} {found[stage][what]:.1f}, the limit for {cells} cells is {allowed:.1f}")
    if "again" in found and found["again"]["opened"] > OPENED:
        lines.append(f"again: a record was opened {found['again']['opened']:.1f} times, the limit is {OPENED:g}")
    if "process" in found and found["process"]["rate"] < RATE:
        lines.append(f"process: {found['process']['rate']:.1f} trials a second, the limit is {RATE:g}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description="What a large plan costs.")
    parser.add_argument("--cells", type=int, default=CELLS)
    parser.add_argument("--trials", type=int, default=1000, help="of the stage `process`")
    parser.add_argument("--stages", default=",".join(STAGES), help="tables and again need driver")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measured(options.child, options.folder, options.cells)))
        return
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="large-plans-") as folder:
        write_plugin(folder, EXECUTOR)
        in_child("plan", folder, NUMBER_OF_TASKS)  # makes the data, which are not part of any stage
        for stage in options.stages.split(","):
            cells = options.trials if stage == "process" else options.cells
            found[stage] = in_child(stage, folder, cells)
            row = found[stage]
            print(f"{stage}: {cells} cells", {name: round(value, 2) for name, value in row.items()}, flush=True)
    rows = [
        [stage, row["cpu"], row["wall"], row["mb"], row.get("opened"), row.get("rate")] for stage, row in found.items()
    ]
    headers = ["stage", "CPU s", "wall s", "driver MB", "opened", "trials/s"]
    print(tabulate(rows, headers=headers, floatfmt=("", ".1f", ".1f", ".0f", ".1f", ".1f"), tablefmt="github"))
    if lines := complaints(found, options.cells):
        raise SystemExit("\n".join(lines))


if __name__ == "__main__":
    main()
