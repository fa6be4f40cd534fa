"""What a worker process sets up for the trials in it; how it isolates them is in tests/faults."""

from __future__ import annotations

import itertools
import os
import signal
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pdebench_hss.base.machine import LARGE_PAGES
from pdebench_hss.workers import exchange
from pdebench_hss.workers.events import Crashed, Done, Emitted, Ended, Failed, Started, TimedOut
from pdebench_hss.workers.jobs import Job
from pdebench_hss.workers.pool import WorkerPool
from pdebench_hss.workers.starting import FORK, SPAWN, VARIABLE


def page_faults(emit) -> list[int]:
    """Of each of twenty uses, one after the other, of an array of 16 MB."""
    import resource

    import torch

    faults = []
    for _ in range(21):
        torch.ones(2**22)
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
    return [after - before for before, after in itertools.pairwise(faults)]


def environment(emit) -> dict[str, str]:
    return {name: os.environ[name] for name in LARGE_PAGES}


def name(function) -> str:
    return f"{Path(__file__).stem}:{function.__name__}"


@pytest.fixture
def pool(monkeypatch, request):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    if how := getattr(request, "param", None):
        monkeypatch.setenv(VARIABLE, how)
    with WorkerPool(1) as workers:
        yield workers


however_processes_start = pytest.mark.parametrize(
    "pool",
    [pytest.param(FORK, marks=pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")), SPAWN],
    indirect=True,
)


@pytest.fixture
def in_worker(pool):
    def run(function):
        *_, last = pool.run([Job("job", name(function))])
        assert isinstance(last, Done), last
        return last.value

    return run


@pytest.mark.cold
@pytest.mark.skipif(sys.platform != "linux", reason="glibc's settings")
def test_trials_reuse_memory_instead_of_fetching_pages_again(in_worker):
    # 8 large pages or 4,096 small ones, if each use fetched its own. Some may be reclaimed in between, and count.
    assert statistics.median(in_worker(page_faults)) == 0


@pytest.mark.cold
def test_what_the_environment_says_of_memory_is_left_alone(in_worker, monkeypatch):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "131072")
    assert in_worker(environment) == {**LARGE_PAGES, "MALLOC_TRIM_THRESHOLD_": "131072"}


STATE = []


def first(emit, **_):
    STATE.append("touched")
    emit(step=1, total=None, fraction=0.5, loss=float("nan"))
    return {"pid": os.getpid(), "array": np.arange(3.0)}


def second(emit, left, **_):
    found = exchange.view(left)["value"]
    return {"sum": float(found["array"].sum()), "same": found["pid"] == os.getpid(), "state": STATE}


def fails(emit, **_):
    raise ZeroDivisionError("no")


def dies(emit, **_):
    os.kill(os.getpid(), signal.SIGSEGV)


def exits(emit, **_):
    os._exit(0)


def waits(emit, **_):
    emit(step=0)
    time.sleep(30)


def lasts(emit, **_):
    emit(step=0)
    time.sleep(1)
    return "kept"


def pair(one, two) -> Job:
    return Job(f"{one.__name__}, {two.__name__}", name(one), then=name(two))


@however_processes_start
def test_the_second_half_has_a_process_of_its_own_where_the_first_has_left_no_trace(pool):
    started, progress, done = pool.run([pair(first, second)])
    assert [type(event) for event in (started, progress, done)] == [Started, Emitted, Done]
    assert done.value == {"sum": 3.0, "same": False, "state": []}


def endings(pool, *jobs, timeout=None) -> dict[str, Ended]:
    return {event.job.id: event for event in pool.run(jobs, timeout) if isinstance(event, Ended)}


@however_processes_start
def test_a_job_ends_with_the_half_that_does_not_end_well(pool):
    pairs = [pair(fails, second), pair(dies, second), pair(exits, second), pair(first, fails), pair(first, dies)]
    found = endings(pool, *pairs)
    assert {key: type(event) for key, event in found.items()} == {
        "fails, second": Failed,
        "dies, second": Crashed,
        "exits, second": Crashed,
        "first, fails": Failed,
        "first, dies": Crashed,
    }
    assert found["first, fails"].failure.kind == "ZeroDivisionError"
    assert found["first, dies"].reason == "SIGSEGV"
    assert found["exits, second"].reason == "exit code 0"
    assert isinstance(endings(pool, pair(first, waits), timeout=1.0)["first, waits"], TimedOut)
    assert os.listdir(pool._scratch.name) == [".owner"]  # nothing is left behind


@however_processes_start
def test_a_request_to_stop_does_not_lose_what_only_has_to_be_judged(pool):
    for event in pool.run([pair(first, lasts)]):
        if isinstance(event, Emitted) and event.values == {"step": 0}:
            break
    (ended,) = pool.stop()
    assert isinstance(ended, Done)
    assert ended.value == "kept"


# --- the next job is sent before anybody hears of the last one -------------------------------------------------------


def number(emit, value: int) -> int:
    return value


def jobs_that_end_with(error: BaseException, after: int):
    """Jobs that are made one by one, until making one fails."""
    for value in range(after):
        yield Job(str(value), name(number), {"value": value})
    raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError("no more processes")], ids=["interrupt", "error"])
def test_what_has_ended_is_told_before_what_went_wrong_with_the_next(pool, error):
    """The first is made at once, the second with the first sent, the third when the first has ended."""
    ended = []
    with pytest.raises(type(error)):  # noqa: PT012
        for event in pool.run(jobs_that_end_with(error, after=2)):
            if isinstance(event, Done):
                ended.append(event.value)
    assert ended == [0]


def test_jobs_are_made_when_there_is_a_worker_for_them_and_end_once_in_order(pool):
    made, ended = [], []

    def jobs():
        for value in range(5):
            made.append(value)
            yield Job(str(value), name(number), {"value": value})

    for event in pool.run(jobs()):
        if isinstance(event, Done):
            ended.append(event.value)
            assert len(made) <= len(ended) + 2  # one that runs, one that waits
    assert ended == made == list(range(5))
