"""Shared fixtures: an isolated data cache, the command line as a subprocess, and a plugin file full of trouble."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from patience import be_patient

# Tests run side by side, one core each; what they start inherits this, so that a run in a test has one job by default.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# What the developer has added to the cache is no task of these tests, not even where they are collected.
os.environ["PDEBENCH_HSS_CACHE"] = os.path.join(tempfile.gettempdir(), "pdebench-hss-tests-outside-of-a-test")
if (worker := os.environ.get("PYTEST_XDIST_WORKER", "")) and hasattr(os, "sched_setaffinity"):
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[int(worker.removeprefix("gw")) % len(cores)]})

if sys.platform == "linux":
    import warm_python

    subprocess.Popen = warm_python.Popen
else:
    warm_python = None

TOYS = Path(__file__).parent / "toys" / "toy_plugin.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    be_patient(items)
    items.sort(key=lambda item: item.get_closest_marker("early") is None)  # a stable sort: the others keep their order


# In CI everything is installed that a test may need, so a skip there means that something went missing unnoticed.
NOTHING_SKIPS = "PDEBENCH_HSS_NOTHING_SKIPS"


def _without_skips(report):
    if report.skipped and os.environ.get(NOTHING_SKIPS) and not hasattr(report, "wasxfail"):
        report.outcome, report.longrepr = "failed", f"skipped, and {NOTHING_SKIPS} is set: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    return _without_skips((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report():
    return _without_skips((yield))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Commands and workers are forks of a process that has imported torch, or new interpreters for a ``cold`` test."""
    if warm_python:
        warm_python.cold = item.get_closest_marker("cold") is not None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol():
    """No test leaves the environment changed: libraries do, and then processes could no longer be forks."""
    before = dict(os.environ)
    try:
        return (yield)
    finally:
        for name in [name for name in os.environ if name not in before]:
            del os.environ[name]
        os.environ.update(before)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test has a data cache of its own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("PDEBENCH_HSS_CACHE", str(folder))
    return folder


@pytest.fixture(scope="session")
def toys() -> str:
    return str(TOYS)


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


def command_line(folder: Path, **always: str):
    """``call("run", "--tasks", ...)`` as a stranger would type it in that directory."""

    def call(*arguments: str, timeout: float = 120, **environment: str) -> Result:
        done = subprocess.run(
            [sys.executable, "-m", "pdebench_hss", *arguments],
            cwd=folder,
            env={**os.environ, **always, **environment},
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    return call


@pytest.fixture
def cli(tmp_path: Path):
    """The command line in an empty directory."""
    return command_line(tmp_path)


@pytest.fixture(scope="module")
def shared_cli(tmp_path_factory: pytest.TempPathFactory):
    """A directory and the command line in it, for a run that the tests of a module only read."""
    folder = tmp_path_factory.mktemp("shared")
    return folder, command_line(folder, PDEBENCH_HSS_CACHE=str(folder / "cache"))
