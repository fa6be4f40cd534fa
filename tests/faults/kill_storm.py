"""The driver is killed again and again; afterwards the board must be that of an undisturbed run.

    python tests/faults/kill_storm.py --kills 100 --writing 40 --variant plain

A round is a board of its own: the same command is started, killed, started again, until it ends by itself. Drivers are
forks of this process, which has imported everything and loaded the plugins, so that a start takes milliseconds; what
runs in them is the command line itself with ``--executor inline``.

When to kill. At random: after a time drawn uniformly from the length of an undisturbed run. While a record is being
written: the folder of records is listed in a loop from a random number of records on, and the driver is killed when a
temporary file shows up, after 0 to 2 ms more. Such a kill counts as "while writing" only if the temporary file is still
there when the driver is dead, which no driver leaves that got to the end of its write.

What is counted, at every look at the folder (after each kill and at the end):
    lost       a record that was there at an earlier look is gone, or can't be read, or is no longer ok; a model that a
               record names is not there, or has other bytes
    doubled    a record that was there was written again by a run without --force; a key twice in the table
    different  a cell of the table whose metrics are not, to the last bit, those of the undisturbed run

Variants: ``plain``; ``lock`` (a second run is started at the same time and must be refused); ``force`` (the board is
complete and every run has --force); ``disk`` (the board is on a file system of 1 MB that is full in every second run).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

TOYS = Path(__file__).resolve().parents[1] / "toys" / "toy_plugin.py"
METRICS = ["key", "task", "model", "seed", "test_err", "relative_l2", "trajectory_l2", "rmse", "max_error", "status"]
DISK_BYTES = 1 << 20
VARIANTS = ("plain", "lock", "force", "disk")


@dataclass
class Counts:
    variant: str
    rounds: int = 0
    kills: int = 0
    while_writing: int = 0
    ended_before_the_kill: int = 0
    refused_second_runs: int = 0
    second_runs_not_refused: int = 0
    stopped_by_a_full_disk: int = 0
    lost: int = 0
    doubled: int = 0
    different: int = 0
    complaints: list[str] = field(default_factory=list)  # what should not have been printed, or how a run ended

    @property
    def clean(self) -> bool:
        return not (self.lost or self.doubled or self.different or self.second_runs_not_refused or self.complaints)


class Storm:
    def __init__(self, variant: str, seeds: int, seed: int, folder: Path) -> None:
        self.counts, self.seeds, self.folder = Counts(variant), seeds, folder
        self.moments = random.Random(seed)
        assert self.wait(self.start("data")) == 0, self.said("data")
        start = time.monotonic()
        assert self.wait(self.start("calm")) == 0, self.said("calm")
        self.seconds = time.monotonic() - start
        self.calm = self.table("calm")
        print(f"an undisturbed run takes {self.seconds:.1f} s", file=sys.stderr)

    def start(self, out: str, *more: str, log: str = "") -> int:
        """The command line in a fork; returns its process id."""
        pid = os.fork()
        if pid:
            return pid
        code = 70
        try:
            os.chdir(self.folder)
            said = os.open(f"{log or out}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(said, 1)
            os.dup2(said, 2)
            from pdebench_hss.cli import main

            main(
                [
                    *("run", "--plugin", str(TOYS), "--models", "toy_conv,mean", "--tasks", "toy,toy_rollout"),
                    *("--scale", "smoke", "--seeds", str(self.seeds), "--executor", "inline", "--out", out, *more),
                ]
            )
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            sys.stdout.flush()
            os._exit(code)

    def said(self, log: str) -> str:
        return (self.folder / f"{log}.log").read_text(errors="replace")

    @staticmethod
    def wait(pid: int) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def table(self, out: str) -> dict[str, list[str]]:
        """The metrics of each row of the results, as text; and whether a key is there twice."""
        import csv

        with open(self.folder / out / "results.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        keys = [row["key"] for row in rows]
        self.counts.doubled += len(keys) - len(set(keys))
        return {row["key"]: [row[name] for name in METRICS] for row in rows}

    def round(self, kills: int, writing: int) -> None:
        """One board: kill until it is done or enough was killed; then let it finish and compare."""
        out = f"round-{self.counts.rounds}"
        self.counts.rounds += 1
        variant, counts = self.counts.variant, self.counts
        with self.place(out):
            more = ["--force"] if variant == "force" else []
            if more:
                assert self.wait(self.start(out)) == 0, self.said(out)
            seen = self.look(out, {})
            for turn in range(1_000):
                if counts.kills >= kills and counts.while_writing >= writing:
                    break
                full = variant == "disk" and turn % 2 == 1
                ended = self.kill_one(out, more, full, writing > counts.while_writing)
                seen = self.look(out, seen)
                if ended and not full:
                    break
            code = self.wait(self.start(out))
            if code:
                counts.complaints.append(f"{out}: the last run ended with {code}: {self.said(out)[-300:]}")
            self.look(out, seen)
            self.compare(out)
            print(f"{out}: {counts.kills} kills so far, {counts.while_writing} while writing", file=sys.stderr)

    @contextlib.contextmanager
    def place(self, out: str) -> Iterator[None]:
        board = self.folder / out
        board.mkdir()
        if self.counts.variant != "disk":
            yield
            return
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(board)], check=True)
        try:
            yield
        finally:
            subprocess.run(["umount", str(board)], check=True)

    def kill_one(self, out: str, more: list[str], full: bool, writing: bool) -> bool:
        """Start a run and kill it; returns whether it ended by itself before."""
        counts, ballast = self.counts, self.folder / out / "ballast"
        if full:
            fill(ballast, leave=self.moments.randrange(2, 40) << 10)
        pid = self.start(out, *more)
        second = None
        if counts.variant == "lock":
            time.sleep(self.moments.uniform(0, self.seconds / 2))
            second = self.start(out, log="second")
        code = self.watch(pid, out) if writing else self.doze(pid)
        left = list((self.folder / out / "records").glob(".*.tmp"))
        if code == -signal.SIGKILL:
            counts.kills += 1
            counts.while_writing += bool(left)
        else:
            counts.ended_before_the_kill += 1
            self.judge(out, code, full)
        if second is not None:
            self.judge_second(second)
        if full:
            ballast.unlink(missing_ok=True)
        return code == 0

    def doze(self, pid: int) -> int:
        """Kill at a random moment."""
        start = time.monotonic()
        limit = start + self.moments.uniform(0, self.seconds)
        while time.monotonic() < limit:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                self.seconds = min(self.seconds, time.monotonic() - start)  # a busy machine got quicker
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.002)
        os.kill(pid, signal.SIGKILL)
        return self.wait(pid)

    def watch(self, pid: int, out: str) -> int:
        """Kill while a record is being written."""
        records, delay = self.folder / out / "records", self.moments.uniform(0, 0.002)
        start = len(list(records.glob("*.json"))) if records.exists() else 0
        first = start + self.moments.randrange(0, 5) if self.counts.variant != "force" else 0
        while True:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            time.sleep(2e-4)
            with contextlib.suppress(FileNotFoundError):
                names = os.listdir(records)
                if any(name.endswith(".tmp") for name in names) and sum(n.endswith(".json") for n in names) >= first:
                    time.sleep(delay if delay > 5e-4 else 0)
                    os.kill(pid, signal.SIGKILL)
                    return self.wait(pid)

    def judge(self, out: str, code: int, full: bool) -> None:
        """How a run ended that was not killed: well; or, on a full disk, with one line."""
        said = self.said(out)
        if "Traceback" in said:
            self.counts.complaints.append(f"{out}: {said[-300:]}")
        elif code and full and ("No space left" in said or "can't write" in said):
            self.counts.stopped_by_a_full_disk += 1
        elif code == 2 and self.counts.variant == "lock" and "another run is writing" in said:
            self.counts.refused_second_runs += 1  # the one that was started second was quicker
        elif code:
            self.counts.complaints.append(f"{out}: exit code {code}: {said[-300:]}")

    def judge_second(self, second: int) -> None:
        """Of two runs at one time one is refused; if the first is dead already, the second may run."""
        code, said = self.wait(second), self.said("second")
        if code == 2 and "another run is writing" in said:
            self.counts.refused_second_runs += 1
        elif code != 0:
            self.counts.second_runs_not_refused += 1
            self.counts.complaints.append(f"the second run: exit code {code}: {said[-300:]}")

    def look(self, out: str, seen: dict[str, int]) -> dict[str, int]:
        """The records that are there and good, by key, with the time of their writing; compares with the last look."""
        now = {}
        for path in (self.folder / out / "records").glob("*.json"):
            try:
                content = json.loads(path.read_text())
            except ValueError:
                self.counts.complaints.append(f"{out}: half a record: {path.name}")
                continue
            if content["status"] == "ok":
                now[path.stem] = path.stat().st_mtime_ns
        self.counts.lost += len(seen.keys() - now.keys()) + self.models_lost(out, now)
        if self.counts.variant != "force":
            self.counts.doubled += sum(now[key] != stamp for key, stamp in seen.items() if key in now)
        return now

    def models_lost(self, out: str, keys: Iterable[str]) -> int:
        """How many of these records name a model that can't be read."""
        from pdebench_hss.base.files import BadFile
        from pdebench_hss.trials.store import Store

        lost, store = 0, Store(self.folder / out)
        for key in keys:
            try:
                store.models.read(store.read(key, ())[0])
            except BadFile as error:
                self.counts.complaints.append(f"{out}: the model of {key}: {error}")
                lost += 1
        return lost

    def compare(self, out: str) -> None:
        found = self.table(out)
        self.counts.lost += len(self.calm.keys() - found.keys())
        self.counts.different += sum(found[key] != row for key, row in self.calm.items() if key in found)
        left = list((self.folder / out).rglob("*.tmp"))
        if left:
            self.counts.complaints.append(f"{out}: {len(left)} temporary files left")


def fill(ballast: Path, leave: int) -> None:
    """Leave so many bytes of a file system."""
    free = os.statvfs(ballast.parent)
    with contextlib.suppress(OSError):
        ballast.write_bytes(b"x" * max(0, free.f_bavail * free.f_frsize - leave))


def can_mount() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], capture_output=True, check=False)
        if done.returncode == 0:
            subprocess.run(["umount", folder], check=True)
        return done.returncode == 0


def run(variant: str, kills: int, writing: int, seeds: int, seed: int, seconds: float) -> Counts:
    # Imported here, before the forks, and not used: a thread of this process would not be in them.
    import torch._dynamo  # noqa: F401

    import pdebench_hss.api
    import pdebench_hss.cli.app
    import pdebench_hss.runs.executors.inline  # noqa: F401
    from pdebench_hss.contract import registry as plugins

    registry = plugins.load_registry([TOYS])
    plugins.load_registry = lambda *_, **__: registry
    with tempfile.TemporaryDirectory(prefix="kill-storm-") as folder:
        os.environ["PDEBENCH_HSS_CACHE"] = str(Path(folder, "cache"))
        storm = Storm(variant, seeds, seed, Path(folder))
        limit = time.monotonic() + seconds
        while storm.counts.kills < kills or storm.counts.while_writing < writing:
            if time.monotonic() > limit:
                storm.counts.complaints.append(f"stopped after {seconds:g} s")
                break
            storm.round(kills, writing)
        return storm.counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--writing", type=int, default=8, help="at least so many of them while a record is written")
    parser.add_argument("--variant", choices=VARIANTS, default="plain")
    parser.add_argument("--seeds", type=int, default=6, help="four trials each")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--seconds", type=float, default=3600, help="start no further board after that")
    asked = parser.parse_args()
    if asked.variant == "disk" and not can_mount():
        sys.exit("skipped: mounting a file system needs root")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and so unmount what is mounted
    start = time.monotonic()
    counts = run(asked.variant, asked.kills, asked.writing, asked.seeds, asked.seed, asked.seconds)
    print(json.dumps({**asdict(counts), "seconds": round(time.monotonic() - start)}, indent=1))
    sys.exit(0 if counts.clean else 1)


if __name__ == "__main__":
    main()
