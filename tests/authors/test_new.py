"""`new` writes packages that are complete, and refuses names that could not work."""

from __future__ import annotations

import compileall
import subprocess
import sys

import pytest

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib


@pytest.mark.parametrize("kind", ["model", "task"])
def test_a_new_package_is_complete_and_tidy(cli, tmp_path, kind):
    done = cli("new", kind, "wave_net", "--into", "projects")
    assert done.code == 0, done.err
    folder = tmp_path / "projects" / "wave_net"
    project = tomllib.loads((folder / "pyproject.toml").read_text())
    assert project["project"]["entry-points"]["pdebench_hss"] == {"wave_net": "wave_net"}
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {f"wrote  {path.relative_to(tmp_path)}" for path in files} <= set(done.out.splitlines())
    assert not [path for path in files if "$" in path.read_text() or path.suffix == ".tmpl"]
    assert compileall.compile_dir(str(folder), quiet=1)
    for check in (["check"], ["format", "--check"]):
        command = [sys.executable, "-m", "ruff", *check, "--isolated", "--line-length", "120", "."]
        assert subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0


def test_nothing_is_overwritten(cli, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    done = cli("new", "model", "mine")
    assert done.code == 2
    assert "mine exists already" in done.err
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("My-Solver", "lower-case letters, digits and _"),
        ("1d_solver", "start with a letter"),
        ("../escape", "lower-case letters"),
        ("lambda", "a Python keyword"),
        ("resnet", "a model 'resnet' exists already, from pdebench-hss"),
        ("json", "a Python module of that name is installed"),
        ("torch", "a Python module of that name is installed"),
    ],
)
def test_a_bad_name_is_refused_with_the_reason(cli, tmp_path, name, reason):
    done = cli("new", "model", name)
    assert done.code == 2
    assert reason in done.err
    assert done.err.count("\n") == 1
    assert not [path for path in tmp_path.iterdir() if path.name != "cache"]


def test_a_task_may_have_the_name_of_a_model_but_not_of_a_task(cli):
    assert "a task 'heat_1d' exists already" in cli("new", "task", "heat_1d").err
    assert cli("new", "task", "resnet").code == 0
