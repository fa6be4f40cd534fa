"""What a worker process sets up for the trials in it; how it isolates them is in tests/faults."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from pdebench_hss.machine import LARGE_PAGES
from pdebench_hss.pool import WorkerPool
from pdebench_hss.worker import Job


def page_faults(emit) -> int:
    """Of twenty uses, one after the other, of an array of 16 MB."""
    import resource

    import torch

    faults = []
    for _ in range(21):
        torch.ones(2**22)
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
    return faults[-1] - faults[0]


def environment(emit) -> dict[str, str]:
    return {name: os.environ[name] for name in LARGE_PAGES}


@pytest.fixture
def in_worker(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))

    def run(function):
        with WorkerPool(1) as pool:
            *_, last = pool.run([Job("job", f"{Path(__file__).stem}:{function.__name__}")])
        assert last.kind == "done", last
        return last.value

    return run


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's settings")
def test_trials_reuse_memory_instead_of_fetching_pages_again(in_worker):
    assert in_worker(page_faults) < 20  # 160 large pages or 81,920 small ones, if each use fetched its own


def test_what_the_environment_says_of_memory_is_left_alone(in_worker, monkeypatch):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "131072")
    assert in_worker(environment) == {**LARGE_PAGES, "MALLOC_TRIM_THRESHOLD_": "131072"}
