"""Whatever a plugin does when it is imported or asked: it is one line of warning, and all else stays as it was."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from pdebench_hss.contract.guard import LIMIT_VARIABLE, Misbehaved, contained
from pdebench_hss.contract.registry import HUNG_VARIABLE, load_registry

HOOK = "from pdebench_hss import ModelSpec, hookimpl\n@hookimpl\ndef pdebench_hss_{name}():\n    {body}\n"
SPEC = "ModelSpec(name='twin', title='', build='a:b')"


def state() -> dict:
    return {
        "cwd": os.getcwd(),
        "environment": dict(os.environ),
        "handlers": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "random": random.getstate(),
        "numpy": np.random.get_state()[1].tobytes(),  # noqa: NPY002
        "numpy errors": np.geterr(),
        "torch": torch.get_rng_state().numpy().tobytes(),
        "dtype": torch.get_default_dtype(),
        "device": torch.get_default_device(),
        "grad": torch.is_grad_enabled(),
        "threads": torch.get_num_threads(),
        "streams": (sys.stdout, sys.stderr),
    }


def load(tmp_path, code, name="trouble"):
    path = tmp_path / f"{name}.py"
    path.write_text(code)
    return load_registry([path])


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import sys; sys.exit()", "failed in import: called sys.exit()"),
        ("raise KeyboardInterrupt", "failed in import: raised KeyboardInterrupt"),
        ("class E(BaseException): pass\nraise E", "failed in import: raised E"),
        ("class E(Exception):\n  def __str__(self): return 1 / 0\nraise E", "import: E: (its message raised ZeroDiv"),
        ("raise ValueError('\\x1b[2Jgone\\nsecond line')", "ValueError: ?[2Jgone"),
        (HOOK.format(name="models", body="raise SystemExit(3)"), "pdebench_hss_models: called sys.exit(3)"),
        (HOOK.format(name="benches", body="raise SystemExit"), "pdebench_hss_benches: called sys.exit()"),
        (HOOK.format(name="executors", body="return ['process']"), "pdebench_hss_executors must return a dict"),
        (HOOK.format(name="executors", body="return {'a': 7}"), "must be 'package.module:attribute', not 7"),
        (HOOK.format(name="executors", body="return {'a': print}"), "must be 'module:attribute'"),
        (HOOK.format(name="benches", body="return {3: 'a:b'}"), "3 is not a valid name"),
        (HOOK.format(name="studies", body="return [object()]"), "must return a list of Study, found object"),
        (HOOK.format(name="studies", body="return (x for x in [])"), "must return a list, not generator"),
        (HOOK.format(name="models", body=f"return [{SPEC}, {SPEC}]"), "returns 'twin' 2 times"),
        (HOOK.format(name="models", body="return 0"), "must return a list, not int"),
        ("import os; os.chdir('/')", "failed in import: changed the working directory"),
        ("import os; os.environ['OMP_NUM_THREADS'] = '77'", "changed the environment"),
        ("import os; os.environ.pop('PATH'); 1 / 0", "ZeroDivisionError"),
        ("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)", "changed the handler of SIGTERM"),
        ("import signal; signal.alarm(1000); signal.signal(signal.SIGALRM, print)", "changed the handler of SIGALRM"),
        ("import random; random.seed(0)", "changed Python's random state"),
        ("import numpy; numpy.random.seed(0)", "changed numpy's random state"),
        ("import numpy; numpy.seterr(all='ignore')", "changed numpy's handling of errors"),
        ("import torch; torch.manual_seed(0)", "changed torch's random state"),
        ("import torch; torch.set_default_dtype(torch.float64)", "changed torch's default dtype"),
        ("import torch; torch.set_default_device('meta')", "changed torch's default device"),
        ("import torch; torch.set_grad_enabled(False)", "changed torch's grad mode"),
        ("import torch; torch.set_num_threads(7)", "changed torch's number of threads"),
        (
            HOOK.format(name="tasks", body="import os; os.chdir('/'); return []"),
            "_tasks: changed the working directory",
        ),
    ],
)
def test_a_plugin_that_misbehaves_is_set_aside_in_one_line_and_nothing_else_changes(tmp_path, code, words):
    before = state()
    registry = load(tmp_path, code)
    (broken,) = registry.broken
    assert words in str(broken)
    assert str(broken).startswith("plugin 'trouble' (trouble.py ")
    assert "\n" not in str(broken)
    assert "linear" in registry.models
    assert state() == before


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "import time; time.sleep(600)",
        "import time\nfor _ in range(3):\n  try: time.sleep(600)\n  except BaseException: pass\ntime.sleep(600)",
        HOOK.format(name="studies", body="import time; time.sleep(600)"),
    ],
)
def test_a_plugin_that_hangs_is_set_aside_and_processes_started_later_do_not_wait_again(tmp_path, code, monkeypatch):
    monkeypatch.setenv(LIMIT_VARIABLE, "0.3")
    monkeypatch.setenv(HUNG_VARIABLE, "")
    handlers = state()["handlers"]
    start = time.monotonic()
    (broken,) = load(tmp_path, code).broken
    assert "did not end within 0.3 s" in str(broken)
    assert time.monotonic() - start < 20
    assert state()["handlers"] == handlers
    monkeypatch.setenv(LIMIT_VARIABLE, "600")
    (broken,) = load(tmp_path, code).broken
    assert "did not end in time before" in str(broken)


def test_one_that_swallows_every_alarm_ends_the_command_with_a_line_that_names_it(cli, tmp_path):
    (tmp_path / "stubborn.py").write_text(
        "import time\nwhile True:\n    try:\n        time.sleep(600)\n    except BaseException:\n        pass\n"
    )
    done = cli("list", "models", "--plugin", "stubborn.py", **{LIMIT_VARIABLE: "0.5"})
    assert done.code == 2
    assert "error: plugin 'stubborn' (stubborn.py " in done.err
    assert "can't be stopped" in done.err


def test_a_clock_of_somebody_outside_goes_on():
    rang = []
    before = signal.signal(signal.SIGALRM, lambda *_: rang.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        with contained("a plugin"):
            time.sleep(0.1)
        time.sleep(0.6)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert rang == [1]


def test_ctrl_c_by_the_user_is_still_ctrl_c_even_if_the_plugin_swallows_it():
    with pytest.raises(KeyboardInterrupt), contained("a plugin"), contextlib.suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    with pytest.raises(Misbehaved, match="raised KeyboardInterrupt"), contained("a plugin"):
        raise KeyboardInterrupt


def test_what_a_plugin_prints_does_not_stand_in_the_table(cli, tmp_path):
    (tmp_path / "chatty.py").write_text("import os\nprint('welcome')\nos.write(1, b'from C\\n')\n")
    done = cli("list", "models", "--format", "json", "--plugin", "chatty.py")
    assert done.code == 0
    assert {"linear", "fno"} <= {row["model"] for row in json.loads(done.out)}
    assert "welcome" in done.err
    assert "from C" in done.err


BAD_TRACKER = """
import os, random, sys
from pdebench_hss import hookimpl
if {at_import}:
    os.chdir("/")

@hookimpl
def pdebench_hss_trial_finished(record):
    os.environ["OF_THE_TRACKER"] = "stays"
    {body}
"""


@pytest.mark.parametrize(
    ("at_import", "body", "words"),
    [
        (False, "sys.exit()", "pdebench_hss_trial_finished: called sys.exit()"),
        (False, "os.chdir('/')", "pdebench_hss_trial_finished: changed the working directory"),
        (False, "os.environ['PATH'] = ''", "pdebench_hss_trial_finished: changed the environment"),
        (False, "pass", ""),
        (True, "pass", "failed in import: changed the working directory"),
    ],
)
def test_a_relative_out_stays_where_it_was_asked_for_and_all_records_are_there(
    cli, toys, tmp_path, at_import, body, words
):
    (tmp_path / "tracker.py").write_text(BAD_TRACKER.format(at_import=at_import, body=body))
    done = cli(
        *("run", "--plugin", toys, "--plugin", "tracker.py", "--models", "toy_conv,mean", "--tasks", "toy"),
        *("--scale", "smoke", "--executor", "inline", "--out", "board"),
    )
    assert done.code == 0, done.err
    assert len(list((tmp_path / "board" / "records").glob("*.json"))) == 2
    assert "toy_conv" in (tmp_path / "board" / "leaderboard.csv").read_text()
    assert words in done.err
    assert ("warning" in done.err) == bool(words)
    assert "Traceback" not in done.out + done.err


def test_sys_exit_in_a_model_or_where_a_plugin_answers_never_ends_a_run_as_if_all_were_well(cli, toys, tmp_path):
    (tmp_path / "leaver.py").write_text(
        "import sys\nfrom pdebench_hss import ModelSpec, hookimpl\n"
        "class Net:\n    def __init__(self, task): sys.exit(0)\n"
        "@hookimpl\ndef pdebench_hss_models():\n"
        "    return [ModelSpec(name='leaver', title='', build='leaver:Net'),\n"
        "            ModelSpec(name='coy', title='', build='leaver:Net', supports=lambda task: sys.exit(0))]\n"
        "@hookimpl\ndef pdebench_hss_executors():\n    return {'gone': 'leaver_executor:Executor'}\n"
    )
    (tmp_path / "leaver_executor.py").write_text("import sys\nsys.exit(0)\n")
    shared = ("run", "--plugin", toys, "--plugin", "leaver.py", "--tasks", "toy", "--scale", "smoke", "--out", "board")
    for executor in ("inline", "process"):
        done = cli(*shared, "--models", "leaver,mean", "--executor", executor)
        assert done.code == 1, done.err
        assert "SystemExit" in done.out
        assert "mean" in (tmp_path / "board" / "leaderboard.csv").read_text()
    done = cli(*shared, "--models", "coy,mean")
    assert done.code == 2
    assert "model 'coy' (leaver.py" in done.err
    done = cli(*shared, "--models", "mean", "--executor", "gone")
    assert done.code == 2
    assert "executor 'gone': plugin 'leaver' (leaver.py " in done.err
    assert "called sys.exit(0)" in done.err
    done = cli("show", "coy", "--plugin", "leaver.py")
    assert done.code == 1
    assert "error: a plugin called sys.exit(0)" in done.err


def test_a_broken_distribution_is_named_and_torch_is_not_imported_to_restore_it(tmp_path):
    info = tmp_path / "site" / "rude_solver-2.1.dist-info"
    info.mkdir(parents=True)
    (tmp_path / "site" / "rude_solver.py").write_text("import os, sys\nos.chdir('/')\nsys.exit(0)\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rude-solver\nVersion: 2.1\n")
    (info / "entry_points.txt").write_text("[pdebench_hss]\nrude = rude_solver\n")
    program = (
        "import os, sys\nfrom pdebench_hss.contract.registry import load_registry\n"
        "print(load_registry().broken[0], os.getcwd(), [m for m in ('torch', 'scipy') if m in sys.modules], sep='|')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    line, cwd, heavy = done.stdout.strip().split("|")
    assert line == "plugin 'rude' (rude-solver 2.1) failed in import: called sys.exit(0)"
    assert Path(cwd) == tmp_path
    assert heavy == "[]"
