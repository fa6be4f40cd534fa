"""Commands and workers that the tests start as forks are what new interpreters would be (`support/warm_python`)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pdebench_hss.workers.events import Done
from pdebench_hss.workers.pool import WorkerPool
from pdebench_hss.workers.worker import Job

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs orphans to be adopted")


def run(folder: Path, *arguments: str, **more) -> tuple[int, bytes, bytes]:
    command = [sys.executable, "-m", "pdebench_hss", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=120, **more)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("arguments", ["list models", "show nothing", "run --tasks toy --plugin nowhere.py"])
def test_a_command_prints_and_ends_as_in_a_new_interpreter(tmp_path, monkeypatch, arguments):
    import warm_python

    forked = run(tmp_path, *arguments.split())
    monkeypatch.setattr(warm_python, "cold", True)
    assert run(tmp_path, *arguments.split()) == forked


PROBE = """
import os

def look(emit):
    return [os.environ["PDEBENCH_HSS_DEBUG"], os.getcwd(), os.getsid(os.getppid()), os.getppid()]
"""


@pytest.fixture
def worker(tmp_path, monkeypatch):
    """What a job saw in a new worker, and the worker: its pid, its parent's, and its arguments."""
    (tmp_path / "probe.py").write_text(PROBE)
    monkeypatch.chdir(tmp_path)

    def start() -> tuple[list, int, int, bytes]:
        with WorkerPool(1) as pool:
            *_, last = pool.run([Job("job", "probe:look")])
            place = Path(f"/proc/{pool._workers[0].process.pid}")
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            arguments = (place / "cmdline").read_bytes()
        assert isinstance(last, Done), last
        assert not place.exists()  # it has ended, and was waited for
        return last.value, int(place.name), parent, arguments

    return start


def test_a_worker_is_a_child_with_its_own_session_environment_and_directory(worker, tmp_path, monkeypatch):
    monkeypatch.setenv("PDEBENCH_HSS_DEBUG", "of this test")
    seen, pid, parent, arguments = worker()
    assert b"warm_python.py" in arguments
    assert parent == os.getpid()
    assert seen == ["of this test", str(tmp_path), pid, pid]


@pytest.mark.cold
def test_a_cold_test_starts_new_interpreters(worker, monkeypatch):
    monkeypatch.setenv("PDEBENCH_HSS_DEBUG", "1")
    assert b"warm_python.py" not in worker()[-1]


def test_an_environment_that_imports_could_notice_needs_one_too(worker, monkeypatch):
    monkeypatch.setenv("PDEBENCH_HSS_DEBUG", "1")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    assert b"warm_python.py" not in worker()[-1]
