"""What an executor adds to a trial that does nothing, and how long a plan a driver can hold.

The trial fits in microseconds (`trivial_trials`), so what is measured is the way there and back (a process, a Ray
task), the record and the tables.

    python benchmarks/executors.py                                        200 trials on inline, process and ray
    python benchmarks/executors.py --trials 50000 --executors ray         the long plan

Every run is a driver of its own, so that its peak memory is that of one run. Columns: seconds of the whole command's
work (plan, data, trials, tables); trials per second between the first and the last record; the driver's peak memory.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tabulate import tabulate
from trivial_trials import MODEL, plugin_file, write_plugin


def run_one(executor: str, trials: int, folder: str, address: str | None) -> dict[str, float]:
    """In a driver of its own: run the plan and tell what it took."""
    from pdebench_hss.base import machine
    from pdebench_hss.runs.config import RunConfig
    from pdebench_hss.runs.reporter import Reporter
    from pdebench_hss.runs.runner import Run

    class Clock(Reporter):
        def __init__(self) -> None:
            self.times: list[float] = []
            self.planned = 0.0

        def plan(self, *_: object) -> None:
            self.planned = time.perf_counter()

        def trial_finished(self, *_: object) -> None:
            self.times.append(time.perf_counter())

    start, clock = time.perf_counter(), Clock()
    config = RunConfig(
        models=MODEL, tasks="trivial_0", scale="smoke", seeds=trials, executor=executor, ray_address=address,
        out=str(Path(folder, executor)), plugins=[str(plugin_file(folder))],
    )  # fmt: skip
    outcome = Run(config, reporter=clock).execute()
    end = time.perf_counter()
    assert len(outcome.records) == trials
    assert not outcome.failed
    return {
        "plan": clock.planned - start,
        "first": clock.times[0] - clock.planned,
        "per_second": (trials - 1) / (clock.times[-1] - clock.times[0]),
        "tables": end - clock.times[-1],
        "total": end - start,
        "memory": machine.peak_memory() / 1e6,
    }


def measure(executor: str, trials: int, address: str | None) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="executors-") as folder:
        write_plugin(folder)
        arguments = ["--child", folder, "--trials", str(trials), "--executors", executor]
        arguments += ["--ray-address", address] if address else []
        environment = {**os.environ, "PDEBENCH_HSS_CACHE": str(Path(folder, "cache"))}
        command = [sys.executable, __file__, *arguments]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description="The overhead of executors.")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--executors", default="inline,process,ray")
    parser.add_argument("--ray-address")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    executors = options.executors.split(",")
    if options.child:
        print(json.dumps(run_one(executors[0], options.trials, options.child, options.ray_address)))
        return
    rows = []
    for executor in executors:
        found = measure(executor, options.trials, options.ray_address if executor == "ray" else None)
        rows.append([executor, *found.values()])
    print(f"{options.trials} trivial trials")
    headers = ["executor", "plan s", "to first s", "trials/s", "tables s", "all s", "driver MB"]
    print(tabulate(rows, headers=headers, floatfmt=("", ".1f", ".1f", ".1f", ".1f", ".1f", ".0f"), tablefmt="github"))


if __name__ == "__main__":
    main()
