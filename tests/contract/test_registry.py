"""Plugins come in through entry points; one that is broken is reported and stops nobody else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pdebench_hss import ModelSpec, TaskSpec, hookimpl
from pdebench_hss.base.errors import PluginError, UsageError
from pdebench_hss.contract.registry import load_registry

MODEL = """
from pdebench_hss import ModelSpec, hookimpl

@hookimpl
def pdebench_hss_models():
    return [ModelSpec(name="{name}", title="T", build="{module}.net:Net", hparams={{"width": 4}}, size_knob="width")]
"""
NET = """
from torch import nn

class Net(nn.Module):
    def __init__(self, task, width):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(1, width, 3, padding=1), nn.GELU(), nn.Conv1d(width, 1, 1))

    def forward(self, x):
        return self.net(x)
"""


def package(folder: Path, dist: str, module: str, code: str, net: str = NET) -> Path:
    """Write a package as a stranger would."""
    root = folder / dist
    (root / module).mkdir(parents=True)
    (root / module / "__init__.py").write_text(code)
    (root / module / "net.py").write_text(net)
    (root / "pyproject.toml").write_text(
        f'[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        f'[project]\nname = "{dist}"\nversion = "0.3"\n[tool.setuptools]\npackages = ["{module}"]\n'
        f'[project.entry-points.pdebench_hss]\n{module} = "{module}"\n'
    )
    return root


def pip_install(root: Path, target: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--target", str(target), str(root)], check=True, capture_output=True, timeout=120)


def test_installed_packages_show_and_run_and_a_broken_one_stops_nothing(cli, tmp_path):
    site = tmp_path / "site"
    pip_install(package(tmp_path, "acme-solver", "acme_solver", MODEL.format(name="acme", module="acme_solver")), site)
    pip_install(package(tmp_path, "wreck", "wreck", "raise RuntimeError('wrecked on import')"), site)
    where = {"PYTHONPATH": str(site), "COLUMNS": "120"}  # names and versions in one line

    listed = cli("list", "models", **where)
    assert listed.code == 0
    assert "acme-solver 0.3" in listed.out
    assert "warning: plugin 'wreck' (wreck 0.3) failed in import: RuntimeError: wrecked on import" in listed.err
    assert "broken in import" in cli("list", "plugins", **where).out

    run = cli("run", "--models", "acme,mean", "--tasks", "poisson_1d", "--scale", "smoke", "--out", "board", **where)
    assert run.code == 0, run.err
    assert "acme" in (tmp_path / "board" / "leaderboard.csv").read_text()

    strict = cli("list", "models", "--strict-plugins", **where)
    assert strict.code == 2
    assert "wrecked on import" in strict.err


def test_two_plugins_with_one_name_are_both_named(cli, tmp_path):
    site = tmp_path / "site"
    for dist, module in (("first-lab", "first_lab"), ("second-lab", "second_lab")):
        pip_install(package(tmp_path, dist, module, MODEL.format(name="same", module=module)), site)
    done = cli("list", "models", PYTHONPATH=str(site))
    assert done.code == 2
    assert "first-lab 0.3" in done.err
    assert "second-lab 0.3" in done.err
    assert "'same'" in done.err


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import not_there", "ModuleNotFoundError"),
        ("from pdebench_hss import hookimpl\n@hookimpl\ndef pdebench_hss_models(): 1 / 0", "ZeroDivisionError"),
        ("from pdebench_hss import hookimpl\n@hookimpl\ndef pdebench_hss_tasks(): 1 / 0", "ZeroDivisionError"),
        ("from pdebench_hss import hookimpl\n@hookimpl\ndef pdebench_hss_executors(): 1 / 0", "ZeroDivisionError"),
        ("from pdebench_hss import hookimpl\n@hookimpl\ndef pdebench_hss_models(): return 3", "must return a list"),
        ("from pdebench_hss import hookimpl\n@hookimpl\ndef pdebench_hss_models(): return ['fno']", "found str"),
        ("from pdebench_hss import hookimpl\n@hookimpl\ndef pdebench_hss_modles(): return []", "unknown hook"),
        ("from pdebench_hss import ModelSpec\nModelSpec(name='Bad Name', title='', build='a:b')", "lower-case"),
        ("from pdebench_hss import ModelSpec\nModelSpec(name='x', title='', build='no_colon')", "module:attribute"),
        ("from pdebench_hss import ModelSpec\nModelSpec(name='x', title='', build='a:b', role='toy')", "role 'toy'"),
        ("from pdebench_hss import hookimpl\n@hookimpl\ndef pdebench_hss_references(): return ['table']", "found str"),
    ],
)
def test_a_plugin_that_raises_anywhere_is_set_aside(tmp_path, code, words):
    path = tmp_path / "trouble.py"
    path.write_text(code)
    registry = load_registry([path])
    assert [words in b.reason for b in registry.broken] == [True]
    assert "linear" in registry.models
    assert "poisson_1d" in registry.tasks
    with pytest.raises(PluginError, match="trouble"):
        load_registry([path], strict=True)


def test_a_tracker_that_raises_is_reported_and_the_run_goes_on(cli, toys, tmp_path):
    (tmp_path / "tracker.py").write_text(
        "from pathlib import Path\nfrom pdebench_hss import hookimpl\n"
        "@hookimpl\ndef pdebench_hss_trial_finished(record):\n"
        "    Path('seen').open('a').write(f'{record.trial.model}:{len(record.samples[\"error_test_err\"])} ')\n"
        "    raise ValueError('tracker is down')\n"
    )
    done = cli(
        *("run", "--plugin", toys, "--plugin", "tracker.py", "--models", "toy_conv,mean", "--tasks", "toy"),
        *("--scale", "smoke", "--out", "board"),
    )
    assert done.code == 0, done.err
    assert sorted((tmp_path / "seen").read_text().split()) == ["mean:4", "toy_conv:4"]  # with the arrays
    assert done.err.count("tracker is down") == 2


def test_a_missing_plugin_file_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="no such file"):
        load_registry([tmp_path / "nothing.py"])


def test_specs_are_frozen():
    registry = load_registry()
    model, task = registry.model("linear").spec, registry.task("poisson_1d").spec
    assert isinstance(model, ModelSpec)
    assert isinstance(task, TaskSpec)
    with pytest.raises(AttributeError):
        model.name = "other"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        task.metric = "other"  # type: ignore[misc]
    assert hookimpl.project_name == "pdebench_hss"


def test_every_built_in_plugin_is_whole():
    assert load_registry().broken == []
