"""Looking around is cheap: help, version and lists import neither torch nor scipy."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

# Runs the command line and then tells, on the last line, how it ended and what was imported.
PROGRAM = """
import json, sys
from pdebench_hss.cli import main
try:
    main(sys.argv[1:])
    code = 0
except SystemExit as end:
    code = end.code or 0
print()
print(json.dumps({"code": code, "heavy": [m for m in ("torch", "scipy") if m in sys.modules]}))
"""


def run(*arguments: str) -> tuple[str, dict]:
    """What the command printed, and the report about it."""
    command = [sys.executable, "-c", PROGRAM, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    *printed, report = done.stdout.strip().splitlines()
    return "\n".join(printed), json.loads(report)


@pytest.mark.parametrize(
    ("command", "shows"),
    [
        ("--help", "leaderboard"),
        ("--version", "pdebench-hss 0"),
        ("list models", "resnet"),
        ("list tasks", "poisson_1d"),
        ("list plugins", "baselines"),
        ("list executors", "process"),
        ("list studies", "exact_recovery"),
        ("run --help", "--match-params"),
        ("show burgers_beta", "persistence"),
        ("show poisson_1d", "relative_l2"),
        ("show resnet", "width"),
        ("cite resnet", "he2016deep"),
    ],
)
def test_looking_around_imports_neither_torch_nor_scipy(command, shows):
    printed, report = run(*command.split())
    assert shows in printed  # it really did its work
    assert report == {"code": 0, "heavy": []}


def test_the_check_would_notice(tmp_path):
    """A plugin that imports what is heavy is exactly what must not happen: the same program reports it."""
    plugin = tmp_path / "heavy_plugin.py"
    plugin.write_text("import scipy\n")
    _, report = run("list", "models", "--plugin", str(plugin))
    assert report == {"code": 0, "heavy": ["scipy"]}


@pytest.mark.parametrize(
    "module",
    [
        *("pdebench_hss", "pdebench_hss.contract.registry", "pdebench_hss.contract.identity"),
        *("pdebench_hss.trials.trial", "pdebench_hss.trials.context", "pdebench_hss.trials.record"),
        *("pdebench_hss.trials.store", "pdebench_hss.workers.pool", "pdebench_hss.training.progress"),
        *("pdebench_hss.runs.config", "pdebench_hss.runs.reporter", "pdebench_hss.runs.executors.halves"),
    ],
)
def test_importing_the_package_imports_neither(module):
    program = f"import sys, {module}; print([m for m in ('torch', 'scipy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "[]"
