"""Shared fixtures: an isolated data cache, the command line as a subprocess, and a plugin file full of trouble."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

TOYS = Path(__file__).parent / "toys" / "toy_plugin.py"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test has a data cache of its own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("PDEBENCH_HSS_CACHE", str(folder))
    return folder


@pytest.fixture
def toys() -> str:
    return str(TOYS)


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


@pytest.fixture
def cli(tmp_path: Path):
    """``cli("run", "--tasks", ...)`` as a stranger would type it, in an empty directory."""

    def call(*arguments: str, timeout: float = 120, **environment: str) -> Result:
        done = subprocess.run(
            [sys.executable, "-m", "pdebench_hss", *arguments],
            cwd=tmp_path,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    return call
