"""A plugin that is developed without a new version: its records are used, and the run says so."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pdebench_hss.runs.config import make_config
from pdebench_hss.runs.reporter import Reporter
from pdebench_hss.runs.runner import Outcome, Run

PLUGIN = """
from pdebench_hss import ModelSpec, hookimpl

@hookimpl
def pdebench_hss_models():
    return [ModelSpec(name="steady", title="Steady", build="my_steady.network:Zero", version="{version}")]
"""
NETWORK = """
import numpy as np

class Zero:
    def __init__(self, task):
        self.task = task

    def parameters(self):
        return iter(())

    def solve(self, inputs):
        return np.zeros((len(inputs), self.task.out_channels, *self.task.grid))
"""


class Listener(Reporter):
    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, message: str) -> None:
        self.warnings.append(message)


@pytest.fixture
def installed(tmp_path, monkeypatch) -> Path:
    """A distribution with one model, as pip would install it; returns the folder of its package."""
    metadata = tmp_path / "site" / "my_steady-0.1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "entry_points.txt").write_text("[pdebench_hss]\nsteady = my_steady\n")
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my-steady\nVersion: 0.1\n")
    package = tmp_path / "site" / "my_steady"
    package.mkdir()
    (package / "__init__.py").write_text(PLUGIN.format(version=1))
    (package / "network.py").write_text(NETWORK)
    monkeypatch.syspath_prepend(str(metadata.parent))
    yield package
    forget()


def forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "my_steady"]:
        del sys.modules[name]


def run(toys: str, board: Path, **options) -> tuple[Outcome, list[str]]:
    """As a new process would run it."""
    forget()
    listener = Listener()
    settings = {"models": "steady", "tasks": "toy", "scale": "smoke", "executor": "inline", "plugins": [toys]}
    outcome = Run(make_config({**settings, "out": str(board), **options}), reporter=listener).execute()
    return outcome, listener.warnings


def test_a_run_warns_of_a_source_that_changed_without_its_version(installed, toys, tmp_path):
    first, warnings = run(toys, tmp_path / "board")
    assert first.records[0].status == "ok", first.records[0].reason
    assert warnings == []
    (installed / "network.py").write_text(NETWORK.replace("zeros", "ones"))
    second, warnings = run(toys, tmp_path / "board")
    assert second.records[0].key == first.records[0].key
    assert second.records[0].metrics == first.records[0].metrics  # the record was used
    assert warnings == [
        "the source of model 'steady' (my-steady 0.1) changed since 1 cached record was made, and its version '1' did "
        "not; if results can differ, raise ModelSpec.version or add --force"
    ]
    forced, warnings = run(toys, tmp_path / "board", force=True)
    assert warnings == []
    assert forced.records[0].metrics != first.records[0].metrics
    assert run(toys, tmp_path / "board")[1] == []  # its record is of the source that is there now


def test_a_new_version_is_run_and_needs_no_warning(installed, toys, tmp_path):
    first, _ = run(toys, tmp_path / "board")
    (installed / "__init__.py").write_text(PLUGIN.format(version=2))
    second, warnings = run(toys, tmp_path / "board")
    assert warnings == []
    assert second.records[0].key != first.records[0].key


def test_a_file_that_is_moved_within_its_package_is_no_change(installed, toys, tmp_path):
    first, _ = run(toys, tmp_path / "board")
    (installed / "rooms").mkdir()
    (installed / "network.py").rename(installed / "rooms" / "network.py")
    second, warnings = run(toys, tmp_path / "board")
    assert warnings == []
    assert second.records[0].key == first.records[0].key


def test_a_release_that_changes_no_source_runs_nothing_again(installed, toys, tmp_path):
    first, _ = run(toys, tmp_path / "board")
    old = installed.parent / "my_steady-0.1.dist-info"
    new = old.rename(installed.parent / "my_steady-0.2.dist-info")
    (new / "METADATA").write_text("Metadata-Version: 2.1\nName: my-steady\nVersion: 0.2\n")
    second, warnings = run(toys, tmp_path / "board")
    assert [cell.action for cell in second.plan.cells] == ["cached"]
    assert warnings == []
    assert second.records[0].provenance["plugins"]["model"]["version"] == "0.1"  # that it was made with
    assert first.records[0].provenance["versions"]["my-steady"] == "0.1"
