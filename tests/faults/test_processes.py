"""No process outlives its job, no job its time limit, no checkpoint is lost to a signal, no directory to a kill."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from patience import PATIENCE

from pdebench_hss.base.scratch import OWNER, Scratch, remove_abandoned
from pdebench_hss.workers import pool as pools
from pdebench_hss.workers.events import Crashed, Done, Started, TimedOut
from pdebench_hss.workers.jobs import Job
from pdebench_hss.workers.pool import WorkerPool

pytestmark = [
    pytest.mark.cold,
    pytest.mark.timeout(240),
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]


@pytest.fixture(autouse=True)
def hanging_up_ends_programs():
    """Also where the tests themselves were started by `nohup`: whoever starts a program decides what it ignores."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(condition, seconds: float = 60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


# What jobs do. They run in a worker, which finds this file by PYTHONPATH.


def family(emit, folder: str, then: str) -> str:
    """Start a child, one in a session of its own, and a daemon whose parent is gone; then go on as told."""
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    pids = [subprocess.Popen(sleep).pid, subprocess.Popen(sleep, start_new_session=True).pid]
    orphan = f"import subprocess as s; print(s.Popen({sleep!r}, start_new_session=True, stdout=-3, stderr=-3).pid)"
    pids.append(int(subprocess.run([sys.executable, "-c", orphan], capture_output=True, check=True).stdout))
    Path(folder, "pids").write_text(" ".join(map(str, pids)))
    if then == "hang":
        time.sleep(600)
    if then == "die":
        os.kill(os.getpid(), signal.SIGSEGV)
    if then == "kill the worker":
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(600)
    return "home"


def nap(emit, folder: str) -> None:
    Path(folder, "napping").write_text(str(os.getpid()))
    time.sleep(600)


def quick(emit) -> int:
    return 7


@pytest.fixture
def make(monkeypatch, tmp_path):
    places = (Path(__file__).parent, Path(__file__).parents[1] / "support")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, places)))

    def job(function, *more) -> Job:
        names = function.__code__.co_varnames[1 : function.__code__.co_argcount]
        return Job(function.__name__, f"{Path(__file__).stem}:{function.__name__}", dict(zip(names, more)))

    return job


@pytest.mark.parametrize(
    ("then", "ending"),
    [("hang", TimedOut), ("die", Crashed), ("return", Done), ("kill the worker", Crashed)],
)
def test_what_a_job_started_ends_with_it_however_it_ends(make, tmp_path, then, ending):
    with WorkerPool(1) as pool:
        *_, last = pool.run([make(family, str(tmp_path), then)], timeout=4.0 if then == "hang" else 100.0)
        assert isinstance(last, ending)
        pids = [int(word) for word in (tmp_path / "pids").read_text().split()]
        assert len(pids) == 3
        if then == "kill the worker":  # nobody is left to adopt its orphans: its group is what can be reached
            pids = pids[:1]
        wait_for(lambda: not any(map(alive, pids)), 5.0)
        *_, last = pool.run([make(quick)])
        assert last.value == 7
    for pid in (tmp_path / "pids").read_text().split():
        with contextlib.suppress(OSError):
            if b"time.sleep(600)" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(int(pid), signal.SIGKILL)


def test_a_pool_that_is_closed_in_the_middle_leaves_nothing(make, tmp_path):
    pool = WorkerPool(1)
    events = pool.run([make(family, str(tmp_path), "hang")])
    next(events)
    wait_for((tmp_path / "pids").exists)
    wait_for(lambda: (tmp_path / "pids").read_text().count(" ") == 2)
    scratch = Path(pool._scratch.name)
    assert scratch.exists()
    pool.close()
    wait_for(lambda: not any(alive(int(word)) for word in (tmp_path / "pids").read_text().split()), 5.0)
    assert not scratch.exists()


def test_a_stopped_worker_does_not_stop_the_clock(make, tmp_path):
    with WorkerPool(1) as pool:
        events = pool.run([make(nap, str(tmp_path)), make(quick)], timeout=2.0)
        assert isinstance(next(events), Started)
        stopped = pool._workers[0].process
        stopped.send_signal(signal.SIGSTOP)
        start = time.monotonic()
        assert isinstance(next(events), TimedOut)
        assert time.monotonic() - start < (2.0 + pools.ANSWER + 10.0) * PATIENCE
        assert stopped.poll() is not None
        *_, last = events
        assert last.value == 7  # a new worker took its place


def test_a_worker_that_is_stopped_before_it_starts_a_job_is_given_up(make, tmp_path, monkeypatch):
    monkeypatch.setattr(pools, "START", 6.0)
    with WorkerPool(1) as pool:
        list(pool.run([make(quick)]))
        pool._workers[0].process.send_signal(signal.SIGSTOP)
        first, *rest = pool.run([make(quick), make(quick)], timeout=50.0)
        assert isinstance(first, Crashed)
        assert first.reason == "its worker process did not start it within 6 s"
        assert rest[-1].value == 7


def start_slow(toys, folder, **options):
    """A run with one long trial; returns it and the processes below it, once the trial is at work."""
    arguments = [
        *(sys.executable, "-m", "pdebench_hss", "run", "--plugin", toys, "--models", "toy_slow[seconds=0.5]"),
        *("--tasks", "toy", "--scale", "smoke", "--budget", "steps=200", "--jobs", "1", "--out", "board"),
    ]
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    run = subprocess.Popen(arguments, cwd=folder, env={**os.environ, "TMPDIR": str(temporary)}, **pipes)
    wait_for(lambda: list((folder / "board" / "logs").glob("*.log")) or run.poll() is not None, 120)
    time.sleep(3.0)
    assert run.poll() is None
    worker = next(pid for pid in children_of(run.pid) if children_of(pid))
    return run, worker, children_of(worker)[0]


def children_of(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(entry.name))
    return found


def checkpoints(folder) -> list[Path]:
    return list((folder / "board" / "checkpoints").glob("*.pt"))


@pytest.mark.parametrize(
    ("number", "to"), [("SIGHUP", "driver"), ("SIGHUP", "all"), ("SIGTERM", "all"), ("SIGTERM", "trial")]
)
def test_a_signal_that_ends_programs_keeps_the_checkpoint_whoever_gets_it_first(toys, tmp_path, number, to):
    run, worker, trial = start_slow(toys, tmp_path)
    for pid in {"driver": [run.pid], "all": [trial, worker, run.pid], "trial": [trial]}[to]:
        os.kill(pid, getattr(signal, number))
    out, err = run.communicate(timeout=40)
    assert run.returncode == 130, err
    assert "stopped. 0 of 1 trials done and kept; run the same command to continue." in err
    assert "Traceback" not in out + err
    assert len(checkpoints(tmp_path)) == 1
    assert not list((tmp_path / "board" / "records").glob("*.json"))
    assert not alive(worker)
    assert not alive(trial)


def test_a_closed_terminal_keeps_the_checkpoint(toys, tmp_path):
    master, slave = pty.openpty()

    def own_terminal():
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    streams = {"stdin": slave, "stdout": slave, "stderr": slave, "preexec_fn": own_terminal}
    run, worker, trial = start_slow(toys, tmp_path, **streams)
    os.close(slave)
    os.close(master)
    assert run.wait(timeout=40) == 130
    assert len(checkpoints(tmp_path)) == 1
    assert not alive(worker)
    assert not alive(trial)


def test_nohup_is_respected(toys, tmp_path):
    run, worker, trial = start_slow(toys, tmp_path, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    for pid in (trial, worker, run.pid):
        os.kill(pid, signal.SIGHUP)
    time.sleep(1.5)
    assert run.poll() is None
    assert alive(trial)
    run.send_signal(signal.SIGTERM)
    run.communicate(timeout=40)
    assert run.returncode == 130


def test_directories_of_a_killed_driver_are_removed_by_the_next_run_and_those_of_a_living_one_are_not(
    cli, toys, tmp_path
):
    temporary = tmp_path / "tmp"

    def ours() -> list[Path]:
        return sorted(temporary.glob("pdebench-hss-*"))

    run, worker, trial = start_slow(toys, tmp_path)
    mine = ours()
    assert mine
    again = ("run", "--plugin", toys, "--models", "mean", "--tasks", "toy", "--scale", "smoke", "--out", "other")
    assert cli(*again, TMPDIR=str(temporary)).code == 0
    assert ours() == mine  # a living run's, and none of its own
    os.kill(worker, signal.SIGSTOP)  # a stopped worker, too, ends with its driver
    run.kill()
    run.communicate()
    wait_for(lambda: not alive(worker) and not alive(trial), 10.0)
    assert ours() == mine
    assert cli(*again, TMPDIR=str(temporary)).code == 0
    assert ours() == []


def test_only_directories_with_a_dead_owner_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    strange = tmp_path / "pdebench-hss-of-somebody"
    strange.mkdir()
    (tmp_path / "pdebench-hss-link").symlink_to(strange)
    dead = tmp_path / "pdebench-hss-dead"
    dead.mkdir()
    (dead / OWNER).touch()
    with Scratch("trial") as living:
        remove_abandoned()
        assert {path.name for path in tmp_path.iterdir()} == {
            *(strange.name, "pdebench-hss-link"),
            Path(living).name,
        }
    assert not os.path.exists(living)
