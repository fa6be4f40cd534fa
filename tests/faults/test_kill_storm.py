"""Killed at any moment, also while it writes a record, a driver loses nothing; `kill_storm` says how it is timed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import kill_storm
import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks drivers and mounts a file system")


def storm(variant: str, kills: int, writing: int, timeout: float) -> dict:
    if variant == "disk" and not kill_storm.can_mount():
        pytest.skip("mounting a small file system needs root")
    script = str(Path(__file__).with_name("kill_storm.py"))
    options = ["--kills", str(kills), "--writing", str(writing), "--variant", variant, "--seeds", "2"]
    done = subprocess.run([sys.executable, script, *options], capture_output=True, text=True, timeout=timeout)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def check(counts: dict, kills: int, writing: int) -> None:
    assert (counts["lost"], counts["doubled"], counts["different"]) == (0, 0, 0), counts
    assert counts["complaints"] == []
    assert counts["second_runs_not_refused"] == 0
    assert counts["kills"] >= kills
    assert counts["while_writing"] >= writing


def test_a_few_kills_lose_nothing():
    check(storm("plain", 4, 2, 280), 4, 2)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("variant", kill_storm.VARIANTS)
def test_a_hundred_kills_lose_nothing(variant):
    counts = storm(variant, 100, 40, 3500)
    check(counts, 100, 40)
    if variant == "lock":
        assert counts["refused_second_runs"] > 20
    if variant == "disk":
        assert counts["stopped_by_a_full_disk"] > 5
