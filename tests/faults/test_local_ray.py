"""A Ray of one's own machine: nobody else can reach it, and its death stops the run and blames no trial."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("ray")
pytestmark = [
    pytest.mark.cold,
    pytest.mark.timeout(300),
    pytest.mark.early,
    pytest.mark.skipif(sys.platform != "linux", reason="/proc"),
]

LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


def processes_of(cache: Path) -> list[int]:
    """All processes that were started with this test's data cache: the run, Ray's own and the trials."""
    mark, found = f"PDEBENCH_HSS_CACHE={cache}".encode(), []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return [pid for pid in found if pid != os.getpid()]


def listening(pids: list[int]) -> list[tuple[str, str]]:
    """Program and local address (as the kernel writes it) of every socket that these processes listen on."""
    addresses = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A":
                addresses[f"socket:[{words[9]}]"] = words[1].partition(":")[0]
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    if (target := os.readlink(descriptor)) in addresses:
                        found.append((name, addresses[target]))
    return found


def records(out: Path) -> list[Path]:
    return sorted((out / "records").glob("*.json"))


def test_it_listens_on_loopback_only_and_its_death_is_one_line_and_no_failed_trial(toys, tmp_path, cache):
    models = "mean,toy_conv,toy_slow[seconds=0.3]"
    arguments = [
        *(sys.executable, "-m", "pdebench_hss", "run", "--plugin", toys, "--models", models, "--tasks", "toy"),
        *("--scale", "smoke", "--seeds", "4", "--executor", "ray", "--jobs", "1", "--out", "board"),
    ]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    run = subprocess.Popen(arguments, cwd=tmp_path, **pipes)
    deadline = time.monotonic() + 200
    while len(records(tmp_path / "board")) < 2:
        assert run.poll() is None, run.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)

    sockets = listening(processes_of(cache))
    assert {"raylet", "gcs_server"} <= {name for name, _ in sockets}
    assert {address for _, address in sockets} <= LOOPBACK

    raylet = next(pid for pid in processes_of(cache) if Path(f"/proc/{pid}/comm").read_text().strip() == "raylet")
    os.kill(raylet, signal.SIGKILL)
    out, err = run.communicate(timeout=120)
    assert run.returncode == 1
    assert "note   a local Ray was started; it listens on 127.0.0.1 only" in out
    (line,) = err.strip().splitlines()
    assert line.startswith("error: Ray's process on this machine (its raylet) died: ")
    assert line.endswith("trials done and kept; run the same command to continue.")
    assert "Traceback" not in out
    assert "state-dump" not in out
    kept = records(tmp_path / "board")
    assert 2 <= len(kept) < 12
    assert all('"status": "ok"' in path.read_text() for path in kept)
    assert "missing" in (tmp_path / "board" / "results.csv").read_text()
    deadline = time.monotonic() + 30
    while processes_of(cache):
        assert time.monotonic() < deadline, processes_of(cache)
        time.sleep(0.2)
