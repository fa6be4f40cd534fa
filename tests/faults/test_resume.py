"""Killed at any moment and started again, a run ends where an undisturbed one does."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest
from bad_boards import edit

pytestmark = pytest.mark.timeout(240)

METRICS = [
    "key",
    "task",
    "model",
    "seed",
    "test_err",
    "relative_l2",
    "trajectory_l2",
    "rmse",
    "max_error",
    "steps",
    "status",
]


def command(toys, out, *more):
    return [
        *(sys.executable, "-m", "pdebench_hss", "run", "--plugin", toys, "--models", "toy_conv,toy_slow,mean"),
        *("--tasks", "toy,toy_rollout", "--scale", "smoke", "--seeds", "2", "--jobs", "2", "--out", out, *more),
    ]


def short(toys, out):
    """Two trials, one after the other."""
    return [
        *("run", "--plugin", toys, "--models", "toy_conv,mean", "--tasks", "toy", "--scale", "smoke"),
        *("--jobs", "1", "--out", out),
    ]


def metrics(folder) -> pd.DataFrame:
    return pd.read_csv(folder / "results.csv")[METRICS]


def children_of(pid: int) -> list[int]:
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as file:
                    if int(file.read().rpartition(")")[2].split()[1]) == pid:
                        found.append(int(entry))
            except OSError:
                continue
    return found


def test_the_same_command_again_trains_nothing(cli, toys, tmp_path):
    arguments = short(toys, "board")
    assert cli(*arguments).code == 0
    stamps = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "board" / "records").iterdir()}
    csv = (tmp_path / "board" / "results.csv").read_bytes()
    again = cli(*arguments)
    assert again.code == 0
    assert "0 to run, 2 cached" in again.out
    assert {p.name: p.stat().st_mtime_ns for p in (tmp_path / "board" / "records").iterdir()} == stamps
    assert (tmp_path / "board" / "results.csv").read_bytes() == csv


@pytest.mark.cold
def test_killed_at_random_moments_the_result_is_the_same(toys, tmp_path):
    assert subprocess.run(command(toys, "calm"), cwd=tmp_path, capture_output=True, timeout=120).returncode == 0
    moments = random.Random(7)
    for _ in range(4):
        run = subprocess.Popen(
            command(toys, "stormy"), cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(moments.uniform(1.0, 6.0))
        run.send_signal(signal.SIGKILL)
        run.wait()
    done = subprocess.run(command(toys, "stormy"), cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    pd.testing.assert_frame_equal(metrics(tmp_path / "calm"), metrics(tmp_path / "stormy"), check_exact=True)
    assert not list((tmp_path / "stormy").rglob("*.tmp"))


def start_slow_run(toys, tmp_path):
    """A run with one long trial; returns once a trial's process is at work."""
    arguments = [
        *(sys.executable, "-m", "pdebench_hss", "run", "--plugin", toys, "--models", "toy_conv,toy_slow[seconds=1.0]"),
        *("--tasks", "toy", "--scale", "smoke", "--budget", "steps=100", "--jobs", "1", "--out", "board"),
    ]
    run = subprocess.Popen(
        arguments,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A suite that was itself started in the background ignores Ctrl-C, and its children would too.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not list((tmp_path / "board" / "records").glob("*.json")):
        time.sleep(0.1)
    time.sleep(3.0)  # toy_conv is done, toy_slow is somewhere in its 100 seconds
    assert run.poll() is None
    return run


@pytest.mark.cold
def test_ctrl_c_keeps_what_is_done_and_the_state_of_what_runs(toys, tmp_path):
    run = start_slow_run(toys, tmp_path)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=30)
    assert run.returncode == 130
    assert "stopped. 1 of 2 trials done and kept; run the same command to continue." in err
    assert "Traceback" not in out + err
    rows = pd.read_csv(tmp_path / "board" / "results.csv").set_index("model")
    assert rows.status.to_dict() == {"toy_conv": "ok", "toy_slow[seconds=1.0]": "missing"}
    assert len(list((tmp_path / "board" / "checkpoints").glob("*.pt"))) == 1


@pytest.mark.cold
def test_a_killed_driver_takes_its_trials_with_it(toys, tmp_path):
    run = start_slow_run(toys, tmp_path)
    workers = children_of(run.pid)
    trials = [child for worker in workers for child in children_of(worker)]
    assert trials
    run.send_signal(signal.SIGKILL)
    run.communicate(timeout=30)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and any(os.path.exists(f"/proc/{pid}") for pid in workers + trials):
        time.sleep(0.1)
    assert not [pid for pid in workers + trials if os.path.exists(f"/proc/{pid}")]


@pytest.mark.cold
def test_two_runs_do_not_write_to_one_directory(toys, tmp_path):
    run = start_slow_run(toys, tmp_path)
    second = subprocess.run(command(toys, "board"), cwd=tmp_path, capture_output=True, text=True, timeout=60)
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=30)
    assert second.returncode == 2
    assert "another run is writing to board" in second.stderr


def test_a_corrupt_record_is_reported_and_run_again(cli, toys, tmp_path):
    arguments = short(toys, "board")
    assert cli(*arguments).code == 0
    before = metrics(tmp_path / "board")
    victim = sorted((tmp_path / "board" / "records").glob("*.json"))[0]
    victim.write_text(victim.read_text()[:100])
    again = cli(*arguments)
    assert again.code == 0
    assert f"record {victim.name} in board can't be used" in again.err
    assert "1 to run, 1 cached" in again.out
    pd.testing.assert_frame_equal(metrics(tmp_path / "board"), before, check_exact=True)


def test_a_record_counts_only_for_the_data_it_was_made_with(cli, toys, tmp_path):
    arguments = short(toys, "board")
    assert cli(*arguments).code == 0
    record = next(
        path
        for path in sorted((tmp_path / "board" / "records").glob("*.json"))
        if json.loads(path.read_text())["trial"]["model"] == "mean"
    )
    edit(record, lambda content: content["data"].update(sha256="0" * 64), seal=True)
    again = cli(*arguments)
    assert "1 trials were run on data that have changed since" in again.err
    assert json.loads(record.read_text())["data"]["sha256"] != "0" * 64
