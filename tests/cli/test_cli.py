"""Wrong input gets one line that says what, where and what to do; nothing recorded is lost by it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "--tasks", "toy", "--models", "toy_cnv"], ["no model 'toy_cnv'. Did you mean 'toy_conv'?"]),
        (["run", "--tasks", "toi"], ["no task 'toi'. Did you mean 'toy'?"]),
        (["run", "--tasks", "zzz*"], ["no task matches 'zzz*'"]),
        (["run"], ["no task was named"]),
        (["run", "--tasks", "toy", "--models", "toy_conv[widht=3]"], ["no option 'widht'. Did you mean 'width'?"]),
        (["run", "--tasks", "toy", "--models", "toy_conv[width]"], ["'width' is not key=value"]),
        (["run", "--tasks", "toy", "--models", "toy_conv[width=big]"], ["width must be int", "'big'"]),
        (["run", "--tasks", "toy_params[factr=1]"], ["no option 'factr'. Did you mean 'factor'?"]),
        (["run", "--tasks", "toy", "--budget", "steps=-5"], ["must be positive, not -5"]),
        (["run", "--tasks", "toy", "--budget", "step=5"], ["no kind 'step'. Did you mean 'steps'?"]),
        (["run", "--tasks", "toy", "--budget", "lots"], ["epochs=N"]),
        (["run", "--tasks", "toy", "--budget", "steps=2.5"], ["whole number"]),
        (["run", "--tasks", "toy", "--seeds", "0"], ["at least 1"]),
        (["run", "--tasks", "toy", "--seeds", "one"], ["write a count (3) or a list (0,7)"]),
        (["run", "--tasks", "toy", "--scale", "smal"], ["no scale 'smal'. Did you mean 'small'?"]),
        (["run", "--tasks", "toy", "--scale", "paper"], ["has no scale 'paper'; it has smoke, small"]),
        (["run", "--tasks", "toy", "--jobs", "-1"], ["--jobs must be positive"]),
        (["run", "--tasks", "toy", "--train-size", "9999"], ["--train-size 9999", "has 64"]),
        (["run", "--tasks", "toy", "--match-params", "huge"], ["'huge' is not a number"]),
        (["run", "--tasks", "toy", "--device", "tpu"], ["no device 'tpu'"]),
        (["run", "--tasks", "toy", "--executor", "proces"], ["Did you mean 'process'?"]),
        (["run", "--tasks", "toy", "--out", "/proc/nowhere"], ["can't write to /proc/nowhere", "--out"]),
        (["run", "--tasks", "toy", "--config", "missing.yaml"], ["missing.yaml: No such file"]),
        (["run", "--tasks", "toy", "--data-dir", "nowhere"], ["--data-dir nowhere: no such directory"]),
        (["run", "--tasks", "toy", "--optoin"], ["--optoin", "--help"]),
        (["rum"], ["rum", "--help"]),
        (["show", "toy_cnv"], ["Did you mean 'toy_conv'?"]),
        (["leaderboard", "empty"], ["holds no records"]),
        (["run", "--tasks", "toy", "--budget", "steps=4,core_seconds=1"], ["a ladder has one kind"]),
        (["plot", "empty", "--kind", "compte"], ["no such figure. Did you mean 'compute'?"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_mistake_is_one_clear_line(cli, toys, arguments, words):
    plugin = ["--plugin", toys] if arguments[0] in ("run", "show") else []
    done = cli(*arguments, *plugin)
    assert done.code == 2, done.out + done.err
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1
    for word in words:
        assert word in done.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("modles: all\ntasks: toy\n", ["unknown key 'modles'. Did you mean 'models'?"]),
        ("models: [all\ntasks: toy\n", ["not valid YAML", "line 2"]),
        ("- toy\n", ["expected keys and values, found a list"]),
    ],
)
def test_a_config_with_a_mistake(cli, tmp_path, text, words):
    (tmp_path / "experiment.yaml").write_text(text)
    done = cli("run", "--config", "experiment.yaml")
    assert done.code == 2
    for word in ["experiment.yaml", *words]:
        assert word in done.err


def test_flags_win_over_the_config(cli, toys, tmp_path):
    (tmp_path / "experiment.yaml").write_text(
        f"models: [toy_conv, mean]\ntasks: toy\nscale: small\nseeds: 2\nplugins: ['{toys}']\n"
    )
    done = cli("run", "--config", "experiment.yaml", "--scale", "smoke", "--models", "mean", "--dry-run")
    assert done.code == 0, done.err
    assert "scale smoke" in done.out
    assert "1 trial: 1 to run" in done.out  # two seeds, which change nothing of `mean`


def test_a_dry_run_leaves_nothing_behind(cli, toys, tmp_path, cache):
    done = cli("run", "--plugin", toys, "--tasks", "toy", "--models", "toy*", "--dry-run", "--out", "board")
    assert done.code == 0
    assert "could not be estimated" in done.out  # some crash or hang as soon as they are built
    assert "skip   toy  toy_rollout_only" in done.out
    assert "rollout tasks only" in done.out
    assert not (tmp_path / "board").exists()
    assert not cache.exists()


def test_debug_shows_where_an_error_came_from(cli):
    assert "Traceback" in cli("show", "nothing", "--debug").err
    assert "Traceback" not in cli("show", "nothing").err


@pytest.mark.parametrize("what", ["models", "tasks", "plugins", "executors"])
def test_lists_are_tables_csv_and_json(cli, what):
    rows = json.loads(cli("list", what, "--format", "json").out)
    csv = cli("list", what, "--format", "csv").out.splitlines()
    assert len(rows) == len(csv) - 1 > 0
    assert csv[0].split(",") == list(rows[0])


def test_version_and_doctor(cli):
    from pdebench_hss import __version__

    assert cli("--version").out == f"pdebench-hss {__version__}\n"
    healthy = cli("doctor")
    assert healthy.code == 0, healthy.out
    for word in ("torch", "GPU", "cache", "plot:"):
        assert word in healthy.out
    ill = cli("doctor", PDEBENCH_HSS_CACHE="/proc/nowhere")
    assert ill.code == 1
    assert "PDEBENCH_HSS_CACHE" in ill.out


def test_doctor_knows_every_extra_that_users_may_add_and_how(monkeypatch, capsys):
    tomllib = pytest.importorskip("tomllib", reason="new in Python 3.11")
    from pdebench_hss.base import machine
    from pdebench_hss.cli import doctor

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(doctor.EXTRAS) == set(extras) - {"test", "docs"}
    for name, extra in doctor.EXTRAS.items():
        assert [re.split("[<>= ;]", line)[0] for line in extras[name]] == list(extra.packages)
    monkeypatch.setattr(machine, "_installed", lambda package: None if package == "matplotlib" else "1.0")
    doctor.doctor()  # something that may be added is no reason for exit code 1
    assert "pip install 'pdebench-hss[plot]'" in capsys.readouterr().out


def test_check_shows_how_far_it_is(monkeypatch, capsys):
    from types import SimpleNamespace

    from pdebench_hss.cli import check, display

    monkeypatch.setattr(display, "PLAIN_SECONDS", 0.0)
    case = SimpleNamespace(name="keeps its word", task=SimpleNamespace(name="toy"), run=lambda: None)
    check._check("net", "net", [case, case], quiet=False)
    assert "check net  1 of 2" in capsys.readouterr().out
    check._check("net", "net", [case, case], quiet=True)
    assert capsys.readouterr().out == ""


def test_match_params_says_how_close_it_came(cli, toys, tmp_path):
    done = cli(
        *("run", "--plugin", toys, "--tasks", "toy", "--models", "toy_conv,mean", "--scale", "smoke"),
        *("--match-params", "1k", "--out", "board"),
    )
    assert done.code == 0, done.err
    assert "1K (+0.1 %)" in done.out  # width 200: 4 w in the first convolution, w + 1 in the second


@pytest.mark.parametrize("command", ["show neural_hss", "list tasks --format json", "run --tasks poisson_1d --dry-run"])
def test_a_reader_that_has_read_enough_is_no_error(command, tmp_path):
    script = f"{sys.executable} -m pdebench_hss {command} | head -c 1 >/dev/null; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_ctrl_c_before_there_is_anything_to_lose_is_answered_too(tmp_path):
    program = (
        "import pdebench_hss.cli.listing as listing\n"
        "def stop(*_, **__): raise KeyboardInterrupt\n"
        "listing.installed = stop\n"
        "from pdebench_hss.cli import main\n"
        "main(['list', 'models'])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "stopped.\n")
