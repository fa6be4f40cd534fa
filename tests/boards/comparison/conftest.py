"""Two boards that differ in one cell, and the command line within this process."""

from __future__ import annotations

import signal
import warnings
from pathlib import Path

import pytest
from factories.comparisons import make_board

from pdebench_hss.cli import main


@pytest.fixture(scope="module")
def board(tmp_path_factory) -> Path:
    """The reference; no test may change it."""
    return make_board(tmp_path_factory.mktemp("reference") / "board")


@pytest.fixture(scope="module")
def worse(tmp_path_factory) -> Path:
    """A copy in which one cell's errors are 30 % larger; no test may change it."""
    return make_board(tmp_path_factory.mktemp("worse") / "worse", {("heat", "fno"): 1.3})


@pytest.fixture
def command(capsys, monkeypatch):
    """The command line within this process: ``command("compare", ...)`` gives exit code, output and errors."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)

    def call(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return end.value.code, captured.out, captured.err

    return call
